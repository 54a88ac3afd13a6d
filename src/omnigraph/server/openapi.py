"""The OpenAPI documents, made from the route table and the types of requests and answers.

`contract_document` is the 0.3 contract and nothing else: clients in other languages are generated
from it, so names, requiredness, order and statuses count. It is kept as a file beside this module,
which a test compares. `full_document` has every route.
"""

from __future__ import annotations

import enum
import functools
import inspect
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import orjson
from msgspec import Struct

from omnigraph.base.version import VERSION
from omnigraph.server import contract
from omnigraph.server.call import DocumentName
from omnigraph.server.routes import JSON_TYPE, LINES_TYPE, ROUTES, Route

CONTRACT_FILE: Final = Path(__file__).with_name("openapi.json")
_REASONS: Final = {
    200: "Done",
    400: "The request is wrong",
    401: "The token is missing or unknown",
    403: "The policy does not allow this",
    404: "There is no such thing",
    408: "The body came too slowly",
    409: "It does not go together with what is there",
    412: "The branch is at another commit",
    413: "The body, or what a query needs, is too large",
    415: "The body is of a type that is not taken",
    421: "The server has no such name",
    429: "There is too much to do",
    500: "The server failed",
    503: "The server starts or stops, or a write is neither done nor undone yet",
}
_OPEN: Final = (400, 421, 500, 503)
_GUARDED: Final = (400, 401, 403, 404, 408, 409, 413, 415, 421, 429, 500, 503)
Schema = dict[str, Any]


def contract_document(*, secured: bool = True) -> Schema:
    """Return the document of the 0.3 contract; an open server has no tokens to speak of."""
    document: Schema = orjson.loads(CONTRACT_FILE.read_bytes())
    return document if secured else _without_tokens(document)


def emit_contract() -> Schema:
    """Return the document as the types say it: what the file must hold."""
    routes = [route for route in ROUTES if route.contract is not None]
    paths: dict[str, Schema] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _contract_operation(route)
    return _document(paths, _structs_of(contract.__dict__.values()))


def full_document(*, secured: bool = True) -> Schema:
    """Return the document of every route, additions to those of the contract included."""
    paths: dict[str, Schema] = {}
    structs: dict[str, type] = {
        one.__name__: one for one in _structs_of(contract.__dict__.values())
    }
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _full_operation(route)
        for one in (route.body, route.answer):
            if one is not None:
                structs |= {found.__name__: found for found in _reached(one)}
    document = _document(paths, sorted(structs.values(), key=lambda one: one.__name__))
    return document if secured else _without_tokens(document)


@functools.cache
def served_document(name: DocumentName, secured: bool) -> bytes:
    """Return a document as a server sends it; made once, since everybody may ask for it."""
    make = contract_document if name == "contract" else full_document
    return text(make(secured=secured))


def text(document: Schema) -> bytes:
    """Return a document as the file has it."""
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _document(paths: Mapping[str, Schema], structs: Iterable[type]) -> Schema:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Omnigraph API",
            "description": "HTTP API of an Omnigraph server",
            "license": {"name": "MIT", "identifier": "MIT"},
            "version": VERSION,
        },
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": {one.__name__: _component(one) for one in structs},
            "securitySchemes": {"bearer_token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _without_tokens(document: Schema) -> Schema:
    for operations in document["paths"].values():
        for operation in operations.values():
            operation.pop("security", None)
    document["components"].pop("securitySchemes", None)
    return document


def _contract_operation(route: Route) -> Schema:
    said = route.contract
    assert said is not None, "routes beyond the contract are not in its document"
    content = {LINES_TYPE: {}} if said.answer is None else _json(said.answer)
    return _operation(
        route,
        said.operation,
        [*_path_words(route), *map(_query_word, said.query)],
        None if said.request is None else {"content": _json(said.request), "required": True},
        content,
        said.errors,
    )


def _full_operation(route: Route) -> Schema:
    operation = route.handler.__name__ if route.contract is None else route.contract.operation
    if route.contract is None:
        operation = "_".join([route.method.lower(), *_plain_words(route)])
    body = None
    if route.body is not None:
        body = {"content": _json(route.body), "required": not route.may_be_empty}
    elif route.method == "POST":
        body = {"content": {route.takes: {}}, "required": True}
    content: Schema = {kind: {} for kind in route.gives}
    if route.answer is not None:
        content |= _json(route.answer)
    errors = set(_OPEN if route.is_open else _GUARDED)
    if route.is_conditional:
        errors.add(412)
    parameters = [*_path_words(route), *map(_query_word, route.query), *_header_words(route)]
    return _operation(route, operation, parameters, body, content, sorted(errors))


def _operation(
    route: Route,
    operation: str,
    parameters: list[Schema],
    body: Schema | None,
    content: Schema,
    errors: Iterable[int],
) -> Schema:
    found: Schema = {
        "tags": [route.tag],
        "summary": (inspect.getdoc(route.handler) or "").partition("\n")[0],
        "operationId": operation,
    }
    if parameters:
        found["parameters"] = parameters
    if body is not None:
        found["requestBody"] = body
    refused = {
        str(status): {"description": _REASONS[status], "content": _json(contract.ErrorOutput)}
        for status in errors
    }
    found["responses"] = {"200": {"description": _REASONS[200], "content": content}, **refused}
    if not route.is_open:
        found["security"] = [{"bearer_token": []}]
    return found


def _plain_words(route: Route) -> Iterator[str]:
    for word in route.path.strip("/").replace("-", "_").replace(".", "_").split("/"):
        yield word.strip("{}")


def _path_words(route: Route) -> Iterator[Schema]:
    for word in route.path.split("/"):
        if word.startswith("{"):
            yield {"name": word[1:-1], "in": "path", "required": True, "schema": {"type": "string"}}


def _query_word(name: str) -> Schema:
    return {"name": name, "in": "query", "required": False, "schema": {"type": ["string", "null"]}}


def _header_words(route: Route) -> Iterator[Schema]:
    words = [("Idempotency-Key", False)] if route.is_keyed else []
    needed = not route.may_be_unconditional
    words += [("Omnigraph-If-Graph-Commit", needed)] if route.is_conditional else []
    for name, required in words:
        yield {"name": name, "in": "header", "required": required, "schema": {"type": "string"}}


def _json(struct: type) -> Schema:
    return {JSON_TYPE: {"schema": _reference(struct)}}


def _reference(struct: type) -> Schema:
    return {"$ref": f"#/components/schemas/{struct.__name__}"}


def _structs_of(values: Iterable[object]) -> list[type]:
    """Return the types among some values that are components, by their names."""
    found = {
        one
        for one in values
        if isinstance(one, type)
        and one not in (Struct, enum.Enum)
        and issubclass(one, Struct | enum.Enum)
    }
    return sorted(found, key=lambda one: one.__name__)


def _reached(struct: type) -> Iterator[type]:
    """Yield a type and those its fields are of."""
    yield struct
    if issubclass(struct, Struct):
        for hint in typing.get_type_hints(struct).values():
            for one in (hint, *typing.get_args(hint)):
                if isinstance(one, type) and issubclass(one, Struct | enum.Enum):
                    yield from _reached(one)


def _component(struct: type) -> Schema:
    described = {"description": (inspect.getdoc(struct) or "").partition("\n")[0]}
    if issubclass(struct, enum.Enum):
        return {"type": "string", **described, "enum": [one.value for one in struct]}
    assert issubclass(struct, Struct), "a component is a struct or an enum"
    hints = typing.get_type_hints(struct, include_extras=True)
    fields = msgspec.structs.fields(struct)
    properties = {field.encode_name: _schema(hints[field.name]) for field in fields}
    found = {"type": "object", **described, "properties": dict(sorted(properties.items()))}
    required = sorted(field.encode_name for field in fields if field.required)
    return {**found, "required": required} if required else found


_PLAIN: Final = {str: "string", int: "integer", bool: "boolean", float: "number"}


def _schema(hint: Any) -> Schema:  # noqa: ANN401 - any type
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return {}
    if origin is Annotated:
        meta = parts[1]
        least = {} if meta.ge is None else {"minimum": meta.ge}
        return {"type": "integer", **least, **(meta.extra_json_schema or {})}
    if origin in (types.UnionType, typing.Union):
        kept = [_schema(part) for part in parts if part is not type(None)]
        if len(kept) == 1 and "$ref" not in kept[0]:
            return {**kept[0], "type": [kept[0]["type"], "null"]} if kept[0] else {}
        return {"oneOf": [{"type": "null"}, *kept]}
    if origin is list:
        return {"type": "array", "items": _schema(parts[0])}
    return {"type": _PLAIN[hint]} if hint in _PLAIN else _reference(hint)
