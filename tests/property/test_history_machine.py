"""Random histories of a graph against a plain model: what was acknowledged is what is read.

Steps write, branch, delete, travel in time, compact, clean, reopen, and break off writes at
random gaps. A broken-off write is as if it had not been, or as if it had been whole; which of
the two is learned by looking, once, and must not change afterwards.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from omnigraph.base import failpoints
from omnigraph.base.failpoints import FailpointTriggeredError
from omnigraph.errors import ConflictError
from omnigraph.storage.commit.session import WriteSession
from omnigraph.storage.manifest.history import CommitNotFoundError
from omnigraph.storage.options import Retention
from omnigraph.storage.store import GraphStore, open_store
from omnigraph.storage.tables.failures import SnapshotExpiredError
from omnigraph.storage.tables.foreign import write_foreign
from omnigraph.storage.upkeep.cleanup import CleanupPolicy
from tests.support.operations import QUIET
from tests.support.storage_model import (
    KEYS,
    Contents,
    check_lines,
    check_verified,
    contents,
    empty_graph,
    rows,
)

OPTIONS = replace(QUIET, retention=Retention(floor_s=0, newest_versions=1, manifest_versions=1))
BRANCHES = st.sampled_from(["main", "b", "c/d"])
TABLES = st.sampled_from(KEYS)
VALUES = st.dictionaries(st.sampled_from("pqrstu"), st.integers(0, 9), min_size=1, max_size=4)
WRITE_GAPS = st.sampled_from(
    sorted(name for name in failpoints.REGISTRY if name.startswith(("publish.", "write.")))
)
RECOVERY_GAPS = st.sampled_from(
    sorted(name for name in failpoints.REGISTRY if name.startswith("recovery."))
)


@dataclass(slots=True)
class Model:
    """What every branch holds, and what every acknowledged commit held."""

    branches: dict[str, Contents]
    commits: dict[str, Contents] = field(default_factory=dict)
    doubtful: tuple[str, Contents] | None = None
    """A branch whose last write broke off, and what it holds if the write counts."""


class Histories(RuleBasedStateMachine):
    """One graph, one model."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.root = str(self.folder / "graph")
        self.store: GraphStore = empty_graph(self.root, OPTIONS)
        self.model = Model({"main": {key: {} for key in KEYS}})

    @initialize()
    def first_rows(self) -> None:
        self.write("main", KEYS[0], {"p": 1}, "append")

    @rule(branch=BRANCHES, key=TABLES, values=VALUES, kind=st.sampled_from(["upsert", "append"]))
    def write(self, branch: str, key: str, values: dict[str, int], kind: str) -> None:
        if (held := self._held(branch)) is None:
            return
        session = self.store.begin(branch)
        if kind == "append":
            values = {name: value for name, value in values.items() if name not in held[key]}
            session.append(key, rows(values))
        else:
            session.upsert(key, rows(values))
        self._commit(session, {key: {**held[key], **values}})

    @rule(branch=BRANCHES, key=TABLES, values=VALUES)
    def overwrite(self, branch: str, key: str, values: dict[str, int]) -> None:
        if self._held(branch) is not None:
            session = self.store.begin(branch)
            session.overwrite(key, rows(values))
            self._commit(session, {key: dict(values)})

    @rule(branch=BRANCHES, key=TABLES, names=st.sets(st.sampled_from("pqrstu"), min_size=1))
    def delete(self, branch: str, key: str, names: set[str]) -> None:
        if (held := self._held(branch)) is not None:
            session = self.store.begin(branch)
            session.delete(key, sorted(names))
            left = {name: value for name, value in held[key].items() if name not in names}
            self._commit(session, {key: left})

    @rule(branch=BRANCHES, key=TABLES, values=VALUES, whole=st.booleans())
    def load(self, branch: str, key: str, values: dict[str, int], whole: bool) -> None:
        """Take in fragments: in place of all rows, or of those with the same keys."""
        if (held := self._held(branch)) is None:
            return
        session = self.store.begin(branch)
        with session.load([key]) as load:
            written = write_foreign(load.target(key), rows(values))
            if whole:
                session.overwrite_fragments(key, written)
            else:
                session.delete(key, sorted(values))
                session.append_fragments(key, written)
            self._commit(session, {key: dict(values) if whole else {**held[key], **values}})

    @rule(branch=BRANCHES, values=VALUES)
    def write_all_tables(self, branch: str, values: dict[str, int]) -> None:
        if (held := self._held(branch)) is not None:
            session = self.store.begin(branch)
            for key in KEYS:
                session.upsert(key, rows(values))
            self._commit(session, {key: {**held[key], **values} for key in KEYS})

    @rule(branch=BRANCHES, values=VALUES, gap=WRITE_GAPS, skip=st.integers(0, 2))
    def break_off(self, branch: str, values: dict[str, int], gap: str, skip: int) -> None:
        """Break off a write somewhere; later rules find out what became of it."""
        if (held := self._held(branch)) is None:
            return
        failpoints.enable(f"{gap}=raise@{skip}")
        try:
            self.write_all_tables(branch, values)
        except FailpointTriggeredError:
            after = {key: {**held[key], **values} for key in KEYS}
            self.model.doubtful = (branch, after)
        finally:
            failpoints.disable_all()

    @precondition(lambda self: self.model.doubtful)
    @rule(gap=RECOVERY_GAPS, reopen=st.booleans())
    def break_off_recovery(self, gap: str, reopen: bool) -> None:
        """Break off the healing, too."""
        failpoints.enable(f"{gap}=raise")
        try:
            if reopen:
                open_store(self.root, options=OPTIONS).close()
            else:
                self.store.recover()
        except FailpointTriggeredError:
            pass
        finally:
            failpoints.disable_all()

    @rule(name=st.sampled_from(["b", "c/d"]), source=BRANCHES)
    def create_branch(self, name: str, source: str) -> None:
        if name in self.model.branches or source not in self.model.branches:
            return
        self._settle_doubt()
        self.store.branches.create(name, source)
        self.model.branches[name] = copy.deepcopy(self.model.branches[source])

    @rule(name=st.sampled_from(["b", "c/d"]), data=st.data())
    def create_branch_from_the_past(self, name: str, data: st.DataObject) -> None:
        if name in self.model.branches or not self.model.commits:
            return
        self._settle_doubt()
        line = [commit.id for commit in self.store.commits()]
        past = [commit for commit in self.model.commits if commit in line]
        if not past:
            return
        commit = data.draw(st.sampled_from(past))
        try:
            self.store.branches.create(name, commit_id=commit)
        except (SnapshotExpiredError, ConflictError):
            return
        self.model.branches[name] = copy.deepcopy(self.model.commits[commit])

    @rule(name=st.sampled_from(["b", "c/d"]))
    def delete_branch(self, name: str) -> None:
        if name not in self.model.branches:
            return
        self._settle_doubt()
        try:
            self.store.branches.delete(name)
        except ConflictError:
            return  # another branch rests on it
        del self.model.branches[name]

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = open_store(self.root, options=OPTIONS)
        self._settle_doubt()

    @rule(branch=BRANCHES)
    def maintain(self, branch: str) -> None:
        if branch in self.model.branches:
            self._settle_doubt()
            self.store.optimize(branch)
            self.store.maintain(branch)

    @rule()
    def clean(self) -> None:
        self._settle_doubt()
        self.store.cleanup(CleanupPolicy(keep_versions=1))

    @precondition(lambda self: self.model.commits)
    @rule(data=st.data())
    def travel(self, data: st.DataObject) -> None:
        commit = data.draw(st.sampled_from(sorted(self.model.commits)))
        branch = self.store.branches.list()[0].name
        try:
            found = contents(self.store.snapshot_at(commit_id=commit, branch=branch))
        except (SnapshotExpiredError, CommitNotFoundError):
            return  # cleaned, or it lived on a branch that is gone
        assert found == self.model.commits[commit]

    @invariant()
    def every_branch_reads_as_the_model_says(self) -> None:
        doubt = self.model.doubtful
        for branch, expected in self.model.branches.items():
            found = contents(self.store.snapshot(branch))
            if doubt is None or doubt[0] != branch:
                assert found == expected, branch
            else:
                assert found in (expected, doubt[1]), branch

    @invariant()
    def the_branches_are_those_of_the_model(self) -> None:
        assert {info.name for info in self.store.branches.list()} == set(self.model.branches)

    def teardown(self) -> None:
        failpoints.disable_all()
        self._settle_doubt()
        check_lines(self.store)
        check_verified(self.store)
        self.store.close()
        shutil.rmtree(self.folder)

    def _held(self, branch: str) -> Contents | None:
        """Return what a branch surely holds now; None if there is no such branch."""
        self._settle_doubt()
        return self.model.branches.get(branch)

    def _commit(self, session: WriteSession, after: Contents) -> None:
        made = session.commit()
        held = {**self.model.branches[session.branch], **after}
        self.model.branches[session.branch] = held
        if made.outcome == "committed":
            self.model.commits[made.id] = copy.deepcopy(held)

    def _settle_doubt(self) -> None:
        """Let recovery decide about a write that broke off, and believe it from then on."""
        if self.model.doubtful is None:
            return
        branch, after = self.model.doubtful
        self.store.recover()
        self.model.doubtful = None
        found = contents(self.store.snapshot(branch))
        assert found in (self.model.branches[branch], after)
        self.model.branches[branch] = found


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=25, stateful_step_count=20)


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
class TestManyHistories(Histories.TestCase):
    settings = settings(settings(), max_examples=150, stateful_step_count=50)
