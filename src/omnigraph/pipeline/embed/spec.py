"""What an offline embedding job is told: the files, the fields that make up a text, which rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from omnigraph.base.uri import is_file
from omnigraph.errors import BadRequestError, NotFoundError

DEFAULT_OUTPUT = "./build/seed.embedded.jsonl"


@dataclass(frozen=True, slots=True)
class TypeSpec:
    """The vector field of a node type, and the fields its text is made of."""

    target: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EmbedSpec:
    """What to embed, by node type."""

    dimension: int
    types: Mapping[str, TypeSpec]
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Selector:
    """Rows of a type (or of any) whose field, written as text, is exactly this."""

    type_name: str | None
    field: str
    value: str


@dataclass(frozen=True, slots=True)
class EmbedFiles:
    """Where rows come from, where they go, and what is made of them."""

    source: Path
    output: Path
    spec: EmbedSpec


def read_files(source: str, output: str, spec: str) -> EmbedFiles:
    """Return the job of three files.

    Raises:
        NotFoundError: one of them does not exist.
        BadRequestError: the specification is wrong.
    """
    return EmbedFiles(_input(Path(source)), Path(output), spec_of(_json(Path(spec)), spec))


def read_manifest(path: str) -> EmbedFiles:
    """Return the job a seed manifest describes; its paths start from its folder.

    Raises:
        NotFoundError: the manifest or its input does not exist.
        BadRequestError: it does not say what to embed.
    """
    import yaml  # only manifests are YAML

    place = Path(path)
    try:
        found = yaml.safe_load(place.read_text("utf-8-sig"))
    except FileNotFoundError:
        raise NotFoundError(f"seed manifest '{path}' not found") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequestError(f"seed manifest '{path}' is not valid YAML: {error}") from None
    manifest = _mapping(found, path)
    sources, legacy = _part(manifest, "sources", path), _part(manifest, "seed", path)
    raw = sources.get("raw_seed") or legacy.get("data")
    if not isinstance(raw, str):
        raise BadRequestError("seed manifest is missing sources.raw_seed")
    if manifest.get("embeddings") is None:
        raise BadRequestError("seed manifest is missing embeddings")
    output = _part(manifest, "artifacts", path).get("embedded_seed") or DEFAULT_OUTPUT
    spec = spec_of(manifest["embeddings"], f"{path}: embeddings")
    return EmbedFiles(_input(place.parent / raw), place.parent / str(output), spec)


def spec_of(found: object, where: str) -> EmbedSpec:
    """Return a specification from its JSON form.

    Raises:
        BadRequestError: a part is missing or of the wrong kind.
    """
    given = _mapping(found, where)
    dimension, model = given.get("dimension"), given.get("model")
    if not isinstance(dimension, int) or isinstance(dimension, bool) or dimension < 1:
        raise BadRequestError(f"{where}: `dimension` must be a whole number above 0")
    if model is not None and not isinstance(model, str):
        raise BadRequestError(f"{where}: `model` must be a name")
    types = _part(given, "types", where)
    if not types:
        raise BadRequestError(
            f"{where}: `types` names no node type",
            hint='for example "types": {"Doc": {"target": "embedding", "fields": ["title"]}}',
        )
    return EmbedSpec(
        dimension,
        {name: _type(one, f"{where}: types.{name}") for name, one in types.items()},
        model,
    )


def _type(found: object, where: str) -> TypeSpec:
    given = _mapping(found, where)
    target, fields = given.get("target"), given.get("fields")
    if not isinstance(target, str) or not target:
        raise BadRequestError(f"{where}: `target` must name the vector field")
    named = isinstance(fields, list) and all(isinstance(one, str) for one in fields)
    if not named or not fields:
        raise BadRequestError(f"{where}: `fields` must list the fields the text is made of")
    return TypeSpec(target, tuple(fields))


def parse_selectors(texts: Sequence[str]) -> tuple[Selector, ...]:
    """Return selectors from `[Type:]field=value`.

    Raises:
        BadRequestError: a text is not of that form.
    """
    return tuple(_selector(text) for text in texts)


def _selector(text: str) -> Selector:
    name, equals, value = text.partition("=")
    type_name, colon, field = name.partition(":")
    if not colon:
        type_name, field = "", name
    if not equals or not field or (colon and not type_name):
        raise BadRequestError(
            f"'{text}' is not a selector", hint="write [Type:]field=value, such as Doc:slug=intro"
        )
    return Selector(type_name or None, field, value)


def _input(path: Path) -> Path:
    if not is_file(path):
        raise NotFoundError(f"seed input does not exist: {path}")
    return path


def _json(path: Path) -> Any:  # noqa: ANN401 - any JSON
    try:
        return orjson.loads(path.read_bytes())
    except FileNotFoundError:
        raise NotFoundError(f"embedding specification '{path}' not found") from None
    except orjson.JSONDecodeError as error:
        raise BadRequestError(f"{path}: not valid JSON: {error}") from None


def _part(found: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    part = found.get(name)
    return {} if part is None else _mapping(part, f"{where}: {name}")


def _mapping(found: object, where: str) -> Mapping[str, Any]:
    if not isinstance(found, Mapping):
        raise BadRequestError(f"{where}: expected names and values")
    return found
