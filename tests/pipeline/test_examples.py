"""The data beside the examples fits their schema."""

import sys
from pathlib import Path

import omnigraph
from tests.support.fast import FAST

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
sys.path.insert(0, str(EXAMPLES))

import generate  # noqa: E402 - examples are scripts, not a package


def test_the_example_company_loads_with_its_vectors(tmp_path):
    with omnigraph.init(str(tmp_path / "c.omni"), EXAMPLES / "company.pg", options=FAST) as graph:
        result = graph.load(EXAMPLES / "company.jsonl")
        assert set(result.nodes_loaded) == set(graph.catalog.nodes)
        assert set(result.edges_loaded) == set(graph.catalog.edges)
        assert result.embedded == 7


def test_the_generated_company_fits_the_schema_and_is_the_same_every_time(tmp_path):
    sizes = [generate.write(tmp_path / name, 20) for name in ("a.jsonl", "b.jsonl")]
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    with omnigraph.init(str(tmp_path / "c.omni"), EXAMPLES / "company.pg", options=FAST) as graph:
        result = graph.load(tmp_path / "a.jsonl")
        loaded = sum(result.nodes_loaded.values()) + sum(result.edges_loaded.values())
        assert [loaded] * 2 == sizes
        found = graph.query(EXAMPLES / "company.gq", "experts", {"question": "a full disk"})
        assert found.columns == ["expert", "project", "partner", "because"]
