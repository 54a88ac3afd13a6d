"""A company of any size as JSON lines: people, organisations, projects, documents, who wrote what.

Deterministic: the same size gives the same bytes. Texts are put together from sentences, so that
words and meanings repeat the way they do in a real company.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FIRST = "Ada Bo Cleo Dai Eve Femi Gus Hana Ivo Juno Kai Lena Mira Noor Otto Pia Quin Rosa".split()
LAST = "Lind Okafor Mora Evans Sato Brito Feld Rao Laurent Novak Haddad Berg Costa Ito".split()
LEVELS = ("junior", "mid", "senior", "lead", "principal")
COUNTRIES = ("DE", "PT", "JP", "NG", "SE", "BR")
TOPICS = {
    "storage": [
        "A commit becomes visible in one step or not at all.",
        "Old versions are removed once nobody reads them any more.",
        "A full disk must not cost a single row.",
        "Small files are merged while nobody waits for them.",
    ],
    "search": [
        "Vectors find what means the same, words find what says the same.",
        "A ranking must not depend on which index happened to be there.",
        "Questions are embedded the way the documents were.",
        "Rare words say more than common ones.",
    ],
    "people": [
        "New colleagues get a mentor for their first three months.",
        "Teams meet on Tuesdays and write down what they decide.",
        "Holidays are planned before the summer starts.",
        "Feedback is given early and in private.",
    ],
    "sales": [
        "Customers renew when answers arrive quickly.",
        "The price follows the number of readers, not of writers.",
        "A pilot takes six weeks and ends with a decision.",
        "Partners bring projects from other countries.",
    ],
}


def company(people: int) -> Iterator[dict[str, Any]]:
    """Yield the records of a company; everything grows with the number of people."""
    rng = random.Random(7)  # noqa: S311 - example data, not secrets
    handles = [f"{FIRST[n % len(FIRST)]}.{LAST[n % len(LAST)]}.{n}".lower() for n in range(people)]
    yield from _people(rng, handles)
    teams = [f"team-{n}" for n in range(max(2, people // 40))]
    projects = [f"project-{n}" for n in range(max(2, people // 20))]
    yield from _work(rng, handles, teams, projects)
    yield from _documents(rng, handles, projects, people * 2)


def _people(rng: random.Random, handles: list[str]) -> Iterator[dict[str, Any]]:
    for number, handle in enumerate(handles):
        first, last, _ = handle.split(".")
        data = {
            "handle": handle,
            "name": f"{first.title()} {last.title()}",
            "email": f"{handle}@northlight.example",
            "level": rng.choice(LEVELS),
            "joined_on": f"20{rng.randint(10, 25)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}",
            "skills": rng.sample(sorted(TOPICS), 2),
        }
        yield {"type": "Person", "data": data}
        if number:
            boss = handles[rng.randrange(min(number, 50))]
            yield _edge("ReportsTo", handle, boss, since=data["joined_on"])
        known = {rng.randrange(len(handles)) for _ in range(5)} - {number}
        for other in sorted(known):
            yield _edge("Knows", handle, handles[other], strength=round(rng.random(), 3))


def _work(
    rng: random.Random, handles: list[str], teams: list[str], projects: list[str]
) -> Iterator[dict[str, Any]]:
    topics = sorted(TOPICS)
    for number, slug in enumerate(teams):
        name = f"{topics[number % len(topics)].title()} {number}"
        yield {"type": "Team", "data": {"slug": slug, "name": name}}
    for number in range(max(2, len(projects) // 4)):
        data = {
            "slug": f"org-{number}",
            "name": f"{LAST[number % len(LAST)]} & Partners {number}",
            "country": rng.choice(COUNTRIES),
        }
        yield {"type": "Organisation", "data": data}
        yield _edge("PartnerIn", data["slug"], rng.choice(projects))
    for number, slug in enumerate(projects):
        data = {
            "slug": slug,
            "title": f"Better {topics[number % len(topics)]} {number}",
            "status": rng.choice(("active", "active", "paused", "done")),
            "created_at": f"2025-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}T09:00:00Z",
            "priority": rng.randint(1, 5),
        }
        yield {"type": "Project", "data": data}
        yield _edge("OwnedBy", slug, rng.choice(teams))
    for handle in handles:
        yield _edge("MemberOf", handle, rng.choice(teams), role="member", since="2025-01-01")
        hours = float(rng.randint(4, 40))
        project = rng.choice(projects)
        yield _edge("WorksOn", handle, project, hours_per_week=hours, since="2025-02-01")


def _documents(
    rng: random.Random, handles: list[str], projects: list[str], count: int
) -> Iterator[dict[str, Any]]:
    for number in range(count):
        topic = rng.choice(sorted(TOPICS))
        sentences = [*rng.sample(TOPICS[topic], 2), rng.choice(TOPICS[rng.choice(sorted(TOPICS))])]
        slug, day = f"doc-{number}", f"2026-{rng.randint(1, 9):02}-{rng.randint(1, 28):02}"
        data = {
            "slug": slug,
            "title": f"Notes on {topic}, part {number}",
            "text": " ".join(sentences),
            "kind": rng.choice(("memo", "spec", "notes", "report")),
            "language": "en",
            "tags": [topic],
            "created_at": f"{day}T10:00:00Z",
        }
        yield {"type": "Document", "data": data}
        yield _edge("Wrote", rng.choice(handles), slug, at=data["created_at"])
        yield _edge("About", slug, rng.choice(projects))
        if number:
            yield _edge("Cites", slug, f"doc-{rng.randrange(number)}")


def _edge(name: str, start: str, end: str, **data: object) -> dict[str, Any]:
    return {"edge": name, "from": start, "to": end, "data": data}


def write(path: Path, people: int) -> int:
    """Write a company as JSON lines; return how many."""
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for record in company(people):
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
            count += 1
    return count
