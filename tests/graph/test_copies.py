"""Copies of whole graphs: every branch, commit and tag, beside writers, and on their own."""

import shutil
import threading

import pytest

import omnigraph
from omnigraph.errors import AlreadyExistsError, BadRequestError, FormatError, NotFoundError
from omnigraph.storage.files.objects import Objects
from omnigraph.storage.upkeep import copying
from tests.support.fast import FAST

SCHEMA = """
node Person { name: String @key  age: I32? @index  photo: Blob? }
edge Knows: Person -> Person
"""
ALL = "match { $p: Person } return { $p.name, $p.age }"


def add(graph, name, age=1, branch="main"):
    graph.mutate(
        "query q($n: String, $a: I32) { insert Person { name: $n, age: $a } }",
        params={"n": name, "a": age},
        branch=branch,
    )


def rows(graph, **where):
    return sorted(graph.query(ALL, **where).to_tuples())


def fill(graph):
    add(graph, "ada")
    first = graph.snapshot().commit_id
    graph.load({"Person": [{"name": "bo", "age": 2, "photo": b"\x00\xff" * 9}]}, "append")
    graph.ensure_indices()
    graph.branches.create("side")
    add(graph, "cy", 3, "side")
    graph.branches.create("deeper", source="side")
    add(graph, "di", 4, "deeper")
    graph.tags.create("v1", at=first)
    return first


@pytest.fixture
def original(tmp_path):
    with omnigraph.init(tmp_path / "a.omni", SCHEMA, options=FAST) as graph:
        yield graph


def same(one, other):
    assert one.branches.list() == other.branches.list()
    for branch in one.branches.list():
        assert rows(one, branch=branch) == rows(other, branch=branch)
        ids = [[c.graph_commit_id for c in g.commits.list(branch, all=True)] for g in (one, other)]
        assert ids[0] == ids[1]
    assert [tag.name for tag in one.tags.list()] == [tag.name for tag in other.tags.list()]


def test_a_copy_has_every_branch_commit_and_tag_and_is_its_own(original, tmp_path):
    first = fill(original)
    done = omnigraph.clone(tmp_path / "a.omni", tmp_path / "b.omni", options=FAST)
    assert done.graph_commit_id == original.snapshot().commit_id
    with omnigraph.connect(tmp_path / "b.omni", options=FAST) as copy:
        same(original, copy)
        assert rows(copy, at=first) == [("ada", 1)]
        assert copy.read_blob("Person", "bo", "photo") == b"\x00\xff" * 9
        for branch in ("main", "side", "deeper"):
            add(copy, f"new-{branch}", 9, branch)
        copy.branches.merge("deeper")
        assert [one for one in copy.verify() if not one.harmless] == []
        assert ("new-side", 9) not in rows(original, branch="side")
    shutil.rmtree(tmp_path / "b.omni")
    assert rows(original, branch="deeper") == [("ada", 1), ("bo", 2), ("cy", 3), ("di", 4)]


def test_a_copy_needs_nothing_of_the_original(original, tmp_path):
    fill(original)
    omnigraph.clone(tmp_path / "a.omni", tmp_path / "b.omni", options=FAST)
    expected = {branch: rows(original, branch=branch) for branch in original.branches.list()}
    original.close()
    shutil.rmtree(tmp_path / "a.omni")
    with omnigraph.connect(tmp_path / "b.omni", options=FAST) as copy:
        assert {branch: rows(copy, branch=branch) for branch in copy.branches.list()} == expected


def test_a_copy_beside_a_writer_is_one_whole_state(original, tmp_path):
    fill(original)
    stop = threading.Event()
    pair = """query q($n: String, $m: String) {
      insert Person { name: $n } insert Person { name: $m } insert Knows { from: $n, to: $m }
    }"""

    def write():
        number = 0
        while not stop.is_set():
            original.mutate(pair, params={"n": f"n{number}", "m": f"m{number}"})
            number += 1
            stop.wait(0.25)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        omnigraph.clone(tmp_path / "a.omni", tmp_path / "b.omni", options=FAST)
    finally:
        stop.set()
        writer.join()
    with omnigraph.connect(tmp_path / "b.omni", options=FAST) as copy:
        names = {name for name, _ in rows(copy)}
        commits = [one.graph_commit_id for one in original.commits.list("main", all=True)]
        assert copy.snapshot().logical_commit_id in commits  # a write under way is undone in it
        assert {name[1:] for name in names if name[0] == "n"} == {
            name[1:] for name in names if name[0] == "m"
        }
        add(copy, "later")


def test_writers_of_a_graph_that_is_never_quiet_wait_and_go_on(original, tmp_path, monkeypatch):
    fill(original)
    listed, waiting = copying._listed, []

    def listed_and_written(source):
        found = listed(source)
        writer = threading.Thread(target=add, args=(original, f"x{len(waiting)}"))
        writer.start()
        writer.join(2)  # while the locks are held it has to wait
        waiting.append(writer)
        return found

    monkeypatch.setattr(copying, "_listed", listed_and_written)
    omnigraph.clone(tmp_path / "a.omni", tmp_path / "b.omni", options=FAST)
    for writer in waiting:
        writer.join()
    assert len(rows(original)) == 2 + len(waiting)
    with omnigraph.connect(tmp_path / "b.omni", options=FAST) as copy:
        assert 2 < len(rows(copy)) < 2 + len(waiting)
        assert set(rows(copy)) < set(rows(original))
        add(copy, "later")


def test_a_copy_that_was_broken_off_is_no_graph(original, tmp_path, monkeypatch):
    fill(original)
    put = Objects.put

    def full(self, name, data):
        if str(self.root).endswith("b.omni") and name.startswith("__manifest/"):
            raise OSError(28, "No space left on device")
        put(self, name, data)

    monkeypatch.setattr(Objects, "put", full)
    with pytest.raises(OSError, match="No space"):
        omnigraph.clone(tmp_path / "a.omni", tmp_path / "b.omni", options=FAST)
    with pytest.raises(NotFoundError):
        omnigraph.connect(tmp_path / "b.omni")


def test_only_an_empty_place_is_taken_and_only_a_graph_is_copied(original, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/note.txt").write_text("mine")
    with pytest.raises(AlreadyExistsError, match="not empty"):
        omnigraph.clone(tmp_path / "a.omni", tmp_path / "full", options=FAST)
    assert [path.name for path in (tmp_path / "full").rglob("*.txt")] == ["note.txt"]
    with pytest.raises(NotFoundError):
        omnigraph.clone(tmp_path / "nothing", tmp_path / "b.omni", options=FAST)


@pytest.mark.parametrize("how", ["moved", "copied"])
def test_a_graph_that_was_moved_or_copied_can_be_relocated(original, tmp_path, how):
    fill(original)
    expected = {branch: rows(original, branch=branch) for branch in original.branches.list()}
    original.close()
    old, new = tmp_path / "a.omni", tmp_path / "elsewhere.omni"
    old.rename(new) if how == "moved" else shutil.copytree(old, new)
    with pytest.raises(FormatError, match="still reads from") as refused:
        omnigraph.connect(new, options=FAST)
    assert "omnigraph relocate" in (refused.value.hint or "")
    assert omnigraph.relocate(new, options=FAST).files > 0
    assert omnigraph.relocate(new, options=FAST).files == 0
    if how == "copied":
        shutil.rmtree(old)
    with omnigraph.connect(new, options=FAST) as graph:
        assert {branch: rows(graph, branch=branch) for branch in graph.branches.list()} == expected
        add(graph, "new", branch="deeper")
        assert [one for one in graph.verify() if not one.harmless] == []


def test_nothing_is_relocated_where_no_graph_is(tmp_path):
    with pytest.raises(NotFoundError):
        omnigraph.relocate(tmp_path)


@pytest.mark.parametrize("asked", [{"branch": "side"}, {"branch": "deeper"}, {"history": False}])
def test_what_a_branch_holds_now_is_a_graph_of_one_line(original, tmp_path, asked):
    fill(original)
    original.mutate('query k() { insert Knows { from: "ada", to: "bo" } }', branch="side")
    branch = asked.get("branch", "main")
    done = omnigraph.clone(tmp_path / "a.omni", tmp_path / "b.omni", options=FAST, **asked)
    with omnigraph.connect(tmp_path / "b.omni", options=FAST) as copy:
        exported = [
            sorted(g.iter_export(branch=b)) for g, b in ((original, branch), (copy, "main"))
        ]
        assert exported[0] == exported[1]
        assert copy.read_blob("Person", "bo", "photo") == b"\x00\xff" * 9
        assert (copy.branches.list(), copy.tags.list()) == (["main"], [])
        assert done.graph_commit_id == copy.snapshot().commit_id
        assert (done.objects > 0, done.bytes > 0) == (True, True)
        (newest, *_) = copy.commits.list()
        assert newest.message.startswith(f"cloned from {branch} at 01")
        add(copy, "later")


def test_a_graph_without_rows_is_cloned_without_its_past(original, tmp_path):
    omnigraph.clone(tmp_path / "a.omni", tmp_path / "b.omni", options=FAST, branch="main")
    with omnigraph.connect(tmp_path / "b.omni", options=FAST) as copy:
        assert rows(copy) == []
        add(copy, "first")


def test_the_model_of_vectors_goes_with_them(tmp_path):
    schema = """node Note { name: String @key  text: String
      vector: Vector(64)? @embed("text") }"""
    texts = [{"name": "a", "text": "bread"}, {"name": "b", "text": "trains"}]
    with omnigraph.init(tmp_path / "a.omni", schema) as graph:
        graph.load({"Note": texts}, "append")
    omnigraph.clone(tmp_path / "a.omni", tmp_path / "b.omni", branch="main")
    asked = """query q($w: String) { match { $n: Note } return { $n.name }
      order { nearest($n.vector, $w) } limit 1 }"""
    with omnigraph.connect(tmp_path / "b.omni") as copy:
        copy.mutate('query i() { insert Note { name: "c", text: "a loaf of bread" } }')
        assert copy.query(asked, params={"w": "railway trains"}).scalar() == "b"


def test_the_history_of_one_branch_is_refused(original, tmp_path):
    with pytest.raises(BadRequestError, match="history of one branch"):
        omnigraph.clone(
            tmp_path / "a.omni", tmp_path / "b.omni", options=FAST, branch="main", history=True
        )
    with pytest.raises(NotFoundError, match="nope"):
        omnigraph.clone(tmp_path / "a.omni", tmp_path / "b.omni", options=FAST, branch="nope")
    assert not (tmp_path / "b.omni").exists()


@pytest.mark.parametrize("branch", [None, "main"])
@pytest.mark.parametrize("way", ["inner", "nodes/inner", "link"])
def test_no_copy_is_put_inside_the_graph_itself(original, tmp_path, way, branch):
    add(original, "ada")
    (tmp_path / "elsewhere").symlink_to(tmp_path / "a.omni")
    place = tmp_path / ("elsewhere/inner" if way == "link" else f"a.omni/{way}")
    with pytest.raises(BadRequestError, match="inside the graph itself"):
        omnigraph.clone(tmp_path / "a.omni", place, branch=branch, options=FAST)
    assert not place.exists()
