"""A disk that takes no more while a load keeps rows or writes fragments: the graph is as it was."""

import subprocess
import sys
import textwrap

import pytest

import omnigraph
from tests.pipeline.conftest import jsonl, node
from tests.support.fast import FAST

SCHEMA = 'node Doc {\n  text: String\n  v: Vector(64)? @embed("text")\n}\n'
# A limit on the size of files stands for the full disk: writes fail in the kernel, half-way.
PROGRAM = """
    import io, resource, sys
    from pathlib import Path
    import numpy as np
    import omnigraph
    from omnigraph.storage.options import StorageOptions
    class Ones:
        space = "test/ones"
        def embed_documents(self, texts, dim):
            if sys.argv[3] == "embed":
                limit()
            return np.ones((len(texts), dim), np.float32)
        embed_queries = embed_documents
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    class Full:
        def stage(self, name, tasks):
            if name == sys.argv[3]:
                limit()
        def done(self, rows, bad, size=0):
            pass
    storage = StorageOptions(durability="os", maintenance="manual")
    options = omnigraph.GraphOptions(storage=storage, embedder=Ones())
    with omnigraph.connect(sys.argv[1], options=options) as graph:
        try:
            if sys.argv[3] == "export":
                limit()
                graph.export(io.BytesIO())
            data = Path(sys.argv[2]).read_bytes() if sys.argv[3] == "plan" else sys.argv[2]
            if sys.argv[3] == "plan":
                limit()
            graph.load(data, engine="inline", progress=Full())
        except omnigraph.errors.OmniGraphError as error:
            print(type(error).__name__, "|", error)
"""


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=FAST) as made:
        made.load(jsonl(node("Doc", text="before")), mode="append")
        yield made


@pytest.mark.parametrize(
    ("stage", "kind", "told"),
    [
        ("plan", "StagingError", "cannot write to "),
        ("read", "StagingError", "cannot write to "),
        ("embed", "StagingError", "cannot keep vectors in "),
        ("write", "StorageError", "failed writing fragments of "),
    ],
)
def test_a_full_disk_is_a_typed_error_and_changes_nothing(graph, tmp_path, stage, kind, told):
    data = tmp_path / "x.jsonl"
    data.write_bytes(jsonl(*(node("Doc", text=f"{at:04}" * 100) for at in range(2_000))))
    before = graph.snapshot().commit_id
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(PROGRAM), graph.uri, data, stage],
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert (done.returncode, done.stderr) == (0, "")
    name, _, message = done.stdout.partition(" | ")
    assert name == kind
    assert message.startswith(told)
    assert "too large" in message or "full" in message or "I/O" in message
    assert graph.snapshot().commit_id == before
    assert graph.snapshot().table("node:Doc").row_count == 1
    assert list(graph.store.kernel.objects.path("__staging").iterdir()) == []
    assert all(one.harmless for one in graph.verify())
    assert graph.load(data, mode="append", engine="inline").nodes_loaded == {"Doc": 2_000}


def test_an_export_that_finds_the_disk_full_says_so(graph, tmp_path):
    data = jsonl(*(node("Doc", text=f"{at:04}" * 100) for at in range(2_000)))
    graph.load(data, mode="append", engine="inline")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(PROGRAM), graph.uri, "-", "export"],
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("StagingError | cannot write to ")
