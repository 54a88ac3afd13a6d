"""docs/cli.md and docs/configuration.md say everything the command can do, and nothing else."""

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
import typer.main

from omnigraph.cli.tree import app
from omnigraph.config.limits import LimitSettings
from omnigraph.config.scaffold import _TEMPLATE
from omnigraph.config.settings import (
    Alias,
    CliSettings,
    EmbeddingSettings,
    MaintenanceSettings,
    PolicySettings,
    ServerSettings,
)

DOCS = Path(__file__).parent.parent.parent / "docs"
REFERENCE = (DOCS / "cli.md").read_text()
CONFIGURATION = (DOCS / "configuration.md").read_text()
SHARED = {"--help", "-h"}
# Their output is JSON lines already, or none: a server answers elsewhere.
STREAMS = {"omnigraph export", "omnigraph changes", "omnigraph serve", "omnigraph mcp"}


def commands(group=None, path=("omnigraph",)):
    group = group or typer.main.get_command(app)
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


EVERY = dict(commands())
NAMES = [" ".join(path) for path in EVERY]


def section(name):
    """The part of the reference below the heading that names a command."""
    headings = list(re.finditer(r"^## (.+)$", REFERENCE, re.MULTILINE))
    for at, heading in enumerate(headings):
        if f"`{name}`" in heading.group(1):
            end = headings[at + 1].start() if at + 1 < len(headings) else len(REFERENCE)
            return REFERENCE[heading.end() : end]
    return None


def shown(command):
    return [param for param in command.params if not getattr(param, "hidden", False)]


def flags(command):
    return {flag for param in shown(command) for flag in param.opts if flag.startswith("-")}


ON_PEOPLE = {
    "init": ("--schema", "people.pg", "fresh/new.omni"),
    "read": ("-q", "people.gq", "-n", "adults", "-p", "min=18"),
    "change": ("-q", "people.gq", "-n", "add", "-p", "name=Dan"),
    "snapshot": (),
    "branch create": ("dev",),
    "branch list": (),
    "branch delete": ("gone",),
    "commit list": (),
    "commit show": ("HEAD",),
    "diff": ("main", "main"),
    "history": ("node:Person", "Ann"),
    "blame": ("node:Person", "Ann"),
    "schema check": ("--schema", "people.pg"),
    "schema get": (),
    "schema plan": ("--schema", "people.pg"),
    "query lint": ("-q", "people.gq"),
    "explain": ("-q", "people.gq"),
    "profile": ("-q", "people.gq", "-n", "adults", "-p", "min=18"),
    "fmt": ("people.gq",),
    "verify": (),
    "repair": ("--confirm",),
    "optimize": (),
    "cleanup": ("--keep", "3"),
    "du": (),
    "algorithm degrees": (),
    "index list": (),
    "lock show": (),
    "lock break": ("branch:main",),
    "version": (),
}


def documented_keys(name):
    """The outermost keys of the JSON a command prints, as its section says."""
    said = re.search(r"`(\{[^`]+\})`", section(f"omnigraph {name}").split("| `--json` |")[-1])
    if said is None and name == "commit show":  # "one object as in `commit list`"
        said = re.search(r"commits: \[(\{.+?\})\]", section("omnigraph commit list"))
    if said is None and name == "read":  # told among its layouts
        said = re.search(r"\| `json` \| `(\{.+\})` \|", section("omnigraph read"))
    assert said is not None, f"the JSON of {name} is not documented"
    text = said.group(1)[1:-1]
    while re.search(r"[\[{][^][{}]*[\]}]", text):
        text = re.sub(r"[\[{][^][{}]*[\]}]", "", text)
    return {part.partition(":")[0].strip() for part in text.split(",")}


@pytest.mark.parametrize("name", ON_PEOPLE)
def test_the_json_of_a_command_has_the_documented_keys(cli, people, name):
    arguments = list(ON_PEOPLE[name])
    if name == "branch delete":
        cli("branch", "create", "gone")
    if name == "init":
        (people / "fresh").mkdir()
    if name == "commit show":
        commits = json.loads(cli("commit", "list", "--json").out)["commits"]
        arguments = [commits[-1]["graph_commit_id"]]
    ran = cli(*name.split(), *arguments, "--json")
    assert ran.code == 0, ran.err
    assert set(json.loads(ran.out)) == documented_keys(name)


@pytest.mark.parametrize(("path", "command"), EVERY.items(), ids=NAMES)
def test_every_command_and_flag_is_documented(path, command):
    text = section(" ".join(path))
    assert text is not None, f"docs/cli.md has no section on {' '.join(path)}"
    graph = "the graph options" in " ".join(text.split())
    known = set(re.findall(r"`(--?[a-z][a-z-]*)`", text)) | SHARED
    if graph:
        known |= {"--uri", "--target", "-t", "--config", "-c"}
    missing = flags(command) - known
    assert not missing, f"undocumented: {sorted(missing)}"


@pytest.mark.parametrize(("path", "command"), EVERY.items(), ids=NAMES)
def test_nothing_is_documented_that_does_not_exist(path, command):
    text = section(" ".join(path)) or ""
    rows = "\n".join(line.split("|")[1] for line in text.splitlines() if line.startswith("| `-"))
    told = set(re.findall(r"`(--?[a-z][a-z-]*)`", rows))
    assert told <= {flag for param in command.params for flag in param.opts}


def test_every_flag_in_front_of_a_command_is_documented():
    root = typer.main.get_command(app)
    intro = REFERENCE[: REFERENCE.index("\n## ")]
    for flag in flags(root):
        assert f"`{flag}`" in intro, flag


@pytest.mark.parametrize(("path", "command"), EVERY.items(), ids=NAMES)
def test_every_command_has_help_with_an_example_and_json(path, command):
    assert command.help
    assert f"Example: `{' '.join(path[:2])}" in command.help
    assert all(param.help for param in shown(command)), path
    assert "--json" in flags(command) or " ".join(path) in STREAMS


def test_the_reference_has_no_section_without_a_command():
    headings = re.findall(r"^## .*$", REFERENCE, re.MULTILINE)
    for name in [
        name for heading in headings for name in re.findall(r"`(omnigraph .+?)`", heading)
    ]:
        assert tuple(name.split()) in EVERY, name


def test_every_setting_is_documented():
    settings = {f"cli.{one.name}" for one in fields(CliSettings)}
    settings |= {f"server.{one.name}" for one in fields(ServerSettings)}
    settings |= {f"policy.{one.name}" for one in fields(PolicySettings)}
    settings |= {f"embedding.{one.name}" for one in fields(EmbeddingSettings)}
    settings |= {f"maintenance.{one.name}" for one in fields(MaintenanceSettings)}
    settings |= {f"limits.{one.name}" for one in fields(LimitSettings)}
    settings |= {
        f"aliases.<name>.{'name' if one.name == 'query_name' else one.name}"
        for one in fields(Alias)
        if one.name != "name"
    }
    settings |= {
        "project.name",
        "graphs.<name>.uri",
        "graphs.<name>.bearer_token_env",
        "query.roots",
        "auth.env_file",
        "storage.durability",
    }
    for name in settings:
        assert f"`{name}`" in CONFIGURATION, name
    for word in re.findall(r"^#? ?(\w+):$", _TEMPLATE, re.MULTILINE):
        assert f"{word}." in CONFIGURATION, word


def test_every_variable_that_is_read_is_documented():
    config = Path(__file__).parent.parent.parent / "src/omnigraph/config"
    text = "".join(path.read_text() for path in config.glob("*.py"))
    names = set(re.findall(r'"([A-Z][A-Z0-9_]{3,})"', text))
    assert {"AWS_REGION", "GEMINI_API_KEY"} <= names
    for name in names:
        assert f"`{name}`" in CONFIGURATION, name
