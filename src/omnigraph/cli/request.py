"""From flags, words and aliases to one query with its parameters.

Precedence of parameters, high to low: `--param`, `--params` or `--params-file`, the words behind
an alias, the alias's own `params`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.cli.files import STDIN, read_source
from omnigraph.cli.output import UsageError, warn
from omnigraph.cli.target import (
    Flags,
    Place,
    find_uri,
    looks_like_uri,
    merged,
    one_uri,
    placed,
    read_settings,
)
from omnigraph.compiler.query.bare import framed
from omnigraph.compiler.query.typed import NOW_PARAM
from omnigraph.compiler.source import Source
from omnigraph.config.settings import Alias, AliasCommand, Settings
from omnigraph.errors import BadRequestError

if TYPE_CHECKING:
    import typer

    from omnigraph.compiler.query.ast import Query

_TEXT_TYPES = ("String", "Date", "DateTime", "Blob")
_INLINE = "<query>"


@dataclass(frozen=True, slots=True)
class QueryFlags:
    """What the command line says about the query."""

    query: str | None = None
    text: str | None = None
    alias: str | None = None
    name: str | None = None
    params: str | None = None
    params_file: Path | None = None
    single: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """One query, ready to be sent to a graph."""

    place: Place
    source: Source
    name: str
    params: dict[str, Any]
    alias: Alias | None

    def branch(self, given: str | None) -> str:
        """Return the branch to use: flag, alias, configuration, main."""
        return self.place.branch(given or (self.alias.branch if self.alias else None))


def build_request(
    ctx: typer.Context,
    command: AliasCommand,
    words: Sequence[str],
    flags: Flags,
    query: QueryFlags,
) -> Request:
    """Return what a command asks for.

    Raises:
        UsageError: the flags exclude each other.
        NotFoundError: no such alias, graph, file or query.
    """
    _require_one_query(query)
    settings = read_settings(ctx, flags.config)
    flags = merged(ctx, flags)
    alias = None if query.alias is None else _alias(settings, query.alias, command)
    uri, args = _split(settings, words, flags, alias)
    place = placed(settings, uri, flags, alias.graph if alias else None)
    given = given_params(query.params, query.params_file)
    source = query_source(settings, alias.query if alias else query.query, query.text)
    source = framed(source, {**given, **_loose_params(query.single)})
    chosen = choose_query(source, query.name or (alias.query_name if alias else None))
    params = {
        **(alias.params if alias else {}),
        **_alias_args(alias, args, chosen),
        **given,
        **_single_params(query.single, chosen),
    }
    _warn_of_strangers(params, chosen)
    return Request(place, source, chosen.name, params, alias)


def _warn_of_strangers(params: Mapping[str, Any], query: Query) -> None:
    """Tell of values that change nothing: the query does not know them."""
    declared = [param.name for param in query.params]
    for name in params:
        if name not in declared and name != NOW_PARAM:
            known = ", ".join(f"${one}" for one in declared) or "none"
            warn(f"warning: query '{query.name}' has no parameter ${name}; it has {known}")


def query_source(settings: Settings, given: str | None, text: str | None) -> Source:
    """Return the text of a query: inline, from stdin, or of a file found by the path rules."""
    if text is not None:
        return Source(text, _INLINE)
    assert given is not None, "a file or a text was asked for before"
    path = STDIN if Path(given) == STDIN else settings.find_query_file(given)
    return read_source(path, "query")


def choose_query(source: Source, name: str | None) -> Query:
    """Return one query of a text by name, or its only one.

    Raises:
        BadRequestError: the text does not have exactly one and no name was given.
    """
    from omnigraph.compiler.compile import QueryNotFoundError, parse_once

    queries = parse_once(source).queries
    if name is None:
        if len(queries) == 1:
            return queries[0]
        if not queries:
            raise BadRequestError(f"{source.name} has no queries")
        names = ", ".join(query.name for query in queries)
        raise BadRequestError(
            "query file contains multiple queries; pass --name", hint=f"it has {names}"
        )
    for query in queries:
        if query.name == name:
            return query
    raise QueryNotFoundError(name, tuple(query.name for query in queries))


def _require_one_query(query: QueryFlags) -> None:
    given = [one for one in (query.alias, query.query, query.text) if one is not None]
    if len(given) != 1:
        raise UsageError(
            "exactly one of --alias or --query must be provided",
            hint="or pass the query itself with --query-string",
        )
    if query.params is not None and query.params_file is not None:
        raise UsageError("--params and --params-file exclude each other")


def _alias(settings: Settings, name: str, command: AliasCommand) -> Alias:
    found = settings.alias(name)
    if found.command != command:
        is_a, wanted = found.command.capitalize(), command.capitalize()
        raise BadRequestError(
            f"alias '{name}' is a {is_a} alias, not a {wanted} alias",
            hint=f"run `omnigraph {found.command} --alias {name}`",
        )
    return found


def _split(
    settings: Settings, words: Sequence[str], flags: Flags, alias: Alias | None
) -> tuple[str | None, Sequence[str]]:
    """Return the address among the free words, and the arguments behind it.

    An alias whose graph is known takes every word as data, even one that looks like an address.
    """
    if alias is None:
        if len(words) > 1:
            raise UsageError(
                f"expected at most one URI, got {len(words)} words",
                hint="only an --alias takes arguments; pass parameters with --param",
            )
        return one_uri(words[0] if words else None, flags.uri), ()
    known = find_uri(settings, None, flags, alias.graph)
    if known is None and words and looks_like_uri(words[0]):
        return words[0], words[1:]
    return None, words


def _alias_args(alias: Alias | None, words: Sequence[str], query: Query) -> dict[str, Any]:
    if alias is None:
        return {}
    if len(words) > len(alias.args):
        raise UsageError(
            f"alias '{alias.name}' expects at most {len(alias.args)} args but got {len(words)}"
        )
    pairs = zip(alias.args, words, strict=False)  # missing ones may have defaults
    return {name: parse_word(word, query, name) for name, word in pairs}


def _loose_params(given: Sequence[str]) -> dict[str, Any]:
    """Return single parameters as they are read while no declaration says what they are."""
    pairs = (one.partition("=") for one in given)
    return {name.removeprefix("$"): json_or_text(word) for name, _, word in pairs}


def _single_params(given: Sequence[str], query: Query) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in given:
        name, equals, word = one.partition("=")
        if not equals or not name:
            raise UsageError(f"--param {one} is not NAME=VALUE")
        found[name.removeprefix("$")] = parse_word(word, query, name.removeprefix("$"))
    return found


def parse_word(word: str, query: Query, name: str) -> object:
    """Return a word as JSON has it; whatever a text parameter is given stays text."""
    value = json_or_text(word)
    declared = {param.name: param.type for param in query.params}.get(name)
    is_text = declared is not None and not declared.is_list and declared.name in _TEXT_TYPES
    return word if is_text and value is not None and not isinstance(value, str) else value


def json_or_text(word: str) -> object:
    """Return the JSON value a word is, or the word if it is none."""
    try:
        return json.loads(word)
    except ValueError:
        return word
    except RecursionError:
        raise BadRequestError("lists or objects are nested too deeply") from None


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object whose names are given once: which of two values is meant, nobody knows."""
    found = dict(pairs)
    if len(found) < len(pairs):
        again = next(name for name, _ in pairs if sum(name == other for other, _ in pairs) > 1)
        raise ValueError(f"'{again}' is given twice")
    return found


def given_params(text: str | None, file: Path | None) -> Mapping[str, Any]:
    """Return the parameters that one flag gives as a JSON object."""
    if text is None and file is None:
        return {}
    where = "--params" if file is None else f"params file '{file}'"
    refuse = UsageError if file is None else BadRequestError  # a file is not the command line
    content = read_source(file, "params").text if file is not None else text
    try:
        value = json.loads(content or "", object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        raise refuse(f"{where} is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise refuse("params JSON must be an object", hint='for example {"name": "Ann"}')
    return value
