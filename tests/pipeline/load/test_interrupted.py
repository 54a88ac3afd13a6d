"""Loads beside other writers, and loads that die: the graph is as before or as after."""

import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import omnigraph
from omnigraph.api.violations import Rule
from omnigraph.engine.write.violations import ConstraintError
from omnigraph.errors import ConflictError
from omnigraph.storage.options import Retention, StorageOptions
from omnigraph.storage.upkeep.cleanup import CleanupPolicy
from tests.pipeline.conftest import edge, jsonl, node, rows
from tests.support.fast import FAST

ADA, BOB = node("Person", name="ada"), node("Person", name="bob")
DOCS = 'node Doc {\n  slug: String @key\n  text: String\n  v: Vector(2)? @embed("text")\n}\n'


class At:
    """Does something when a stage of a load begins."""

    def __init__(self, name, act):
        self._name, self._act = name, act

    def stage(self, name, tasks):
        if name == self._name:
            self._act()

    def done(self, rows, bad, size=0):
        pass


class Meanwhile:
    """An embedder that lets somebody else write in the middle of a load."""

    space = "test/two"

    def __init__(self):
        self.act = lambda: None

    def embed_documents(self, texts, dim):
        self.act()
        return np.ones((len(texts), dim), np.float32)

    embed_queries = embed_documents


@pytest.fixture
def docs(tmp_path):
    """A graph whose loads call `meanwhile.act` after they have begun to write."""
    meanwhile = Meanwhile()
    options = omnigraph.GraphOptions(storage=FAST.storage, embedder=meanwhile)
    with omnigraph.init(str(tmp_path / "docs.omni"), DOCS, options=options) as graph:
        graph.meanwhile = meanwhile
        yield graph


def doc(slug):
    return node("Doc", slug=slug, text="x")


def write_beside(graph, slug):
    options = omnigraph.GraphOptions(storage=FAST.storage, embedder=None)
    with omnigraph.connect(graph.uri, options=options) as other:
        other.mutate(f'query q() {{ insert Doc {{ slug: "{slug}", text: "y" }} }}')


def test_what_is_written_while_files_are_read_is_respected(graph):
    graph.load(jsonl(ADA))
    add = lambda: graph.mutate('query q() { insert Person { name: "bob" } }')  # noqa: E731
    with pytest.raises(ConstraintError) as caught:
        graph.load(jsonl(BOB), mode="append", progress=At("commit", add))
    assert [one.rule for one in caught.value.violations] == [Rule.KEY]


def test_an_append_beside_another_writer_keeps_both(docs):
    docs.meanwhile.act = lambda: write_beside(docs, "theirs")
    docs.load(jsonl(doc("mine")), mode="append")
    assert set(rows(docs, "node:Doc")) == {"mine", "theirs"}


def test_an_append_that_lost_its_id_to_another_writer_is_refused_with_its_line(docs):
    docs.meanwhile.act = lambda: write_beside(docs, "same")
    with pytest.raises(ConstraintError) as caught:
        docs.load(jsonl(doc("other"), doc("same")), mode="append")
    assert [(one.rule, one.place) for one in caught.value.violations] == [(Rule.KEY, "<bytes>:2")]
    assert rows(docs, "node:Doc")["same"]["text"] == "y"


def test_an_overwrite_does_not_wipe_what_it_has_not_seen(docs):
    docs.meanwhile.act = lambda: write_beside(docs, "theirs")
    with pytest.raises(ConflictError):
        docs.load(jsonl(doc("mine")))
    assert set(rows(docs, "node:Doc")) == {"theirs"}


@pytest.mark.parametrize("stage", ["read", "check", "write", "commit"])
def test_a_load_that_is_killed_leaves_the_graph_as_it_was(tmp_path, stage):
    program = f"""
        import os, signal, sys
        import omnigraph
        class Kill:
            def stage(self, name, tasks):
                if name == {stage!r}:
                    os.kill(os.getpid(), signal.SIGKILL)
            def done(self, rows, bad, size=0):
                pass
        with omnigraph.connect(sys.argv[1]) as graph:
            graph.load(sys.argv[2], progress=Kill())
    """
    schema = "node P {\n  name: String @key\n}\n"
    retention = Retention(orphan_age_s=0.0)
    options = omnigraph.GraphOptions(
        storage=StorageOptions(durability="os", maintenance="manual", retention=retention)
    )
    (tmp_path / "x.jsonl").write_bytes(jsonl(node("P", name="x")))
    with omnigraph.init(str(tmp_path / "g.omni"), schema, options=options) as graph:
        before = graph.snapshot().commit_id
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program), graph.uri, tmp_path / "x.jsonl"],
            check=False,
            timeout=120,
        )
        assert done.returncode == -signal.SIGKILL
        assert graph.snapshot().commit_id == before
        assert all(one.harmless for one in graph.verify())
        graph.store.cleanup(CleanupPolicy(keep_versions=1))
        staged = graph.store.kernel.objects.list("__staging")
        assert [info.name for info in staged if info.name.endswith(".arrow")] == []
        assert graph.load(tmp_path / "x.jsonl").nodes_loaded == {"P": 1}


def test_an_interrupted_ingest_keeps_a_branch_that_others_wrote_to(graph):
    graph.load(jsonl(ADA))

    def write():
        graph.mutate('query q() { insert Person { name: "eve" } }', branch="new")

    with pytest.raises(ConstraintError):
        graph.ingest(jsonl(edge("Knows", "no", "one")), branch="new", progress=At("check", write))
    assert set(rows(graph, "node:Person", "new")) == {"ada", "eve"}
