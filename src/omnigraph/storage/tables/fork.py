"""Branches of one dataset: made, listed, removed.

Lance writes a branch's files first and its ref last, so a crash can leave files without a ref;
such a name can neither be created nor deleted through pylance, and is reclaimed here by
removing the files. Callers hold the lock that makes this safe.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import orjson

from omnigraph.base.failpoints import failpoint, register
from omnigraph.errors import StorageError
from omnigraph.storage.files import layout
from omnigraph.storage.files.objects import Objects
from omnigraph.storage.tables.failures import DamagedError, lance_errors
from omnigraph.storage.tables.handle import Handle, Tables

log = logging.getLogger(__name__)

BEFORE_RECLAIM = register(
    "fork.before_reclaim", "a fork name was marked as used up; its files still exist"
)


@dataclass(frozen=True, slots=True)
class BranchRef:
    """What Lance records about a branch; `tag` changes when the name is used again."""

    name: str
    parent: str | None
    parent_version: int
    created_at_s: int
    tag: str


def create_fork(base: Handle, name: str) -> Handle:
    """Create a branch of a dataset at the version of `base`; no row is copied."""
    try:
        with lance_errors(f"branching {base} as '{name}'"):
            dataset = base.apart.create_branch(name, (base.branch, base.version))
    except StorageError as error:
        if not base.dataset.uri.isascii():
            error.hint = (
                "below such a path Lance makes refs in a neighbour folder with an encoded name, "
                "and must be allowed to; or use a path of plain ASCII letters"
            )
        raise
    return Handle(base.location, name, base.version, dataset)


def fork_files(location: str, name: str, version: int) -> list[str]:
    """Return the files that a new branch consists of, in sync order."""
    return [layout.version_file(location, name, version), layout.branch_ref(location, name)]


def list_branches(objects: Objects, location: str) -> dict[str, BranchRef]:
    """Return the branches of a dataset, read from their refs."""
    refs: dict[str, BranchRef] = {}
    for info in objects.list(f"{location}/{layout.REFS_DIR}"):
        if info.name.endswith(".json"):
            ref = read_ref(objects, info.name)
            if ref is not None:
                refs[ref.name] = ref
    return refs


def readable_branches(objects: Objects, location: str) -> dict[str, BranchRef | None]:
    """Return the branches of a dataset; None for those whose refs cannot be read."""
    refs: dict[str, BranchRef | None] = {}
    for name in branch_names(objects, location):
        try:
            ref = find_branch(objects, location, name)
        except DamagedError as error:
            log.warning("cannot tell where a branch came from: %s", error)
            refs[name] = None
        else:
            if ref is not None:
                refs[name] = ref
    return refs


def branch_names(objects: Objects, location: str) -> list[str]:
    """Return the names of a dataset's branches, from one listing."""
    return [
        layout.branch_of_ref(info.name)
        for info in objects.list(f"{location}/{layout.REFS_DIR}")
        if info.name.endswith(".json")
    ]


def find_branch(objects: Objects, location: str, name: str) -> BranchRef | None:
    """Return one branch of a dataset, or None."""
    return read_ref(objects, layout.branch_ref(location, name))


def read_ref(objects: Objects, ref_name: str) -> BranchRef | None:
    """Return what a ref object says, or None if it is gone.

    Raises:
        DamagedError: it is torn.
    """
    data = objects.find(ref_name)
    if data is None:
        return None
    try:
        content = orjson.loads(data)
        mapping = content.get("identifier", {}).get("version_mapping") or [[0, ""]]
        return BranchRef(
            layout.branch_of_ref(ref_name),
            content["parentBranch"],
            int(content["parentVersion"]),
            int(content["createAt"]),
            str(mapping[-1][1]) or str(content["createAt"]),
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(
            f"'{ref_name}' cannot be read: {error}",
            hint="an open for writing heals what was cut off; else restore it from a backup",
        ) from error


def torn_refs(objects: Objects, location: str) -> list[str]:
    """Return the branches whose refs a power cut tore.

    Lance does not sync refs and cannot clean a dataset that has a torn one. A branch is
    acknowledged only after its ref was synced, so these never were.
    """
    torn = []
    for info in objects.list(f"{location}/{layout.REFS_DIR}"):
        if info.name.endswith(".json"):
            try:
                read_ref(objects, info.name)
            except DamagedError:
                torn.append(layout.branch_of_ref(info.name))
    return torn


def set_ref_aside(objects: Objects, location: str, name: str) -> None:
    """Take a torn ref out of Lance's sight; the branch is then one without a ref."""
    ref = layout.branch_ref(location, name)
    objects.rename(ref, f"{ref}.torn")
    log.warning("set aside the torn ref '%s'; it was never acknowledged", ref)


def name_is_free(objects: Objects, location: str, name: str) -> bool:
    """Whether a fork name was never used on a dataset."""
    if objects.exists(layout.branch_ref(location, name)):
        return False
    if objects.exists(layout.retired_marker(location, name)):
        return False
    return not has_files(objects, location, name)


def has_files(objects: Objects, location: str, name: str) -> bool:
    """Whether files of a branch exist, with or without its ref."""
    return bool(objects.list(f"{layout.lineage(location, name)}/{layout.VERSIONS_DIR}"))


def delete_branch(tables: Tables, location: str, name: str) -> None:
    """Remove a branch's ref and its own files; nested branches are left alone."""
    tables.forget(location)
    tables.objects.delete(layout.branch_ref(location, name))
    _delete_files(tables.objects, location, name)


def retire_fork(tables: Tables, location: str, name: str) -> None:
    """Remove a fork for good: its name is never used again on this dataset."""
    tables.forget(location)
    tables.objects.put(layout.retired_marker(location, name), b"")
    failpoint(BEFORE_RECLAIM)
    tables.objects.delete(layout.branch_ref(location, name))
    _delete_files(tables.objects, location, name)


def _delete_files(objects: Objects, location: str, name: str) -> None:
    # The newest version goes last: while it exists, the remains are recognisable as a branch.
    home = layout.lineage(location, name)
    for folder in reversed(layout.DATASET_DIRS):
        objects.delete_prefix(f"{home}/{folder}")
    objects.delete(layout.kept_from(location, name))  # versions of that name start anew
    objects.delete_prefix(f"{home}/{layout.DEPENDENTS_DIR}")


def base_addresses(tables: Tables, location: str, branch: str) -> list[str]:
    """Return the absolute addresses a branch reads files from."""
    handle = tables.open_latest(location, branch)
    with lance_errors(f"reading the bases of {handle}"):
        return sorted(str(base.path) for base in handle.dataset.base_paths().values())
