"""A fused ranking cuts the vector side at the limit and keeps every text that matches."""

import numpy as np
import pyarrow as pa

from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.compile import compile_query
from omnigraph.compiler.source import Source
from omnigraph.engine.read.prepare import prepare
from omnigraph.engine.read.run import run_read
from tests.support.memory_images import MemoryImages

SCHEMA = "node Doc {\n  key: String @key\n  text: String\n  vector: Vector(2)\n}\n"
COUNT = 500


def test_a_text_far_down_its_list_still_adds_to_its_score():
    catalog = load_schema(Source(SCHEMA)).catalog
    ids = [f"d{number:03}" for number in range(COUNT)]
    # Longer texts are less relevant, so the last document is the least relevant one.
    texts = ["word " + "pad " * (number + 1) for number in range(COUNT)]
    angles = np.linspace(1.0, 0.0, COUNT)
    vectors = [[float(np.cos(angle)), float(np.sin(angle))] for angle in angles]
    docs = pa.table(
        {
            "id": ids,
            "key": ids,
            "text": texts,
            "vector": pa.array(vectors, pa.list_(pa.float32(), 2)),
        }
    )
    compiled = compile_query(
        catalog,
        "query q($v: Vector(2)) { match { $d: Doc } return { $d.key as key, "
        'rrf(nearest($d.vector, $v), bm25($d.text, "word")) as score } '
        "order { score desc } limit 3 }",
    )
    bound = compiled.bind({"v": [1.0, 0.0]}, now_ms=0)
    answer = run_read(prepare(compiled.ir), MemoryImages(catalog, {"node:Doc": docs}), bound)
    rows = answer.to_table().to_pylist()
    # The three nearest are the three least relevant; both ranks count.
    expected = {
        f"d{COUNT - 1 - place:03}": 1 / (60 + place + 1) + 1 / (60 + COUNT - place)
        for place in range(3)
    }
    assert {row["key"]: row["score"] for row in rows} == expected
