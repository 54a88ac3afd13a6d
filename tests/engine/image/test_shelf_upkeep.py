"""Folders of derived files while several processes take them away at once."""

from pathlib import Path

import pytest

from omnigraph.engine.image import mapped, shelf_upkeep
from omnigraph.engine.image.shelf_upkeep import ABOUT, kept_in, purge, remove_tree, shrink, sweep

ABOUT_IT = '{"uri": "u", "location": "nodes/a", "branch": null}'


@pytest.fixture
def root(tmp_path):
    for version in (3, 4):
        base = tmp_path / "graph" / "lineage" / f"{version}-10-uuid"
        for folder in (base, base / "csr-1"):
            folder.mkdir(parents=True)
            for name in ("a.1.data", "a.json", ".a.1.data.boot"):
                (folder / name).write_bytes(b"x")
    (tmp_path / "graph" / "lineage" / ABOUT).write_text(ABOUT_IT)
    return tmp_path


@pytest.fixture
def meanwhile(monkeypatch):
    """Let another process do something right before the first file is unlinked."""

    def arrange(call):
        unlink, calls = Path.unlink, [call]

        def unlinked(path, missing_ok=False):
            while calls:
                calls.pop()()
            unlink(path, missing_ok)

        monkeypatch.setattr(Path, "unlink", unlinked)
        return calls

    return arrange


TAKING = {
    "a base": lambda root: remove_tree(root / "graph" / "lineage" / "3-10-uuid"),
    "a table": lambda root: remove_tree(root / "graph" / "lineage"),
    "everything": lambda root: purge(root, None),
    "what is too much": lambda root: shrink(root, 0),
}


@pytest.mark.parametrize("other", ["sweep", "everything"])
@pytest.mark.parametrize("one", TAKING)
def test_two_that_take_the_same_away_at_once_are_both_done(root, meanwhile, one, other):
    others = {"sweep": sweep, "everything": TAKING["everything"]}
    left = meanwhile(lambda: others[other](root))
    TAKING[one](root)
    assert left == []
    sweep(root)
    assert not list(root.rglob(f"{shelf_upkeep._GONE}*"))


def test_what_is_renamed_below_a_folder_on_its_way_out_goes_with_it(root, meanwhile):
    lineage = root / "graph" / "lineage"

    def sweep_inside():
        [gone] = (root / "graph").glob(f"{shelf_upkeep._GONE}*")
        (gone / "4-10-uuid").rename(gone / f"{shelf_upkeep._GONE}x")

    left = meanwhile(sweep_inside)
    remove_tree(lineage)
    assert left == []
    assert list((root / "graph").iterdir()) == []


def test_a_folder_that_vanishes_while_it_is_swept_or_checked_is_no_fault(root):
    base = kept_in(root)[0]
    remove_tree(base.place)
    assert shelf_upkeep.faults_in(base) == []
    mapped.sweep(base.place, -1)
    mapped.remove(base.place, "a")
