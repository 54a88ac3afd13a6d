"""Which branches rest on which: beside a branch, a note for every other made from it.

A branch that another rests on may not be deleted. Notes make that a question about one branch,
however many there are. A note only points: whether its branch still rests here is read from
that branch. Callers hold the refs lock.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from omnigraph.base.failpoints import failpoint, register
from omnigraph.base.ids import BranchName
from omnigraph.errors import ConflictError, FormatError
from omnigraph.storage.files import layout
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.manifest.snapshot import Heads
from omnigraph.storage.tables.failures import SnapshotExpiredError
from omnigraph.storage.tables.fork import BranchRef, branch_names, find_branch, has_files

UNREADABLE = (FormatError, SnapshotExpiredError)
"""How reading a branch fails when its bytes are damaged or gone, and not just out of reach."""
AFTER_NOTE = register("branch_create.after_note", "it is noted what a branch will rest on")
BEFORE_NOTED = register("branch_delete.before_noted", "branches are noted; not yet said to be all")


def note_dependent(kernel: Kernel, name: BranchName, on: BranchName) -> None:
    """Note that a branch rests on another, before it does; on main anyone may rest for ever."""
    if on != layout.MAIN:
        kernel.objects.put(layout.dependent_note(on, name), b"")
        failpoint(AFTER_NOTE)


def drop_note(kernel: Kernel, name: BranchName, on: BranchName) -> None:
    """Forget that a branch rested on another."""
    kernel.objects.delete(layout.dependent_note(on, name))


def visible_parent(ref: BranchRef, find: Callable[[str], BranchRef | None]) -> BranchName:
    """Return the branch another was made from, past the hidden one an old commit is made on."""
    parent = ref.parent
    while parent is not None and layout.is_origin(parent):
        origin = find(parent)
        parent = None if origin is None else origin.parent
    return layout.MAIN if parent is None else BranchName(parent)


def require_unused(kernel: Kernel, heads: Heads, name: BranchName) -> None:
    """Refuse to go on if another branch rests on this one.

    Raises:
        ConflictError: names that branch.
    """
    _note_all_once(kernel, heads)
    for info in kernel.objects.list(layout.dependents(name)):
        other = BranchName(layout.branch_of_ref(info.name))
        try:
            ref = _find(kernel, other)
            if ref is not None:
                _require_free(kernel, heads, ref, name)
        except UNREADABLE as error:
            raise ConflictError(
                f"branch '{other}' cannot be read, and may rest on '{name}': {error}",
                hint=f"delete '{other}' first, or restore it from a backup",
            ) from error
        if ref is None and _has_lost_its_ref(kernel, other):
            raise ConflictError(
                f"branch '{other}', whose ref is lost, may rest on '{name}'",
                hint=f"restore '{layout.branch_ref(layout.MANIFEST, other)}' first",
            )
        drop_note(kernel, other, name)  # it was deleted, or has its own tables by now


def _has_lost_its_ref(kernel: Kernel, name: BranchName) -> bool:
    """Whether files of a branch are there without a ref, though nobody is deleting it."""
    cut_off = kernel.objects.exists(layout.branch_intent(name))
    return not cut_off and has_files(kernel.objects, layout.MANIFEST, name)


def _require_free(kernel: Kernel, heads: Heads, ref: BranchRef, name: BranchName) -> None:
    other = BranchName(ref.name)
    if visible_parent(ref, lambda parent: _find(kernel, parent)) == name:
        raise ConflictError(
            f"branch '{other}' descends from '{name}'", hint=f"delete '{other}' first"
        )
    for table in heads.current(other).tables.values():
        if layout.fork_owner(table.branch) == name:
            raise ConflictError(
                f"branch '{other}' reads {table.key} from '{name}'",
                hint=f"write or delete '{other}' first",
            )


def _note_all_once(kernel: Kernel, heads: Heads) -> None:
    """Note the branches of a graph from before there were notes; once in its life."""
    if kernel.objects.exists(layout.DEPENDENTS_NOTED):
        return
    names = branch_names(kernel.objects, layout.MANIFEST)
    branches = [BranchName(name) for name in sorted(names) if layout.is_graph_branch(name)]
    for branch in branches:
        try:
            rests_on = _rests_on(kernel, heads, branch)
        except UNREADABLE:
            rests_on = {*branches}  # it may rest on any of them
        for on in sorted(rests_on - {branch, layout.MAIN}):
            kernel.objects.put(layout.dependent_note(on, branch), b"")
    failpoint(BEFORE_NOTED)
    kernel.objects.put(layout.DEPENDENTS_NOTED, b"")


def _rests_on(kernel: Kernel, heads: Heads, branch: BranchName) -> set[BranchName]:
    """Return the branches that another was made from, or reads tables of."""
    owners = {layout.fork_owner(table.branch) for table in heads.current(branch).tables.values()}
    ref = _find(kernel, branch)
    made_from = layout.MAIN if ref is None else visible_parent(ref, partial(_find, kernel))
    return {made_from, *owners}


def _find(kernel: Kernel, name: str) -> BranchRef | None:
    return find_branch(kernel.objects, layout.MANIFEST, name)
