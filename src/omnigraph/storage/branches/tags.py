"""Tags: names for commits that stay readable, whatever becomes of their branch.

A tag is one object that states the whole snapshot, so it costs the same however large the graph is.
Cleanup keeps what a tag names. Unlike pins, tags do not expire.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from omnigraph.base.failpoints import failpoint, register
from omnigraph.base.ids import BranchName, CommitId, TableKey
from omnigraph.errors import (
    AlreadyExistsError,
    BadRequestError,
    ErrorKind,
    FormatError,
    NotFoundError,
)
from omnigraph.storage.branches.lifecycle import live_branches, require_readable
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import TableVersion
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.locks.by_name import REFS_LOCK
from omnigraph.storage.manifest.snapshot import Snapshot

BEFORE_TAG = register("tag_create.before_object", "a tag is decided on; it does not exist yet")
AFTER_TAG = register("tag_create.after_object", "a tag exists; nobody was told")
AFTER_UNTAG = register("tag_delete.after_object", "a tag is gone; nobody was told")
_COMMIT_ID = re.compile(r"^[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{26}$")


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for the state one commit made."""

    name: str
    commit_id: CommitId
    logical_id: CommitId
    branch: BranchName
    sequence: int
    manifest_version: int
    tables: Mapping[str, Sequence[Any]]
    files: Mapping[str, str]
    created_at_us: int
    actor: str | None = None
    message: str | None = None

    def table_versions(self) -> dict[TableKey, TableVersion]:
        """Return where the rows of every table are."""
        return {
            TableKey(key): TableVersion.from_list(key, stated)
            for key, stated in sorted(self.tables.items())
        }

    def snapshot(self, kernel: Kernel) -> Snapshot:
        """Return the state it names."""
        return Snapshot(
            kernel,
            self.branch,
            self.commit_id,
            self.logical_id,
            self.sequence,
            self.manifest_version,
            self.table_versions(),
            dict(self.files),
        )


def looks_like_a_commit(text: str) -> bool:
    """Whether a text has the form of a commit id, which no tag may have."""
    return _COMMIT_ID.match(text) is not None


def parse_tag(text: object) -> str:
    """Return a checked name for a tag.

    Raises:
        BadRequestError: it is malformed, or could be taken for a commit or a version.
    """
    if not isinstance(text, str):
        raise BadRequestError(
            f"the name of a tag must be text, not {type(text).__name__}", hint="as in 'v1'"
        )
    if looks_like_a_commit(text.strip()):
        raise BadRequestError(
            f"'{text.strip()}' has the form of a commit id", hint="choose a name for people"
        )
    name = str(layout.parse_branch(text, operation="tag", what="tag"))
    if name.isascii() and name.isdigit():
        raise BadRequestError(f"'{name}' has the form of a version", hint=f"as in v{name}")
    return name


def create_tag(
    kernel: Kernel, name: str, snapshot: Snapshot, actor: str | None, message: str | None
) -> Tag:
    """Name a state. Cleanup cannot take it away meanwhile: it waits for the same lock.

    Raises:
        AlreadyExistsError: there is a tag or a branch of that name.
        SnapshotExpiredError: rows of that state are gone.
    """
    wanted = parse_tag(name)
    with kernel.locks.hold(REFS_LOCK, f"tag {wanted}") as lock:
        if wanted in live_branches(kernel):
            raise AlreadyExistsError(f"'{wanted}' is a branch", hint="choose another name")
        require_readable(kernel, snapshot.tables.values())
        tag = Tag(
            wanted,
            snapshot.commit_id,
            snapshot.logical_commit_id,
            snapshot.branch,
            snapshot.sequence,
            snapshot.manifest_version,
            {key: table.as_list() for key, table in snapshot.tables.items()},
            dict(snapshot.files),
            kernel.clock.now_us(),
            actor,
            message,
        )
        lock.check()
        failpoint(BEFORE_TAG)
        if not kernel.objects.create(layout.tag(wanted), orjson.dumps(asdict(tag))):
            raise AlreadyExistsError(
                f"there is a tag '{wanted}' already", hint="delete it first to move it"
            )
        failpoint(AFTER_TAG)
    return tag


def find_tag(kernel: Kernel, name: str) -> Tag | None:
    """Return a tag, or None if there is none of that name.

    Raises:
        FormatError: its object cannot be read.
    """
    found = kernel.objects.find(layout.tag(name))
    return None if found is None else _decode(layout.tag(name), found)


def list_tags(kernel: Kernel) -> list[Tag]:
    """Return all tags by their names.

    Raises:
        FormatError: one cannot be read: nobody can say what it keeps.
    """
    objects = kernel.objects
    found = [(info.name, objects.find(info.name)) for info in objects.list(layout.TAGS_DIR)]
    tags = [_decode(name, data) for name, data in found if data is not None]
    return sorted(tags, key=lambda tag: tag.name)


def delete_tag(kernel: Kernel, name: str) -> Tag | None:
    """Let go of a name; what it alone kept is for the next cleanup. None if it cannot be read.

    Raises:
        NotFoundError: there is no such tag.
    """
    wanted = parse_tag(name)
    with kernel.locks.hold(REFS_LOCK, f"delete tag {wanted}"):
        data = kernel.objects.find(layout.tag(wanted))
        if data is None:
            raise NotFoundError(f"tag '{wanted}' not found", hint="list the tags")
        kernel.objects.delete(layout.tag(wanted))
        failpoint(AFTER_UNTAG)
    try:
        return _decode(layout.tag(wanted), data)
    except FormatError:
        return None


def _decode(name: str, data: bytes) -> Tag:
    try:
        tag = Tag(**orjson.loads(data))
        tag.table_versions()
        return tag
    except (orjson.JSONDecodeError, TypeError, ValueError, AttributeError) as error:
        failure = FormatError(f"tag '{name}' cannot be read: {error}", hint="delete the tag")
        failure.kind = ErrorKind.CORRUPT
        raise failure from error
