"""Every value that crosses a surface: to JSON, back to an equal value, under the agreed names."""

import importlib
import json
import pkgutil

import pytest

import omnigraph.api
from omnigraph.api.changes import (
    ChangeGroup,
    ChangeSet,
    ChangeStats,
    ChangeSummary,
    Endpoints,
    EntityBlame,
    EntityChange,
    EntityHistory,
    EntityVersion,
    PropertyBlame,
    TypeSummary,
)
from omnigraph.api.history import (
    BranchCreated,
    BranchDeleted,
    BranchList,
    CommitList,
    GraphCommit,
    GraphSnapshot,
    TableSnapshot,
)
from omnigraph.api.merges import (
    ChangeApplied,
    ConflictKind,
    MergeConflict,
    MergeResult,
    TableMerged,
    Tag,
    TagList,
)
from omnigraph.api.pictures import Picture, PictureEdge, PictureNode
from omnigraph.api.policies import (
    PolicyChecked,
    PolicyExplained,
    PolicyMismatch,
    PolicyTested,
)
from omnigraph.api.query import Profile, ProfileStep
from omnigraph.api.rows import ReadHead, ReadOutput, ReadTarget
from omnigraph.api.runs import Run, RunList
from omnigraph.api.schemas import SchemaApplied, SchemaDiff, SchemaHistory, SchemaVersion
from omnigraph.api.texts import (
    Diagnosis,
    FormattedFile,
    FormattedFiles,
    HealthCheck,
    Initialized,
    ProgramVersion,
    QueryPlan,
    QueryPlans,
    SchemaCheck,
    SchemaDraft,
    SchemaPlan,
    SchemaStep,
    SchemaText,
)
from omnigraph.api.upkeep import (
    CacheContents,
    CachedTable,
    CachePurged,
    Cleaned,
    CleanupStats,
    Cloned,
    CompactionStats,
    DiskUsage,
    DiskUse,
    DriftKind,
    Finding,
    IndexList,
    IndexReport,
    IndexStatus,
    LockBroken,
    LockHolder,
    LockList,
    Optimized,
    Relocated,
    Repaired,
    TableRepair,
    Verified,
)
from omnigraph.api.violations import Rule, Violation
from omnigraph.api.wire import Shape, ShapeError
from omnigraph.api.words import Mode
from omnigraph.api.writes import (
    EmbedResult,
    ExportResult,
    FileEmbedResult,
    LoadResult,
    MutationResult,
    TableLoaded,
    TableWritten,
)

HEAD = "01K0Z5C4QJ1M2N3P4R5S6T7V8W"
COMMIT = GraphCommit(HEAD, None, 3, "01K0Z5C4QJ1M2N3P4R5S6T7V8V", None, "act-1", 1_777_111_222)
BRANCHED = GraphCommit(HEAD, "dev", 3, None, HEAD, None, 0)
TABLE = TableSnapshot("node:Person", "nodes/0a1b", 4, "dev", 2)
SNAPSHOT = GraphSnapshot("main", HEAD, HEAD, 3, (TABLE, TableSnapshot("node:X", "n/1", 1, None, 0)))
VIOLATION = Violation(Rule.REQUIRED, "Person", "age is missing", "age", "Ann", None, "p.jsonl:3")
LOADED = LoadResult(
    "people.omni",
    "dev",
    Mode.MERGE,
    (TableLoaded("edge:Knows", 1), TableLoaded("node:Person", 2), TableLoaded("node:X", 0)),
    HEAD,
    "inline",
    "small",
    1,
    1,
    (VIOLATION, Violation(Rule.RECORD, "", "no object")),
    2,
    {"read": 0.125, "commit": 0.5},
    "main",
    True,
    "act-1",
)
CACHED = CachedTable("g.omni", "nodes/1", "dev", 3, 9, 5, 1_000, ("ids: torn",))
HOLDER = LockHolder("branch:main", "load", 42, "here", 1_777)
STEP = SchemaStep("add_type", {"type_kind": "node", "name": "X"}, "add node type 'X'")
REFUSED = SchemaStep("unsupported_change", {"entity": "T.p", "reason": "no"}, "no", "keep it")
STATS = ChangeStats(1, 2, 3, ("Knows", "Person"))
UPDATED = EntityChange(
    *("node:P", "node", "P", "ada", "update", 7, None, ("age",), {"age": 1}, {"age": None})
)
CUT = EntityChange("edge:K", "edge", "K", "e1", "delete", 7, Endpoints("a", "b"))
LIVED = EntityVersion(COMMIT, "update", ("age",), {"age": 1}, {"age": 2})
BLAMED = PropertyBlame("age", 2, COMMIT)
COMPACTED = CompactionStats("node:P", 8, 1, True, None, None, ("id", "name"), 9)
REPAIR = TableRepair("main", "node:P", DriftKind.MAINTENANCE, "healed", 3, 4, ("Rewrite",), ("i",))

INSERT = EntityChange("node:P", "node", "P", "a", "insert", 3)
UPDATE = EntityChange(
    "edge:E", "edge", "E", "x", "update", 3, Endpoints("a", "b"), ("n",), {"n": 1}, {"n": None}
)
STATS = ChangeStats(1, 1, 0, ("E", "P"))
VERSION = EntityVersion(COMMIT, "update", ("n",), {"n": 1}, {"n": 2})

TAG = Tag("v1", HEAD, "main", 7, "act-1")
RUN = Run("r1", "main", "__run__r1", HEAD, 4, None, "act-1", "running", None, 7, 8)
CONFLICT = MergeConflict("node:P", "a", ConflictKind.ORPHAN_EDGE, "gone")
SETTLED = MergeConflict(
    "node:P",
    "a",
    ConflictKind.DIVERGENT_UPDATE,
    "both",
    {"n": 1},
    {"n": 2},
    {"n": 3},
    ("n",),
    "ours",
)

SAMPLES: list[tuple[Shape, str]] = [
    (CONFLICT, "table_key row_id kind message"),
    (SETTLED, "table_key row_id kind message base ours theirs columns resolution"),
    (TableMerged("node:P", 1, 2, 3), "table_key inserted updated deleted"),
    (
        MergeResult("dev", "main", "merged", "act-1", HEAD, (TableMerged("node:P", 1, 2, 3),)),
        "source target outcome actor_id commit_id tables bases preview total_conflicts",
    ),
    (
        MergeResult(
            "dev", "main", "merged", preview=True, conflicts=(CONFLICT,), branch_deleted=False
        ),
        "source target outcome actor_id commit_id tables bases preview conflicts total_conflicts"
        " branch_deleted",
    ),
    (
        ChangeApplied("revert", HEAD, "main", conflicts=(CONFLICT,)),
        "operation of branch actor_id commit_id tables preview conflicts total_conflicts",
    ),
    (TAG, "name graph_commit_id branch created_at actor_id message"),
    (TagList((TAG,)), "tags"),
    (
        RUN,
        "run_id target_branch run_branch base_snapshot_id base_manifest_version operation_hash "
        "actor_id status published_snapshot_id created_at updated_at",
    ),
    (RunList((RUN,)), "runs"),
    (PolicyChecked("p.yaml", 2, 3, ("odd",)), "policy actors rules warnings"),
    (PolicyChecked("p.yaml", 0, 0, (), "permit"), "policy actors rules warnings cedar"),
    (PolicyMismatch("a", True, False, "no"), "id expected allowed message"),
    (
        PolicyTested("p.yaml", "t.yaml", 2, (PolicyMismatch("a", True, False, "no"),)),
        "policy tests cases failed status",
    ),
    (
        PolicyExplained("deny", "ann", "read", "main", None, None, "no"),
        "decision actor action branch target_branch matched_rule message hint",
    ),
    (HealthCheck("java", "off", "none", "install it"), "name status detail hint"),
    (Diagnosis((HealthCheck("java", "failed", "none"),)), "checks status"),
    (Endpoints("a", "b"), "src dst"),
    (INSERT, "table_key kind type_name id op manifest_version"),
    (
        UPDATE,
        "table_key kind type_name id op manifest_version endpoints changed before after",
    ),
    (STATS, "inserts updates deletes types_affected"),
    (
        ChangeSet(1, 3, "main", (UPDATE, INSERT), STATS),
        "from_version to_version branch changes stats",
    ),
    (ChangeSet(1, 3, None, (), ChangeStats()), "from_version to_version changes stats"),
    (TypeSummary("node:P", 1, 0, 0), "table_key inserts updates deletes"),
    (
        ChangeSummary(1, 3, None, (TypeSummary("node:P", 1, 0, 0),), STATS),
        "from_version to_version types stats",
    ),
    (ChangeGroup(COMMIT, "c1", True, (), (INSERT,)), "commit cursor complete changes"),
    (VERSION, "commit op changed before after"),
    (EntityHistory("node:P", "a", (VERSION,)), "table_key id versions"),
    (PropertyBlame("n", [1, None], COMMIT), "name value commit"),
    (EntityBlame("node:P", "a", (PropertyBlame("n", 2, COMMIT),)), "table_key id properties"),
    (
        COMMIT,
        "graph_commit_id manifest_branch manifest_version parent_commit_id merged_parent_commit_id"
        " actor_id created_at",
    ),
    (CommitList((COMMIT, BRANCHED)), "commits"),
    (TABLE, "table_key table_path table_version table_branch row_count"),
    (SNAPSHOT, "branch graph_commit_id logical_commit_id manifest_version tables"),
    (BranchList(("main", "a/b")), "branches"),
    (BranchCreated("g.omni", "main", "dev", "act-1"), "uri from name actor_id"),
    (BranchDeleted("g.omni", "dev"), "uri name actor_id"),
    (ReadTarget(None, HEAD), "branch snapshot"),
    (ReadHead("q", ReadTarget("main"), 0), "kind query_name target row_count"),
    (
        ReadOutput("q", ReadTarget("main"), ({"n": 1, "v": [0.5, None], "t": None},), ("n", "v")),
        "query_name target row_count columns rows",
    ),
    (ReadOutput("q", ReadTarget(None, HEAD), ()), "query_name target row_count rows"),
    (Cloned("a.omni", "b.omni", 7, 4_096, HEAD), "uri target objects bytes graph_commit_id"),
    (Relocated("b.omni", 3), "uri files"),
    (PictureNode("P", "a", "Ann"), "type id label"),
    (
        PictureEdge("E", None, "P", "b", "P", "a", 1, 3),
        "type id from_type from to_type to min_hops max_hops",
    ),
    (
        Picture(
            "q",
            "main",
            HEAD,
            (PictureNode("P", "a", "Ann"), PictureNode("P", "b", "Bo")),
            (
                PictureEdge("E", "e1", "P", "a", "P", "b"),
                PictureEdge("E", None, "P", "b", "P", "a", 1, 3),
            ),
            2,
            truncated=True,
        ),
        "query_name branch commit_id nodes edges row_count truncated",
    ),
    (
        Profile("q", 1, 0.5, 1.25, (ProfileStep("scan", 0, 1, 2.0, "resident", 0.125),)),
        "query_name row_count compile_ms total_ms operators",
    ),
    (
        ProfileStep("return", 1, 3, None, None, 0.5),
        "operator depth rows expected_rows access ms",
    ),
    (VIOLATION, "rule type message property id place"),
    (Violation(Rule.RECORD, "", "no object"), "rule type message property id place"),
    (
        MutationResult(1, 2, HEAD, True, "dev", "add", "act-1"),
        "affected_nodes affected_edges commit_id replayed branch query_name actor_id",
    ),
    (
        LOADED,
        "uri branch mode tables commit_id engine engine_reason files skipped skipped_rows embedded"
        " seconds base_branch branch_created actor_id replayed"
        " nodes_loaded edges_loaded node_types_loaded edge_types_loaded",
    ),
    (TableLoaded("node:Person", 2), "table_key rows_loaded"),
    (ExportResult("main", HEAD, (TableWritten("node:P", 1),)), "branch commit_id tables"),
    (TableWritten("node:P", 1), "table_key rows"),
    (
        EmbedResult("g.omni", "main", "reembed_all", "local", {"Doc.v": 3}, None, "act-1"),
        "uri branch mode model embedded commit_id actor_id embedded_rows",
    ),
    (
        FileEmbedResult("a", "b", 4, 3, 2, 1, "reembed_selected", 64, None),
        "input output rows selected_rows embedded_rows cleaned_rows mode dimension model",
    ),
    (
        Finding("drift", "node:P", "moved"),
        "kind subject detail harmless file rows commits",
    ),
    (Verified("g.omni", (Finding("drift", "node:P", "moved", True),)), "uri findings status"),
    (
        REPAIR,
        "branch table_key classification action published_version newest_version operations"
        " lost_indexes unreadable_keys",
    ),
    (Repaired("g.omni", (REPAIR,)), "uri tables"),
    (
        IndexReport("node:P", "id", "BTREE", IndexStatus.PENDING, "empty"),
        "table_key column kind status reason rows unindexed_rows",
    ),
    (
        COMPACTED,
        "table_key fragments_removed fragments_added committed skipped detail pending_indexes"
        " manifest_version",
    ),
    (Optimized("g.omni", (COMPACTED,)), "uri tables preview"),
    (IndexList("g.omni", ()), "uri indexes"),
    (
        CleanupStats("nodes/1", None, 3, 4_096),
        "location branch old_versions_removed bytes_removed what table_key error",
    ),
    (
        Cleaned("g.omni", 3, None, (CleanupStats("nodes/1", None, 0, 0, error="torn"),), True),
        "uri keep_versions older_than_secs tables dry_run",
    ),
    (
        DiskUse("nodes/1", "dev", 1, 2, 3, 4, "node:P"),
        "location branch data versions indexes other table_key total",
    ),
    (DiskUsage("g.omni", (DiskUse("nodes/1", None),)), "uri datasets"),
    (CACHED, "uri location branch version rows bytes used_at faults"),
    (CacheContents("/c", 5, None, (CACHED,)), "folder bytes max_bytes tables"),
    (CachePurged("/c", None, 5), "folder uri bytes"),
    (HOLDER, "name operation pid host since"),
    (LockList((HOLDER,)), "locks"),
    (LockBroken("branch:main", None), "name holder broken"),
    (QueryPlan("q", "scan"), "name plan"),
    (QueryPlans((QueryPlan("q", "scan"),)), "queries"),
    (STEP, "kind type_kind name text"),
    (REFUSED, "kind entity reason text hint"),
    (SchemaPlan("g.omni", False, (STEP, REFUSED)), "uri supported steps step_count"),
    (SchemaText("node P"), "schema_source"),
    (
        SchemaApplied("g.omni", True, True, 7, (STEP,), "side", "c1"),
        "uri supported applied manifest_version steps branch graph_commit_id preview step_count",
    ),
    (
        SchemaApplied("g.omni", True, False, 6, (), preview=True),
        "uri supported applied manifest_version steps branch preview step_count",
    ),
    (SchemaDiff("main", "side", (STEP,)), "before after steps step_count"),
    (
        SchemaHistory("main", (SchemaVersion("c1", 2, "sha256:0", 5, "ann", (STEP,), "why"),)),
        "branch versions",
    ),
    (
        SchemaVersion("c1", 2, "sha256:0", 5, None, ()),
        "graph_commit_id manifest_version schema_hash created_at actor_id steps",
    ),
    (
        SchemaCheck("ok", "s.pg", 0, 1, 2, "hash"),
        "status schema_path interfaces nodes edges schema_hash findings",
    ),
    (
        SchemaCheck("error", "s.pg", findings=({"code": "syntax", "line": 1},)),
        "status schema_path findings",
    ),
    (
        SchemaDraft("node P", None, 2, ("P",), (), ("a note",)),
        "schema output rows nodes edges notes",
    ),
    (Initialized("g.omni", HEAD, "omnigraph.yaml"), "uri graph_commit_id config_path"),
    (FormattedFile("a.gq", "unchanged"), "path status"),
    (FormattedFiles((FormattedFile("a.gq", "unchanged"),)), "files"),
    (ProgramVersion("omnigraph", "0.1.0"), "name version"),
    (PolicyChecked("p.yaml", 2, 3, ("odd",)), "policy actors rules warnings"),
    (PolicyChecked("p.yaml", 0, 0, (), "permit"), "policy actors rules warnings cedar"),
    (PolicyMismatch("a", True, False, "no"), "id expected allowed message"),
    (
        PolicyTested("p.yaml", "t.yaml", 2, (PolicyMismatch("a", True, False, "no"),)),
        "policy tests cases failed status",
    ),
    (
        PolicyExplained("deny", "ann", "read", "main", None, None, "no"),
        "decision actor action branch target_branch matched_rule message hint",
    ),
    (Endpoints("a", "b"), "src dst"),
    (UPDATED, "table_key kind type_name id op manifest_version changed before after"),
    (CUT, "table_key kind type_name id op manifest_version endpoints"),
    (STATS, "inserts updates deletes types_affected"),
    (ChangeSet(1, 2, "dev", (CUT, UPDATED), STATS), "from_version to_version branch changes stats"),
    (ChangeSet(1, 2, None, (), ChangeStats()), "from_version to_version changes stats"),
    (TypeSummary("node:P", 1, 2, 3), "table_key inserts updates deletes"),
    (
        ChangeSummary(1, 2, None, (TypeSummary("node:P", 1, 2, 3),), STATS),
        "from_version to_version types stats",
    ),
    (ChangeGroup(COMMIT, "c", True, (STEP,), ()), "commit cursor complete schema_steps changes"),
    (ChangeGroup(COMMIT, "c", False, (), (CUT,)), "commit cursor complete changes"),
    (LIVED, "commit op changed before after"),
    (EntityHistory("node:P", "ada", (LIVED,)), "table_key id versions"),
    (BLAMED, "name value commit"),
    (EntityBlame("node:P", "ada", (BLAMED,)), "table_key id properties"),
]


def shapes() -> set[type[Shape]]:
    modules = [
        importlib.import_module(f"omnigraph.api.{module.name}")
        for module in pkgutil.iter_modules(omnigraph.api.__path__)
    ]
    found = (value for module in modules for value in vars(module).values())
    return {one for one in found if isinstance(one, type) and issubclass(one, Shape)} - {Shape}


def test_every_shape_has_a_sample():
    assert {type(sample) for sample, _ in SAMPLES} == shapes()


@pytest.mark.parametrize(("value", "names"), SAMPLES, ids=lambda one: type(one).__name__)
def test_a_value_becomes_json_under_the_agreed_names_and_comes_back_equal(value, names):
    written = json.loads(json.dumps(value.to_json_value()))
    assert list(written) == names.split()
    assert type(value).from_json_value(written) == value
    if not isinstance(value, SchemaStep):  # whose facts are open
        assert type(value).from_json_value({**written, "newer": 1}) == value


@pytest.mark.parametrize(
    ("shape", "given", "told"),
    [
        pytest.param(GraphCommit, [], "GraphCommit is an object, not list", id="no object"),
        pytest.param(GraphCommit, {}, "lacks 'graph_commit_id'", id="missing"),
        pytest.param(CommitList, {"commits": {}}, "commits cannot be dict", id="no list"),
        pytest.param(CommitList, {"commits": "abc"}, "commits cannot be 'abc'", id="text"),
        pytest.param(CommitList, {"commits": None}, "commits cannot be null", id="null"),
        pytest.param(TableLoaded, {"table_key": "k", "rows_loaded": True}, "True", id="bool"),
        pytest.param(TableLoaded, {"table_key": 1, "rows_loaded": 1}, "table_key", id="number"),
        pytest.param(EmbedResult, LOADED.to_json_value(), "mode cannot be 'merge'", id="word"),
        pytest.param(Violation, {"rule": "x", "message": ""}, "rule cannot be 'x'", id="enum"),
        pytest.param(SchemaStep, {"name": "x"}, "an object with a kind", id="step"),
    ],
)
def test_json_of_another_shape_is_refused(shape, given, told):
    with pytest.raises(ShapeError, match=r"sent it|kind|object|lacks") as refused:
        shape.from_json_value(given)
    assert told in refused.value.message


def test_what_may_be_null_may_be_missing():
    written = COMMIT.to_json_value()
    del written["parent_commit_id"], written["actor_id"]
    read = GraphCommit.from_json_value(written)
    assert (read.parent_commit_id, read.actor_id) == (None, None)
