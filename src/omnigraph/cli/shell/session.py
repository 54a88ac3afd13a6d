r"""Statements and `\` commands, run against one open graph. Knows no terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omnigraph.base.clock import SYSTEM_CLOCK, Clock
from omnigraph.cli.commands.explain import profile_text
from omnigraph.cli.formats import TableStyle, lines
from omnigraph.cli.request import json_or_text
from omnigraph.cli.shell.describe import described
from omnigraph.cli.shell.statement import command_meant, parse_statement
from omnigraph.compiler.compile import CompiledQuery, compile_file
from omnigraph.compiler.diagnostics import did_you_mean
from omnigraph.compiler.source import Source
from omnigraph.config.settings import OUTPUT_FORMATS, OutputFormat
from omnigraph.errors import BadRequestError

if TYPE_CHECKING:
    from omnigraph.graph import Graph

HELP = r"""Type a query and end it with `;` or an empty line; a `query … { … }` ends with its brace.

  match { $p: Person } return { $p.name };
  insert Person { name: "Ann" };

\explain QUERY     show the operators a query compiles to
\profile QUERY     run it and show rows and milliseconds per operator
\branch [NAME]     show or switch the branch
\schema            show the schema
\d [TYPE]          list the types, or describe one
\set [NAME VALUE]  show the parameters, or set one: \set min 30
\unset NAME        forget a parameter
\format NAME       table, kv, csv, jsonl or json
\help              this text (also: help)
\quit              leave (also: quit, exit, Ctrl-D)"""


@dataclass(slots=True)
class Session:
    """What one run of the shell remembers."""

    graph: Graph
    branch: str
    say: Callable[[str], None]
    note: Callable[[str], None]
    format: OutputFormat = "table"
    style: TableStyle = field(default_factory=TableStyle)
    actor: str | None = None
    clock: Clock = SYSTEM_CLOCK
    params: dict[str, Any] = field(default_factory=dict)
    done: bool = False

    def run(self, text: str) -> None:
        r"""Run one statement or `\` command; `done` says whether it was the last.

        Raises:
            OmniGraphError: it is wrong, or the graph refused it.
        """
        stripped = command_meant(text.strip())
        if stripped.startswith("\\"):
            word, _, rest = stripped[1:].partition(" ")
            self._command(word, rest.strip())
            return
        source, queries = self._compile(stripped)
        for query in queries:
            started = self.clock.monotonic()
            summary = (
                self._change(source, query) if query.is_mutation else self._read(source, query)
            )
            self.note(f"({summary}, {(self.clock.monotonic() - started) * 1_000:.1f} ms)")

    def _compile(self, text: str) -> tuple[Source, tuple[CompiledQuery, ...]]:
        source = parse_statement(text, self.params)
        return source, compile_file(self.graph.catalog, source)

    def _params_of(self, query: CompiledQuery) -> dict[str, Any]:
        declared = {param.name for param in query.params}
        return {name: value for name, value in self.params.items() if name in declared}

    def _read(self, source: Source, query: CompiledQuery) -> str:
        params = self._params_of(query)
        result = self.graph.query(source, query.name, params, branch=self.branch)
        for line in lines(result.output(branch=self.branch), self.format, self.style):
            self.say(line)
        return f"{len(result)} rows"

    def _change(self, source: Source, query: CompiledQuery) -> str:
        done = self.graph.mutate(
            source,
            query.name,
            self._params_of(query),
            branch=self.branch,
            actor=self.actor,
        )
        counts = f"{done.affected_nodes} nodes, {done.affected_edges} edges"
        self.say(f"changed {self.branch} via {query.name}: {counts}")
        return "nothing to commit" if done.commit_id is None else f"commit {done.commit_id}"

    def _command(self, word: str, rest: str) -> None:
        match word:
            case "quit" | "q":
                self.done = True
            case "help" | "h" | "?":
                self.say(HELP)
            case "schema":
                self.say(self.graph.schema.rstrip("\n"))
            case "d":
                self._describe(rest)
            case "branch":
                self._switch(rest)
            case "format":
                self._choose_format(rest)
            case "set":
                self._set(rest)
            case "unset":
                self.params.pop(rest.removeprefix("$"), None)
            case "explain":
                source, queries = self._compile(rest)
                for query in queries:
                    plan = self.graph.explain(source, query.name, branch=self.branch)
                    self.say(plan.rstrip("\n"))
            case "profile":
                self._profile(rest)
            case _:
                hint = did_you_mean(word, COMMANDS) or "\\help lists the commands"
                raise BadRequestError(f"there is no command \\{word}", hint=hint)

    def _describe(self, name: str) -> None:
        for line in described(self.graph.branch(self.branch).catalog, name):
            self.say(line)

    def _switch(self, name: str) -> None:
        if name:
            self.graph.snapshot(name)  # refuses one that does not exist
            self.branch = name
        self.say(f"branch: {self.branch}")

    def _choose_format(self, name: str) -> None:
        for known in OUTPUT_FORMATS:
            if name == known:
                self.format = known
                return
        raise BadRequestError(
            f"there is no format '{name}'", hint=f"use {', '.join(OUTPUT_FORMATS)}"
        )

    def _set(self, rest: str) -> None:
        name, _, value = rest.partition(" ")
        if value.strip():
            self.params[name.removeprefix("$")] = json_or_text(value.strip())
        elif name:
            raise BadRequestError(f"\\set {name} lacks a value", hint=f"\\set {name} 30")
        for line in self._shown_params():
            self.say(line)

    def _shown_params(self) -> Iterator[str]:
        return (f"${name} = {value!r}" for name, value in self.params.items())

    def _profile(self, rest: str) -> None:
        source, queries = self._compile(rest)
        for query in queries:
            params = self._params_of(query)
            found = self.graph.profile(source, query.name, params, branch=self.branch)
            self.say(profile_text(found))


COMMANDS = (
    "explain", "profile", "branch", "schema", "d", "set", "unset", "format", "help", "quit",
)  # fmt: skip
