"""Rules on rows over HTTP: every way by which a hidden row could show itself."""

import json

import pyarrow as pa
import pytest

import omnigraph
from tests.server.conftest import Asker
from tests.support.fast import FAST
from tests.support.servers import server_process

SCHEMA = """
node P { slug: String @key
 email: String? @unique
 vis: String
 bio: String?
 photo: Blob? }
node D { slug: String @key }
edge K: P -> P { w: I32? }
edge H: P -> D
"""
POLICY = """version: 1
groups: { some: [act-ann], all: [act-cy], writers: [act-ann, act-cy] }
protected_branches: [main]
rules:
  - id: public
    allow:
      actors: { group: some }
      actions: [read, export]
      branch_scope: any
      types: [P]
      where: "$n.vis = 'public'"
  - id: others
    allow: { actors: { group: some }, actions: [read, export], branch_scope: any, types: [D, K] }
  - id: broken
    allow:
      actors: { group: some }
      actions: [read]
      branch_scope: any
      types: [H, Nope]
      where: $n.nothing = 1
  - id: everything
    allow: { actors: { group: all }, actions: [read, export], branch_scope: any }
  - id: writers
    allow: { actors: { group: writers }, actions: [change], branch_scope: any }
  - id: branches
    allow:
      actors: { group: writers }
      actions: [branch_create, branch_merge, branch_delete, schema_apply]
      target_branch_scope: any
"""
TOKENS = {"act-ann": "token-of-ann", "act-cy": "token-of-cy"}
HIDDEN = ("p1", "m1@", "zanzibar")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    (folder / "policy.yaml").write_text(POLICY)
    rows = [
        {
            "type": "P",
            "data": {
                "slug": f"p{n}",
                "email": f"m{n}@x",
                "vis": "secret" if n == 1 else "public",
                "bio": "zanzibar code" if n == 1 else "plain words",
                "photo": "base64:aGk=",
            },
        }
        for n in range(6)
    ]
    rows.append({"type": "D", "data": {"slug": "d0"}})
    for a, b in (("p0", "p1"), ("p1", "p3"), ("p3", "p4")):
        rows.append({"edge": "K", "from": a, "to": b, "data": {"id": f"k.{a}.{b}"}})
    rows.append({"edge": "H", "from": "p0", "to": "d0", "data": {"id": "h0"}})
    with omnigraph.init(folder / "rows.omni", SCHEMA, options=FAST) as graph:
        graph.load("\n".join(map(json.dumps, rows)).encode(), "append")
        graph.mutate('update P set { bio: "zanzibar again" } where slug = "p1"')
    with server_process(
        folder,
        "rows.omni",
        "--bind",
        "127.0.0.1:0",
        OMNIGRAPH_POLICY_FILE="policy.yaml",
        OMNIGRAPH_SERVER_BEARER_TOKENS_JSON=json.dumps(TOKENS),
    ) as running:
        running.hear_address()
        yield running


@pytest.fixture
def ann(server, http):
    """Sees public people, all documents, and the edges between what she sees."""
    return Asker(http, server.address, {"authorization": "Bearer token-of-ann"})


@pytest.fixture
def cy(server, http):
    return Asker(http, server.address, {"authorization": "Bearer token-of-cy"})


def rows(asker, text, **more):
    answer = asker.post("/read", {"query_source": f"query q() {{ {text} }}", **more})
    assert answer.status_code == 200, answer.text
    return [tuple(row.values()) for row in answer.json()["rows"]]


@pytest.mark.parametrize(
    ("text", "all_rows", "seen"),
    [
        ("match { $p: P } return { count(*) as n }", [(6,)], [(5,)]),
        ('match { $p: P $p.slug = "p1" } return { $p.bio }', [("zanzibar again",)], []),
        (
            "match { $p: P not { $p k $q } } return { $p.slug } order { $p.slug }",
            [("p2",), ("p4",), ("p5",)],
            [("p0",), ("p2",), ("p4",), ("p5",)],
        ),
        ('match { $p: P { slug: "p0" } $p k{1,3} $q } return { count(*) as n }', [(3,)], [(0,)]),
        ("match { $p: P $p $e:k $q } return { $e.id }", 3, [("k.p3.p4",)]),
        ('match { $p: P fuzzy($p.bio, "zanzibax", 1) } return { $p.slug }', [("p1",)], []),
        ("match { $p: P $p h $d } return { $d.slug }", [("d0",)], []),
        ("match { $d: D } return { $d.slug }", [("d0",)], [("d0",)]),
    ],
)
def test_a_query_has_the_visible_rows(ann, cy, text, all_rows, seen):
    for _ in range(3):  # at first, again, and at hand
        assert rows(ann, text) == seen
        everything = rows(cy, text)
        assert everything == all_rows or len(everything) == all_rows


def test_scores_are_those_of_the_visible_texts(ann, cy):
    text = 'match { $p: P } return { $p.slug, bm25($p.bio, "plain") as s } order { s desc } limit 1'
    assert rows(ann, text) != rows(cy, text)


def test_every_layout_has_the_visible_rows(ann):
    asked = {"query_source": "query q() { match { $p: P } return { $p.slug } }"}
    lines = ann.post("/read", asked, headers={"accept": "application/x-ndjson"})
    assert len(lines.text.splitlines()) == 5
    arrow = {"accept": "application/vnd.apache.arrow.stream"}
    with pa.ipc.open_stream(ann.post("/read", asked, headers=arrow).content) as stream:
        assert stream.read_all().num_rows == 5


def silent(answer):
    """An answer that says nothing of what is hidden."""
    for word in HIDDEN:
        assert word not in answer.text, answer.text
    return answer


def test_plans_limits_and_profiles_are_those_of_the_visible_rows(ann, cy):
    asked = {"query_source": 'query q() { match { $p: P $p.vis = "hidden" } return { $p.slug } }'}
    assert "about 4 rows" not in ann.post("/explain", asked).text or (
        ann.post("/explain", asked).text != cy.post("/explain", asked).text
    )
    hop = 'query q() { match { $p: P { slug: "p0" } $p k $q } return { $q.slug } }'
    tight = {"query_source": hop, "limits": {"rows": 1}}
    assert ann.post("/read", tight).status_code == 200
    assert silent(ann.post("/profile", {"query_source": hop})).json()["row_count"] == 0


def test_single_rows_and_bytes_that_are_hidden_are_not_there(ann, cy):
    for table, one in (("node:P", "p1"), ("edge:K", "k.p0.p1"), ("edge:H", "h0")):
        asked = {"table": table, "id": one}
        assert cy.get("/entity", params=asked).status_code == 200
        hidden, absent = (ann.get("/entity", params=asked | {"id": id_}) for id_ in (one, "zz"))
        assert (hidden.status_code, absent.status_code) == (404, 404)
        assert hidden.json()["error"].replace(one, "zz") == absent.json()["error"]
    seen = ann.get("/entity", params={"table": "node:P", "id": "p0"})
    assert (seen.status_code, seen.json()["photo"]) == (200, "base64:aGk=")
    blob = {"type": "P", "property": "photo"}
    assert cy.get("/blob", params=blob | {"id": "p1"}).content == b"hi"
    assert ann.get("/blob", params=blob | {"id": "p0"}).content == b"hi"
    hidden, absent = (ann.get("/blob", params=blob | {"id": one}) for one in ("p1", "zz"))
    assert hidden.json()["error"].replace("p1", "zz") == absent.json()["error"]


def test_exports_and_counts_are_of_the_visible_rows(ann, cy):
    found = silent(ann.post("/export", {}))
    assert len(found.text.splitlines()) == 5 + 1 + 1
    assert len(cy.post("/export", {}).text.splitlines()) == 11
    assert silent(ann.post("/export", {"type_names": ["H"]})).content == b""
    counts = {one["table_key"]: one["row_count"] for one in ann.get("/snapshot").json()["tables"]}
    assert counts == {"edge:H": 0, "edge:K": 1, "node:D": 1, "node:P": 5}


def test_the_past_shows_what_is_seen_then_and_now(ann, cy):
    branch = {"name": "past"}
    assert cy.post("/branches", branch).status_code == 200
    before = cy.get("/snapshot", params={"branch": "past"}).json()["graph_commit_id"]
    change = 'query m() { update P set { vis: "secret" } where slug = "p5" }'
    done = cy.post("/change", {"query_source": change, "branch": "past"}).json()
    slugs = "match { $p: P } return { $p.slug } order { $p.slug }"
    seen = [("p0",), ("p2",), ("p3",), ("p4",)]
    assert rows(ann, slugs, branch="past") == seen
    assert rows(ann, slugs, snapshot=done["commit_id"]) == seen
    # The commit is one of main, where the row is still seen.
    assert ("p5",) in rows(ann, slugs, snapshot=before)
    again = 'query m() { update P set { vis: "public" } where slug = "p5" }'
    now = cy.post("/change", {"query_source": again, "branch": "past"}).json()["commit_id"]
    assert ("p5",) not in rows(ann, slugs, snapshot=done["commit_id"])
    assert ("p5",) in rows(ann, slugs, snapshot=now)
    assert ("p1",) in rows(cy, slugs, snapshot=now)
    assert cy.delete("/branches/past").status_code == 200


REFUSED = [
    ("POST", "/change", {"query_source": 'query m() { insert P { slug: "p1", vis: "public" } }'}),
    ("POST", "/change", {"query_source": 'query m() { insert P { slug: "n", vis: "public" } }'}),
    ("POST", "/change", {"query_source": 'query m() { insert K { from: "p0", to: "p1" } }'}),
    (
        "POST",
        "/change",
        {"query_source": 'query m() { update P set { bio: "x" } where slug = "a" }'},
    ),
    ("POST", "/change", {"query_source": 'query m() { delete P where slug = "p3" }'}),
    ("POST", "/change", {"query_source": 'query m() { delete D where slug = "d0" }'}),
    ("POST", "/mutate", {"query": "query m() { delete K where w = 1 }"}),
    ("POST", "/ingest", {"data": '{"type":"D","data":{"slug":"d9"}}\n'}),
    ("POST", "/load", {"data": '{"type":"D","data":{"slug":"d9"}}\n', "mode": "overwrite"}),
    ("POST", "/load/ndjson", None),
    ("POST", "/embed", {}),
    ("POST", "/branches/merge", {"source": "side"}),
    ("POST", "/branches/merge", {"source": "main", "target": "side"}),
    ("POST", "/branches/side/reset", {"to": "main"}),
    ("POST", "/schema/apply", {"schema_source": SCHEMA + "node N { slug: String @key }\n"}),
    ("GET", "/changes", None),
    ("GET", "/entity/history?table=node:P&id=p1", None),
    ("GET", "/entity/blame?table=node:P&id=p1", None),
]


@pytest.mark.parametrize(("method", "path", "body"), REFUSED, ids=lambda one: str(one)[:40])
def test_what_would_tell_of_hidden_rows_is_refused(ann, cy, method, path, body):
    cy.post("/branches", {"name": "side"})
    before = cy.get("/commits?all=1").json()
    refused = silent(ann(method, path, json=body))
    assert refused.status_code in (403, 404), refused.text
    if "side/reset" not in path:
        assert (refused.status_code, refused.json()["class"]) == (403, "RowRulesError")
    assert cy.get("/commits?all=1").json() == before


def test_single_commits_are_neither_undone_nor_repeated(ann, cy):
    newest = cy.get("/commits").json()["commits"][0]["graph_commit_id"]
    assert ann.get(f"/commits/{newest}").status_code == 200  # that something was written
    for method, path, body in (
        ("POST", "/revert", {"commit": newest}),
        ("POST", "/cherry-pick", {"commit": newest}),
        ("POST", "/branches/main/reset", {"to": newest}),
    ):
        refused = silent(ann(method, path, json=body))
        assert (refused.status_code, refused.json()["class"]) == (403, "RowRulesError")


def test_what_differs_is_told_of_what_is_seen(ann, cy):
    assert cy.post("/branches", {"name": "moved"}).status_code == 200
    for text in (
        'update P set { bio: "zanzibar too" } where slug = "p1"',
        'update P set { vis: "secret" } where slug = "p3"',
        'update P set { bio: "other" } where slug = "p2"',
    ):
        asked = {"query_source": f"query m() {{ {text} }}", "branch": "moved"}
        done = cy.post("/change", asked)
        assert done.status_code == 200, done.text
    params = {"from": "main", "to": "moved", "images": "both"}

    def told(asker, **more):
        found = asker.get("/diff", params=params | more)
        assert found.status_code == 200, found.text
        return found

    everything = [(one["id"], one["op"]) for one in told(cy).json()["changes"]]
    assert everything == [("p1", "update"), ("p2", "update"), ("p3", "update")]
    found = silent(told(ann)).json()["changes"]
    assert [(one["table_key"], one["id"], one["op"]) for one in found] == [
        ("edge:K", "k.p3.p4", "delete"),
        ("node:P", "p2", "update"),
        ("node:P", "p3", "delete"),
    ]
    back = told(ann, **{"from": "moved", "to": "main", "stat": "1"}).json()["stats"]
    assert (back["inserts"], back["updates"], back["deletes"]) == (2, 1, 0)
    head = cy.get("/commits?branch=moved").json()["commits"]
    for commit in head:
        changes = ann.get(f"/commits/{commit['graph_commit_id']}/changes")
        assert silent(changes).status_code in (200, 409)  # the first has nothing before it


def test_what_is_seen_whole_can_be_written(server, ann, cy):
    cy.post("/branches", {"name": "free"})
    done = ann.post(
        "/change", {"query_source": 'query m() { insert D { slug: "d1" } }', "branch": "free"}
    )
    assert done.status_code == 200, done.text
    assert rows(ann, "match { $d: D } return { $d.slug }", branch="free") == [("d0",), ("d1",)]


def test_a_rule_that_means_nothing_here_hides_and_says_so(server):
    notes = server.notes.read_text()
    assert "rule 'broken' hides every H" in notes
    assert "rule 'broken' names type 'Nope', which is not there" in notes


def test_a_client_knows_the_refusal(server):
    from omnigraph.api.visibility import RowRulesError

    with omnigraph.connect(server.address, token="token-of-ann") as graph:
        assert len(graph.query("match { $p: P } return { $p.slug }")) == 5
        with pytest.raises(RowRulesError, match="needs to see every row"):
            graph.blame("node:P", "p0")
