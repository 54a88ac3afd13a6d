"""Every commit and branch has the contract files it was made under; the root only shows main's."""

import tarfile
from pathlib import Path

import pytest

import omnigraph
from omnigraph.base import failpoints
from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.source import Source
from omnigraph.engine.contract import IR_FILE, accepted_ir, contract_files, table_specs
from omnigraph.storage.commit.session import SchemaChangedError
from omnigraph.storage.files import layout
from omnigraph.storage.manifest import publish
from omnigraph.storage.manifest.contracts import show_files
from omnigraph.storage.manifest.rows import STAMP, open_manifest, stamp_of
from omnigraph.storage.store import open_store
from omnigraph.storage.tables.failures import DamagedError
from omnigraph.storage.upkeep.relocation import MovedGraphError
from tests.storage.conftest import QUIET
from tests.support.fast import FAST
from tests.support.storage_model import CONTRACT, A, contents, rows, write

FORMAT_4 = Path(__file__).parent / "fixtures" / "format4.tar.gz"
MADE_AT = f"/tmp/omnigraph-fixture/{'p' * 140}/format4"  # its branches state where they are
NAMES = "query names() { match { $p: Person } return { $p.name } }"
ADD = "query add($name: String) { insert Person { name: $name } }"


def replace_file(store, content, branch="main", name=CONTRACT):
    session = store.begin(branch)
    session.replace_file(name, content)
    return session.commit().id


def findings(store):
    return {finding.kind for finding in store.verify() if not finding.harmless}


def test_a_past_snapshot_states_the_files_it_was_written_under(store):
    first = store.snapshot()
    second = replace_file(store, b"second")
    write(store, {A: {"a": 1}})
    third = replace_file(store, b"third")
    write(store, {A: {"b": 1}})
    assert store.read_file(CONTRACT) == b"third"
    assert store.read_file(CONTRACT, first) == b"first"
    for commit, content in [(first.commit_id, b"first"), (second, b"second"), (third, b"third")]:
        assert store.read_file(CONTRACT, store.snapshot_at(commit_id=commit)) == content
    store.branches.create("then", commit_id=second)
    assert store.read_file(CONTRACT, store.snapshot("then")) == b"second"
    assert findings(store) == set()


def test_branches_have_contracts_of_their_own_and_the_root_shows_that_of_main(store, root):
    store.branches.create("side")
    replace_file(store, b"of side", "side")
    assert (root / CONTRACT).read_bytes() == b"first"
    replace_file(store, b"of main")
    assert store.read_file(CONTRACT, store.snapshot("side")) == b"of side"
    assert store.read_file(CONTRACT) == (root / CONTRACT).read_bytes() == b"of main"
    assert findings(store) == set()


@pytest.mark.parametrize("damage", ["edited", "missing"])
def test_a_file_at_the_root_is_found_wrong_decides_nothing_and_is_put_right(store, root, damage):
    shown = root / CONTRACT
    shown.write_bytes(b"edited") if damage == "edited" else shown.unlink()
    assert store.read_file(CONTRACT) == b"first"
    assert findings(store) == {"file_differs"}
    write(store, {A: {"a": 1}})
    store.close()
    with open_store(str(root), read_only=True, options=QUIET) as reader:
        assert reader.read_file(CONTRACT) == b"first"
    with open_store(str(root), options=QUIET) as again:
        assert shown.read_bytes() == b"first"
        assert findings(again) == set()


def test_a_lost_content_is_found_and_named(store, root):
    replace_file(store, b"second")
    stated = store.snapshot().files[CONTRACT]
    (root / layout.contract(stated)).unlink()
    (root / CONTRACT).unlink()
    assert "contract_lost" in findings(store)
    with pytest.raises(DamagedError, match="is gone") as caught:
        store.read_file(CONTRACT)
    assert stated in (caught.value.hint or "")


@pytest.mark.parametrize(
    "point", ["publish.after_sidecar", "publish.after_publish", "publish.after_manifest_sync"]
)
def test_a_file_is_replaced_or_not_whatever_interrupts(store, root, point):
    failpoints.enable(f"{point}=raise")
    with pytest.raises(failpoints.FailpointTriggeredError):
        replace_file(store, b"second")
    failpoints.disable_all()
    store.close()
    with open_store(str(root), options=QUIET) as again:
        content = again.read_file(CONTRACT)
        assert content in (b"first", b"second")
        assert (root / CONTRACT).read_bytes() == content
        assert findings(again) == set()
        assert again.kernel.objects.list(layout.STAGING_DIR) == []


def test_a_write_begun_under_another_schema_is_refused(store):
    replace_file(store, b"1", name=IR_FILE)
    session = store.begin()
    session.append(A, rows({"a": 1}))
    replace_file(store, b"2", name=IR_FILE)
    with pytest.raises(SchemaChangedError, match="changed since this write began"):
        session.commit()
    assert contents(store.snapshot())[A] == {}
    write(store, {A: {"a": 1}})


@pytest.fixture
def format_4(tmp_path):
    """A graph written by the last program of format 4, with a branch and a past, moved here."""
    here = str(tmp_path / "graph")
    folder = Path(here.ljust(len(MADE_AT) - len("/format4"), "_"))
    folder.mkdir()
    with tarfile.open(FORMAT_4) as packed:
        packed.extractall(folder, filter="data")
    root = folder / "format4"
    assert len(str(root)) == len(MADE_AT)
    for path in root.rglob("*"):
        if path.is_file():  # paths of one length can be exchanged in any file
            path.write_bytes(path.read_bytes().replace(MADE_AT.encode(), str(root).encode()))
            twice = (MADE_AT.lstrip("/").encode(), str(root).lstrip("/").encode())
            path.write_bytes(path.read_bytes().replace(*twice))
    return root


def people(graph, **when):
    return sorted(row[0] for row in graph.query(NAMES, **when).to_tuples())


def test_a_graph_of_format_4_is_read_as_it_is(format_4):
    before = {path: path.read_bytes() for path in format_4.rglob("*") if path.is_file()}
    with omnigraph.connect(format_4, read_only=True, options=FAST) as graph:
        assert people(graph) == ["ada", "bo", "di"]
        assert people(graph, branch="side") == ["ada", "bo", "cy"]
        assert people(graph, at=2) == ["ada"]
        assert "node Person" in graph.schema
        assert [found for found in graph.verify() if not found.harmless] == []
    assert before == {path: path.read_bytes() for path in format_4.rglob("*") if path.is_file()}


def test_an_upgrade_keeps_where_a_graph_was_made(format_4, tmp_path):
    format_4.rename(tmp_path / "moved")
    format_4.symlink_to(tmp_path / "moved")
    with omnigraph.connect(tmp_path / "moved", options=FAST) as graph:
        assert people(graph, branch="side") == ["ada", "bo", "cy"]
    format_4.unlink()
    with pytest.raises(MovedGraphError, match="still reads from"):
        omnigraph.connect(tmp_path / "moved", options=FAST)


def test_a_graph_of_format_4_is_upgraded_by_the_first_writer_with_its_branch_and_past(format_4):
    with omnigraph.connect(format_4, options=FAST) as graph:
        for branch in ("main", "side"):
            assert stamp_of(open_manifest(graph.store.kernel, branch)) == STAMP
        graph.mutate(ADD, params={"name": "ed"})
        graph.mutate(ADD, params={"name": "flo"}, branch="side")
        assert people(graph) == ["ada", "bo", "di", "ed"]
        assert people(graph, branch="side") == ["ada", "bo", "cy", "flo"]
        assert people(graph, at=graph.store.commits()[1].id) == ["ada"]
        for name, stated in graph.store.snapshot().files.items():
            assert (format_4 / layout.contract(stated)).read_bytes() == (
                format_4 / name
            ).read_bytes()
        (format_4 / "_schema.pg").write_text("edited")
        assert "node Person" in graph.schema
        assert {found.kind for found in graph.verify() if not found.harmless} == {"file_differs"}


@pytest.mark.parametrize("point", ["upgrade.after_rows", "upgrade.between_branches"])
def test_an_upgrade_from_format_4_that_is_cut_off_is_finished(format_4, point):
    failpoints.enable(f"{point}=raise")
    with pytest.raises(failpoints.FailpointTriggeredError):
        omnigraph.connect(format_4, options=FAST)
    failpoints.disable_all()
    with omnigraph.connect(format_4, options=FAST) as graph:
        assert people(graph, branch="side") == ["ada", "bo", "cy"]
        assert [found for found in graph.verify() if not found.harmless] == []


def test_a_mutation_is_compiled_again_when_the_schema_changed_under_it(tmp_path, monkeypatch):
    text = "node Person { name: String @key }"
    with omnigraph.init(tmp_path / "g.omni", text, options=FAST) as graph:
        wider = f"{text}\nnode Pet {{ name: String @key }}"
        loaded = load_schema(Source(wider), accepted_ir(graph.store))
        begun = []
        begin = graph.store.begin

        def begin_and_be_outrun(*args, **kwargs):
            session = begin(*args, **kwargs)
            if not begun:
                change = begin(writer_kind="SchemaApply")
                for spec in table_specs(loaded.catalog):
                    if spec.key not in session.base.tables:
                        change.create_table(spec)
                for name, content in contract_files(wider, loaded).items():
                    change.replace_file(name, content)
                change.commit()
            begun.append(session)
            return session

        monkeypatch.setattr(graph.store, "begin", begin_and_be_outrun)
        graph.mutate(ADD, params={"name": "ada"})
        assert len(begun) == 2
        assert people(graph) == ["ada"]
        assert graph.schema == wider
        assert people(graph, at=graph.store.commits()[0].id) == []


@pytest.mark.parametrize(
    "edit", [lambda file: file.write_text("// mine"), lambda file: file.unlink()]
)
def test_an_upgrade_without_the_schema_text_claims_no_cure_and_takes_the_file_back(
    format_4, caplog, edit
):
    shown = format_4 / "_schema.pg"
    before = shown.read_bytes()
    edit(shown)
    with omnigraph.connect(format_4, options=FAST) as graph:
        assert "written anew" not in caplog.text
        details = {found.detail for found in graph.verify() if found.kind == "file_differs"}
        assert details == {"not what main states, which is lost"}
        with pytest.raises(DamagedError, match=r"or '_schema\.pg' from one"):
            _ = graph.schema
    shown.write_bytes(before)
    with omnigraph.connect(format_4, options=FAST) as graph:
        assert graph.schema.encode() == before
        assert [found for found in graph.verify() if not found.harmless] == []


def test_files_that_a_writer_is_about_to_show_are_no_finding(store, monkeypatch):
    seen = []

    def verified_first(kernel, files):
        seen.append(findings(store))
        return show_files(kernel, files)

    monkeypatch.setattr(publish, "show_files", verified_first)
    replace_file(store, b"second")
    assert seen == [set()]
    store.kernel.objects.put(CONTRACT, b"by hand")
    assert findings(store) == {"file_differs"}
