"""Every name on disk, defined once.

Paths are relative to the graph root and use `/`, on disk and in object stores alike. Nothing
here touches a file.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from omnigraph.base.hashing import fnv1a64_hex
from omnigraph.base.ids import BranchName, OperationId, TableKey
from omnigraph.errors import BadRequestError

MAIN = BranchName("main")
SCHEMA_APPLY_LOCK = "__schema_apply_lock__"

MANIFEST = "__manifest"
COMMITS = "_graph_commits.lance"
COMMIT_ACTORS = "_graph_commit_actors.lance"
COMMIT_RECOVERIES = "_graph_commit_recoveries.lance"
RECOVERY_DIR = "__recovery"
LOCKS_DIR = "__locks"
CLOCK = f"{LOCKS_DIR}/now"
PINS_DIR = "__pins"
CONTRACTS_DIR = "__contracts"
STAGING_DIR = "__staging"
INIT_INTENT = f"{STAGING_DIR}/init"
TAGS_DIR = "__tags"
RUNS_DIR = "__runs"
BRANCH_INTENTS = f"{STAGING_DIR}/branches"

VERSIONS_DIR = "_versions"
DATA_DIR = "data"
DELETIONS_DIR = "_deletions"
TRANSACTIONS_DIR = "_transactions"
INDICES_DIR = "_indices"
REFS_DIR = "_refs/branches"
TREE_DIR = "tree"
DATASET_DIRS = (VERSIONS_DIR, TRANSACTIONS_DIR, DATA_DIR, DELETIONS_DIR, INDICES_DIR)

MEANING = "_schema.ir.json"
"""What a schema means; two texts of one meaning differ in words only."""
CONTRACT_FILES = ("_schema.pg", MEANING, "__schema_state.json")

_ROOMS = {"node": "nodes", "edge": "edges"}
TABLE_ROOMS = tuple(_ROOMS.values())
_MAX_VERSION = 2**64 - 1
_RETIRED = "_retired"
_KEPT_FROM = "_kept_from"
DEPENDENTS_DIR = "_dependents"
DEPENDENTS_NOTED = f"{MANIFEST}/_dependents_noted"
_INSIDE_A_BRANCH = (*DATASET_DIRS, TREE_DIR, _RETIRED, _KEPT_FROM, DEPENDENTS_DIR)
_LONGEST_FILE_NAME = 255
_LONGEST_NAME = 180  # leaves room for the id of a fork and what Lance appends to temporary files
_RUN_PREFIX = "__run__"
_ULID_TAIL = re.compile(r"\.[0-9a-hjkmnp-tv-z]{26}$")
_BRANCH_WORD = re.compile(r"^[\w.-]+$")


def table_location(key: TableKey) -> str:
    """Return the dataset path of a table: the hash of its bare type name, under its kind.

    >>> table_location(TableKey("node:Person"))
    'nodes/40d76f1f51639ec0'
    """
    kind, _, name = key.partition(":")
    if kind not in _ROOMS or not name:
        raise BadRequestError(
            f"'{key}' is not a table key", hint="use node:<TypeName> or edge:<EdgeName>"
        )
    return f"{_ROOMS[kind]}/{fnv1a64_hex(name)}"


def lineage(location: str, branch: str | None) -> str:
    """Return where a dataset keeps the files of one of its branches."""
    return location if branch is None else f"{location}/{TREE_DIR}/{branch}"


def version_file(location: str, branch: str | None, version: int) -> str:
    """Return the Lance manifest of one version; newer versions sort first."""
    return f"{lineage(location, branch)}/{VERSIONS_DIR}/{_MAX_VERSION - version:020d}.manifest"


def version_of_file(name: str) -> int | None:
    """Return the version a manifest file name stands for, or None for other files."""
    stem, dot, suffix = name.rpartition("/")[2].partition(".")
    return _MAX_VERSION - int(stem) if dot and suffix == "manifest" and stem.isdigit() else None


def version_hint(location: str, branch: str | None) -> str:
    """Return where Lance notes, without promising it, which version is the newest."""
    return f"{lineage(location, branch)}/{VERSIONS_DIR}/latest_version_hint.json"


def torn_file(location: str, branch: str | None, version: int) -> str:
    """Return where a manifest that a power cut tore is set aside."""
    return f"{version_file(location, branch, version)}.torn"


def kept_from(location: str, branch: str | None) -> str:
    """Return the object that says from which version on none has been removed."""
    return f"{lineage(location, branch)}/{_KEPT_FROM}"


def branch_ref(location: str, branch: str) -> str:
    """Return the Lance ref of a branch: what makes the branch exist."""
    return f"{location}/{REFS_DIR}/{quote(branch, safe='')}.json"


def branch_of_ref(ref_name: str) -> str:
    """Return the branch that a Lance ref object stands for."""
    return unquote(ref_name.rpartition("/")[2].removesuffix(".json"))


def branch_intent(branch: str) -> str:
    """Return the note that a branch is being created and may not be durable yet."""
    return f"{BRANCH_INTENTS}/{quote(branch, safe='')}.json"


def tag(name: str) -> str:
    """Return the object that is a tag."""
    return f"{TAGS_DIR}/{quote(name, safe='')}.json"


def run_record(run_id: str) -> str:
    """Return the object that says what a run is for and what became of it."""
    return f"{RUNS_DIR}/{run_id}.json"


def dependents(branch: str) -> str:
    """Return where it is noted which branches rest on a branch."""
    return f"{lineage(MANIFEST, branch)}/{DEPENDENTS_DIR}"


def dependent_note(branch: str, other: str) -> str:
    """Return the note that another branch may rest on this one."""
    return f"{dependents(branch)}/{quote(other, safe='')}.json"


def retired_marker(location: str, branch: str | None) -> str:
    """Return the object that says: this fork or dataset was used and its files are gone.

    A location is never used twice, nor a fork name on one dataset, so `(location, branch,
    version)` names the same rows for ever, in caches and in history.
    """
    return f"{lineage(location, branch)}/{_RETIRED}"


def fork_name(branch: BranchName, fresh_id: str | None = None) -> str:
    """Return the Lance branch a graph branch writes a table on; `fresh_id` if taken before."""
    return str(branch) if fresh_id is None else f"{branch}.{fresh_id.lower()}"


def fork_owner(lance_branch: str | None) -> BranchName:
    """Return the graph branch that a table's Lance branch belongs to."""
    return MAIN if lance_branch is None else BranchName(_ULID_TAIL.sub("", lance_branch))


def sidecar(operation: OperationId) -> str:
    """Return where the intent of one operation is written down."""
    return f"{RECOVERY_DIR}/{operation}.json"


def staging(operation: OperationId, name: str = "") -> str:
    """Return where an operation keeps files that are not yet part of the graph."""
    return f"{STAGING_DIR}/{operation}/{name}" if name else f"{STAGING_DIR}/{operation}"


def contract(digest: str) -> str:
    """Return where the content of a contract file is kept, by what it says."""
    return f"{CONTRACTS_DIR}/{digest}"


def pin(pin_id: str) -> str:
    """Return the object that keeps one snapshot's files from being cleaned."""
    return f"{PINS_DIR}/{pin_id}.json"


def lock_dir(name: str) -> str:
    """Return where the leases of a lock live in an object store."""
    return f"{LOCKS_DIR}/{fnv1a64_hex(name)}"


def lock_file(name: str) -> str:
    """Return the local lock file; it is never removed, so a lock is never split in two."""
    return f"{lock_dir(name)}.lock"


def lance_branch(branch: BranchName) -> str | None:
    """Return the Lance branch of the manifest that a graph branch is; None for main."""
    return None if branch == MAIN else str(branch)


def parse_branch(text: str, *, operation: str = "this call", what: str = "branch") -> BranchName:
    """Return a checked branch name, or of something else that is called like one.

    Raises:
        BadRequestError: the name is empty, malformed or reserved.
    """
    if isinstance(text, _RunBranch):
        return BranchName(text)
    if not isinstance(text, str):
        raise BadRequestError(f"the branch must be text, not {type(text).__name__}")
    name = text.strip()
    if name.lstrip("/") == SCHEMA_APPLY_LOCK or is_system_branch(name):
        raise BadRequestError(f"{operation} does not allow internal system ref '{name}'")
    if not name:
        raise BadRequestError(f"the {what} name is empty", hint="use letters, digits and . - _ /")
    words = name.split("/")
    bad = any(
        not _BRANCH_WORD.match(word) or ".." in word or word.startswith(".") for word in words
    )
    if bad or name.endswith((".lock", ".")) or _ULID_TAIL.search(name):
        raise BadRequestError(
            f"'{name}' is not a {what} name", hint="use letters, digits and . - _ / between them"
        )
    if len(quote(name, safe="")) > _LONGEST_FILE_NAME - len(".json"):
        raise _too_long(name)
    return BranchName(name)


def parse_new_branch(text: str, *, operation: str) -> BranchName:
    """Return a checked name for a branch that does not exist yet.

    Raises:
        BadRequestError: as `parse_branch`, or its files would have no place of their own.
    """
    name = parse_branch(text, operation=operation)
    if lies_inside(name):
        raise BadRequestError(
            f"'{name}' is not a branch name: a branch keeps its own files in folders called "
            f"{', '.join(DATASET_DIRS)}",
            hint="choose another word after the /",
        )
    if _stored_length(name) > _LONGEST_NAME:
        raise _too_long(name)
    return name


def _stored_length(branch: str) -> int:
    """Return how long Lance writes a name: encoded twice, while its ref is in the making."""
    return len(quote(quote(branch, safe=""), safe=""))


def _too_long(branch: str) -> BadRequestError:
    return BadRequestError(
        f"'{branch}' is too long for a branch name: {_stored_length(branch)} characters once "
        f"encoded, at most {_LONGEST_NAME}",
        hint="choose a shorter name; / counts five, letters beyond ASCII ten or more",
    )


def lies_inside(branch: str) -> bool:
    """Whether the files of a branch would lie among those of one whose name it continues."""
    return any(word in _INSIDE_A_BRANCH for word in branch.split("/")[1:])


def origin_branch(fresh_id: str) -> str:
    """Return the hidden branch that a branch from an old commit is made on."""
    return f"__origin.{fresh_id.lower()}"


def is_origin(name: str) -> bool:
    """Whether a Lance branch of the manifest is such a hidden one."""
    return name.startswith("__origin.")


class _RunBranch(str):
    """The hidden branch of a run. Only who works for the run has it; its bare name is refused."""

    __slots__ = ()


def run_branch(run_id: str) -> BranchName:
    """Return the hidden branch of a run."""
    return BranchName(_RunBranch(f"{_RUN_PREFIX}{run_id}"))


def run_of(branch: str) -> str:
    """Return the id of the run that a hidden branch belongs to."""
    return branch.removeprefix(_RUN_PREFIX)


def is_run_branch(name: str) -> bool:
    """Whether a Lance branch of the manifest is the hidden one of a run."""
    return name.startswith(_RUN_PREFIX)


def is_graph_branch(name: str) -> bool:
    """Whether a Lance branch of the manifest has commits of its own: of users, or of a run."""
    return is_run_branch(name) or not is_system_branch(name)


def is_system_branch(name: str) -> bool:
    """Whether a Lance branch of the manifest is ours alone and hidden from users."""
    return name.lstrip("/").startswith("__")
