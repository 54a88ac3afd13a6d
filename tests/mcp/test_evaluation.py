"""Twenty questions of the company, each answered by a few scripted calls of one real process."""

import json
import shutil

import pytest

from tests.mcp.asking import asking, process


@pytest.fixture(scope="module")
def agent(template, tmp_path_factory):
    folder = tmp_path_factory.mktemp("asked")
    shutil.copytree(template, folder, dirs_exist_ok=True)
    (folder / "omnigraph.yaml").write_text("queries: {files: [company.gq]}\n")
    with asking(process(folder, "company.omni", "--actor", "bot", "--read-only")) as asked:
        yield asked


def rows(agent, text, **params):
    return agent.told("read", query=text, params=params)["rows"]


def stored(agent, name, **params):
    return agent.told(f"q_{name}", **params)["rows"]


def found(agent, text, **more):
    return [json.loads(line) for line in agent.text("search", text=text, **more).splitlines()[1:]]


def who_is_called_mira(agent):
    return [one["id"] for one in found(agent, "Mira", types=["Person"])] == ["mira"]


def who_leads_platform(agent):
    text = (
        "query q($t: String) { match { $p: Person $p $m:memberOf $t $t: Team { slug: $t } "
        '$m.role = "lead" } return { $p.name } }'
    )
    said = agent.refused("read", query=text, params={"t": "platform"})
    assert "error" in said  # `$t` cannot be both: the agent reads that and renames
    text = (
        "query q($slug: String) { match { $p: Person $p $m:memberOf $team "
        '$team.slug = $slug $m.role = "lead" } return { $p.name } }'
    )
    return rows(agent, text, slug="platform") == [["Mira Okafor"]]


def who_is_above_ines(agent):
    return [row[0] for row in stored(agent, "chain_of_command", handle="ines")] == ["jonas", "mira"]


def who_sits_with_tomas(agent):
    return [row[0] for row in stored(agent, "colleagues", handle="tomas")] == ["sunita"]


def who_left(agent):
    text = "match { $p: Person $p.left_on is not null } return { $p.handle }"
    return rows(agent, text) == [["gustav"]]


def what_compares_stores(agent):
    best = found(agent, "which database is fastest", by="meaning", types=["Document"])[0]
    return best["id"] == "store-comparison"


def who_wrote_it(agent):
    said = agent.text("neighbours", type="Document", id="store-comparison", edges=["wrote"])
    return "<- wrote Person: 1" in said and '"id":"jonas"' in said


def what_does_it_rest_on(agent):
    names = stored(agent, "why", project="one-store")
    return names[0][0] == "Adopt one store" and names[0][3] == "Comparing stores"


def what_was_decided_about_churn(agent):
    said = agent.text("neighbours", type="Project", id="churn", edges=["affects"])
    return '"id":"report-early"' in said and '"impact":"medium"' in said


def what_replaces_that(agent):
    said = agent.text("neighbours", type="Decision", id="report-early", edges=["supersedes"])
    return "<- supersedes Decision: 1" in said and '"id":"report-on-demand"' in said


def who_voted_against_it(agent):
    text = (
        "query q($d: String) { match { $d: Decision $d $v:decidedBy $p } "
        "return { $p.name, $v.vote } }"
    )
    assert agent.refused("read", query=text, params={"d": "report-on-demand"})
    text = (
        "query q($slug: String) { match { $d: Decision { slug: $slug } $d $v:decidedBy $p } "
        "return { $p.name, $v.vote } }"
    )
    return rows(agent, text, slug="report-on-demand") == [["Mira Okafor", "against"]]


def who_abstained(agent):
    return ["Tomás Brito", "abstain", 1, 1] in stored(agent, "voting_record")


def who_works_most(agent):
    return stored(agent, "busiest_people", least_hours=1.0, n=1)[0][0] == "ines"


def how_many_hours_on_one_store(agent):
    text = (
        'match { $p: Project { slug: "one-store" } $w_by $w:worksOn $p } '
        "return { sum($w.hours_per_week) as hours }"
    )
    return rows(agent, text) == [[76.5]]


def which_project_has_no_spec(agent):
    return [row[0] for row in stored(agent, "orphaned_projects")] == ["one-store"]


def which_partner_helps(agent):
    said = agent.text("neighbours", type="Project", id="one-store", edges=["partnerIn"])
    return '"label":"Harbour Institute"' in said


def who_was_at_the_meeting_on_stores(agent):
    meeting = found(agent, "store", types=["Meeting"])[0]["id"]
    said = agent.text("neighbours", type="Meeting", id=meeting, edges=["attended"])
    return "<- attended Person: 2" in said and '"id":"jonas"' in said


def what_cites_the_interviews(agent):
    said = agent.text("neighbours", type="Document", id="churn-notes", edges=["cites"])
    return '"quote":"nobody noticed for a month"' in said


def how_many_documents_are_there(agent):
    return rows(agent, "match { $d: Document } return { count($d) as n }") == [[4]]


def which_type_links_teams_and_people(agent):
    return "edge memberOf: Person -> Team" in agent.text("schema", types=["Team"])


QUESTIONS = [
    who_is_called_mira,
    who_leads_platform,
    who_is_above_ines,
    who_sits_with_tomas,
    who_left,
    what_compares_stores,
    who_wrote_it,
    what_does_it_rest_on,
    what_was_decided_about_churn,
    what_replaces_that,
    who_voted_against_it,
    who_abstained,
    who_works_most,
    how_many_hours_on_one_store,
    which_project_has_no_spec,
    which_partner_helps,
    who_was_at_the_meeting_on_stores,
    what_cites_the_interviews,
    how_many_documents_are_there,
    which_type_links_teams_and_people,
]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: one.__name__)
def test_a_question_is_answered(agent, question):
    assert question(agent)


def test_there_are_twenty():
    assert len(QUESTIONS) == 20
