"""The data beside the examples fits their schema."""

from pathlib import Path

import omnigraph
from tests.support.fast import FAST

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def test_the_example_company_loads_with_its_vectors(tmp_path):
    with omnigraph.init(str(tmp_path / "c.omni"), EXAMPLES / "company.pg", options=FAST) as graph:
        result = graph.load(EXAMPLES / "company.jsonl")
        assert set(result.nodes_loaded) == set(graph.catalog.nodes)
        assert set(result.edges_loaded) == set(graph.catalog.edges)
        assert result.embedded == 7
