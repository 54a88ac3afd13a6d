"""What somebody who looks around asks: types, findings, rights, neighbours, all commits."""

import json

import pytest

import omnigraph
from omnigraph.graph.around import NEIGHBOURS
from tests.server.conftest import Asker
from tests.support.fast import FAST
from tests.support.servers import server_process, server_thread

SCHEMA = """
node Person @description("Somebody") {
  name: String @key @description("As friends say")
  level: enum(low, high)?
  tags: [String]?
  seen: Bool
}
node Place { title: String }
edge Knows: Person -> Person { since: Date? }
edge LivesIn: Person -> Place @card(0..1) @description("Where mail goes")
"""
PEOPLE = 30
POLICY = """version: 1
groups: { some: [act-ann], all: [act-cy] }
protected_branches: [main]
rules:
  - id: few
    allow:
      actors: { group: some }
      actions: [read]
      branch_scope: protected
      types: [Person]
      where: "$n.level = 'low'"
  - id: edges
    allow: { actors: { group: some }, actions: [read], branch_scope: protected, types: [Knows] }
  - { id: all, allow: { actors: { group: all }, actions: [read, change], branch_scope: any } }
  - id: merge
    allow:
      actors: { group: all }
      actions: [branch_create, branch_merge]
      target_branch_scope: unprotected
"""
TOKENS = {"act-ann": "token-of-ann", "act-cy": "token-of-cy"}


def lines():
    for at in range(PEOPLE):
        person = {"name": f"p{at:02}", "level": "high" if at % 3 else "low", "seen": True}
        yield {"type": "Person", "data": person}
        if at:
            yield {"edge": "Knows", "from": "p00", "to": f"p{at:02}"}
    yield {"edge": "Knows", "from": "p01", "to": "p00"}
    yield {"type": "Place", "data": {"id": "here", "title": "Here"}}
    yield {"edge": "LivesIn", "from": "p00", "to": "here"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("explored")
    with omnigraph.init(str(found / "g.omni"), SCHEMA, options=FAST) as graph:
        graph.load("\n".join(map(json.dumps, lines())).encode(), "merge", engine="inline")
        graph.branches.create("side")
        put = 'query q() { insert Person { name: "new", seen: false } }'
        graph.mutate(put, branch="side", actor="eve")
    return found


@pytest.fixture(scope="module")
def ask(folder, http):
    with server_thread(str(folder / "g.omni")) as address:
        yield Asker(http, address, {})


def test_the_catalogue_has_every_type_with_its_rows(ask):
    found = ask.get("/catalog").json()
    person, place = found["nodes"]
    assert (person["name"], person["row_count"], person["label"]) == ("Person", PEOPLE, "name")
    assert (person["key"], person["description"]) == (["name"], "Somebody")
    name, level, tags, seen = person["properties"]
    assert (name["type"], name["description"]) == ("String", "As friends say")
    assert (level["values"], level["nullable"]) == (["high", "low"], True)
    assert (tags["type"], tags["is_list"]) == ("[String]?", True)
    assert seen["scalar"] == "Bool"
    assert place["label"] == "title"
    knows, lives = found["edges"]
    assert (knows["word"], knows["from"], knows["to"]) == ("knows", "Person", "Person")
    assert (lives["cardinality"], lives["description"]) == ([0, 1], "Where mail goes")
    assert found["branch"] == "main"
    side = ask.get("/catalog?branch=side").json()
    assert side["nodes"][0]["row_count"] == PEOPLE + 1
    past = ask.get(f"/catalog?snapshot={found['graph_commit_id']}").json()
    assert past["nodes"] == found["nodes"]
    assert ask.get("/catalog?branch=nobody").status_code == 404


def lint(ask, text, **more):
    answer = ask.post("/lint", {"query_source": text, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_text_is_told_what_is_wrong_where_and_what_to_do(ask):
    text = 'query q() { match { $p: Person { name: "é😀" } $p.levle = "low" } return { $p.name } }'
    (found,) = lint(ask, text)["diagnostics"]
    assert found["code"] == "T6"
    assert "level" in found["hint"]
    start, end = found["span"]["start"], found["span"]["end"]
    assert text.encode()[start:end].decode() == "$p.levle"


def test_one_broken_query_hides_no_other_one(ask):
    good = "query good($n: String) { match { $p: Person { name: $n } } return { $p.name } }"
    bad = "query bad() { match { $p: Nobody } return { $p.x } }"
    found = lint(ask, f"{good}\n{bad}")
    assert found["status"] == "error"
    assert [one["name"] for one in found["queries"]] == ["good", "bad"]
    assert lint(ask, good)["status"] == "ok"
    broken = lint(ask, "query q( {")
    assert broken["status"] == "error"
    assert broken["queries"] == []
    assert lint(ask, "") | {"status": ""} == {"status": "", "diagnostics": [], "queries": []}


def test_parameters_come_with_their_types_and_words(ask):
    text = """query q(
      $level: String, $at: Date?, $names: [String], $v: Vector(3)?, $w: enum(a, b)
    ) {
      match { $p: Person { level: $level } }
      return { $p.name, $at as at }
    }"""
    (query,) = lint(ask, text)["queries"]
    found = {one["name"]: one for one in query["params"]}
    assert (query["kind"], query["span"]["start"]) == ("read", 0)
    assert found["level"]["values"] == ["high", "low"]  # the words it is compared with
    assert (found["at"]["type"], found["at"]["nullable"]) == ("Date?", True)
    assert (found["names"]["type"], found["names"]["is_list"]) == ("[String]", True)
    assert found["v"]["type"] == "Vector(3)?"
    assert found["w"]["values"] == ["a", "b"]
    (write,) = lint(ask, "query w($n: String) { delete Person where name = $n }")["queries"]
    assert write["kind"] == "mutation"


def test_a_body_alone_is_placed_in_what_was_written(ask):
    text = "match { $p: Person } return { $p.nmae }"
    found = lint(ask, text)
    span = found["diagnostics"][0]["span"]
    assert text[span["start"] : span["end"]] == "$p.nmae"
    parse = lint(ask, "match { $p: } return { $p.name }")["diagnostics"][0]
    assert parse["line"] == 1


def test_neighbours_are_few_and_counted(ask):
    found = ask.get("/entity/neighbours?table=node:Person&id=p00").json()
    assert found["label"] == "p00"
    groups = {(one["edge"], one["way"]): one for one in found["groups"]}
    assert set(groups) == {("Knows", "out"), ("Knows", "in"), ("LivesIn", "out")}
    out = groups["Knows", "out"]
    assert (out["total"], len(out["neighbours"])) == (PEOPLE - 1, NEIGHBOURS)
    assert out["neighbours"][0]["id"] == "p01"
    assert groups["Knows", "in"]["total"] == 1
    (home,) = groups["LivesIn", "out"]["neighbours"]
    assert (home["id"], home["label"]) == ("here", "Here")
    some = ask.get("/entity/neighbours?table=node:Person&id=p00&edge=Knows&way=out&limit=29").json()
    assert [len(one["neighbours"]) for one in some["groups"]] == [29]
    lone = ask.get("/entity/neighbours?table=node:Person&id=new&branch=side").json()
    assert lone["groups"] == []


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("table=node:Person&id=nobody", 404),
        ("table=node:Nobody&id=x", 404),
        ("table=edge:Knows&id=x", 400),
        ("table=node:Person", 400),
        ("table=node:Person&id=p00&limit=101", 400),
        ("table=node:Person&id=p00&way=up", 400),
        ("table=node:Person&id=new", 404),  # of another branch
    ],
)
def test_what_has_no_neighbours_is_told(ask, words, status):
    assert ask.get(f"/entity/neighbours?{words}").status_code == status


def test_commits_of_all_branches_come_once_with_their_heads(ask):
    found = ask.get("/commits?branch=*").json()
    ids = [one["graph_commit_id"] for one in found["commits"]]
    assert len(ids) == len(set(ids)) == 3
    assert found["heads"]["side"] == ids[0]
    assert found["heads"]["main"] == ids[1]
    assert ask.get("/commits?branch=*&order=asc").json()["commits"] == found["commits"][::-1]
    assert len(ask.get("/commits?branch=*&limit=1").json()["commits"]) == 1
    assert ask.get("/commits?branch=*&actor=eve").status_code == 400


def test_an_open_server_lets_everybody_do_everything(ask):
    found = ask.get("/me").json()
    assert (found["actor"], found["needs_token"], found["policy"]) == (None, False, False)
    assert {"read", "change", "admin"} <= set(found["allowed"])


def test_answers_say_how_long_the_server_took(ask):
    assert ask.get("/branches").headers["server-timing"].startswith("app;dur=")
    text = {"query_source": "query q() { match { $p: Person } return { $p.name } }"}
    lined = ask.post("/read", text, headers={"accept": "application/x-ndjson"})
    assert "app;dur=" in lined.headers["server-timing"]


@pytest.fixture(scope="module")
def guarded(folder, http):
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "omnigraph.yaml").write_text(
        "graphs: { g: { uri: ./g.omni } }\nserver: { graph: g }\npolicy: { file: policy.yaml }\n"
    )
    tokens = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps(TOKENS)}
    with server_process(folder, "--bind", "127.0.0.1:0", **tokens) as server:
        server.hear_address()
        yield lambda token: Asker(http, server.address, {"authorization": f"Bearer {token}"})


def test_rights_are_those_of_the_policy(guarded):
    cy = guarded("token-of-cy")
    on_main = cy.get("/me?branch=main").json()
    assert (on_main["actor"], on_main["policy"]) == ("act-cy", True)
    assert set(on_main["allowed"]) == {"read", "change"}
    to_side = cy.get("/me?branch=main&target=side").json()
    assert {"branch_create", "branch_merge"} <= set(to_side["allowed"])
    assert guarded("token-of-ann").get("/me?branch=side").json()["allowed"] == []
    assert guarded("nobody").get("/me").status_code == 401


def test_hidden_rows_are_in_no_count_and_no_neighbourhood(guarded):
    ann = guarded("token-of-ann")
    types = ann.get("/catalog").json()
    seen = sum(at % 3 == 0 for at in range(PEOPLE))
    assert [one["row_count"] for one in types["nodes"]] == [seen, 0]
    found = ann.get("/entity/neighbours?table=node:Person&id=p00").json()
    (group,) = found["groups"]
    assert (group["edge"], group["way"], group["total"]) == ("Knows", "out", seen - 1)
    assert all(int(one["id"][1:]) % 3 == 0 for one in group["neighbours"])
    assert ann.get("/entity/neighbours?table=node:Person&id=p01").status_code == 404
    assert ann.get("/catalog?branch=side").status_code == 403
    side = ann.get("/commits?branch=side")
    assert side.status_code == 403
    heads = ann.get("/commits?branch=*").json()
    assert set(heads["heads"]) == {"main"}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/catalog"),
        ("GET", "/entity/neighbours?table=node:Person&id=p00"),
        ("GET", "/commits?branch=*"),
        ("GET", "/me"),
        ("POST", "/lint"),
    ],
)
def test_each_needs_a_token_where_there_are_any(guarded, method, path):
    body = {"query_source": ""} if method == "POST" else None
    assert guarded("nobody")(method, path, json=body).status_code == 401


def test_the_cross_site_table_holds_for_what_is_new(ask):
    body = json.dumps({"query_source": ""}).encode()
    for headers, status in (
        ({"origin": "https://evil.example"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"host": "evil.example"}, 421),
    ):
        assert ask("POST", "/lint", content=body, headers=headers).status_code == status
    for path in ("/ui/", "/ui/app/main.js", "/catalog", "/me"):
        assert ask.get(path, headers={"host": "rebound.example"}).status_code == 421
