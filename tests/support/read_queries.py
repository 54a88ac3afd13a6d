"""Random read queries as text, well-typed by construction for a given catalog.

Nothing here knows what a query returns. A text the compiler refuses is thrown away by the caller;
that should be rare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any

from omnigraph.compiler.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.compiler.syntax import quote
from omnigraph.compiler.types import FLOATS, INTEGER_BOUNDS, INTEGERS, NUMERIC, PropType, Scalar
from tests.support.graphs import DIM, WORDS, GraphCase, a_text, a_value, a_vector

Kind = NodeType | EdgeType
Row = dict[str, Any]
_ORDERED = ["=", "!=", "!=", "<", "<=", "<=", ">", ">=", ">="]
_PARAM_WHOLE = INTEGER_BOUNDS[Scalar.I64]
_ID = PropType(Scalar.STRING)
_CLOSE = [*WORDS, "rad", "foks", "runing", "zzz"]


@dataclass(frozen=True)
class ReadCase:
    """A query text with values for its parameters."""

    text: str
    params: dict[str, Any]


@dataclass
class Draft:
    """A query being written: what is bound, which parameters are declared."""

    rng: Random
    catalog: Catalog
    rows: Mapping[str, list[Row]]
    nodes: dict[str, NodeType] = field(default_factory=dict)
    edges: dict[str, EdgeType] = field(default_factory=dict)
    params: dict[str, tuple[str, Any]] = field(default_factory=dict)
    taken: int = 0

    def pick(self, options: Any) -> Any:
        return self.rng.choice(list(options))

    def chance(self, one_in: int) -> bool:
        return self.rng.random() < 1 / one_in

    def fresh(self, prefix: str) -> str:
        self.taken += 1
        return f"{prefix}{self.taken}"

    @property
    def bound(self) -> dict[str, Kind]:
        return {**self.nodes, **self.edges}

    # Constants

    def constant(self, kind: PropType, value: Any) -> str:
        """Return a literal or a parameter that holds the value."""
        if kind.scalar in INTEGERS and not _fits(value):
            return spelled(kind, 7)  # beyond what a literal or parameter can hold
        odd = kind.scalar in FLOATS and not isinstance(value, list) and abs(value) > 1e15
        return self.param(kind, value) if odd or self.chance(2) else spelled(kind, value)

    def param(self, kind: PropType, value: Any) -> str:
        name = f"p{len(self.params)}"
        optional = self.chance(3)
        written = PropType(kind.scalar, is_list=kind.is_list, dim=kind.dim)
        given = None if optional and self.chance(4) else as_json(kind, value)
        self.params[name] = (f"{written}{'?' if optional else ''}", given)
        return f"${name}"

    def value_like(self, column: str) -> str:
        """Return a constant that may be compared with an item of a column, often one it holds."""
        kind, held = self.type_of(column).item(), self.held(column)
        if held and not self.chance(4):
            return self.constant(kind, self.pick(held))
        if kind.is_numeric and self.chance(2):
            kind = PropType(self.pick(sorted(NUMERIC)))
        return self.constant(kind, a_value(self.rng, kind))

    # Properties

    def columns(self, wanted: Callable[[PropType], bool] = lambda _: True) -> list[str]:
        """Return `$var.column` for every bound column of a wanted type."""
        return [
            f"${var}.{name}"
            for var, kind in self.bound.items()
            for name, found in columns_of(kind).items()
            if wanted(found)
        ]

    def type_of(self, column: str) -> PropType:
        var, name = column[1:].split(".")
        return columns_of(self.bound[var])[name]

    def held(self, column: str) -> list[Any]:
        """Return the values, or list items, a column holds."""
        var, name = column[1:].split(".")
        values = [row[name] for row in self.rows[self.bound[var].table_key]]
        if self.type_of(column).is_list:
            values = [one for items in values for one in items or ()]
        return [one for one in values if one is not None]

    def texts(self) -> list[str]:
        on_nodes = [column for column in self.columns() if column[1:].split(".")[0] in self.nodes]
        plain = [one for one in on_nodes if self.type_of(one).is_plain_string]
        return [one for one in plain if one.endswith(".text")] or plain

    def vectors(self) -> list[str]:
        return self.columns(lambda kind: kind.scalar is Scalar.VECTOR)

    # Search

    def text_call(self) -> str:
        fn = self.pick(["search", "match_text", "fuzzy"])
        query = self.text_query()
        edits = f", {self.rng.randint(0, 2)}" if fn == "fuzzy" and self.chance(2) else ""
        return f"{fn}({self.pick(self.texts())}, {query}{edits})"

    def text_query(self) -> str:
        close = " ".join(self.rng.choices(_CLOSE, k=self.rng.randint(1, 2)))
        return self.constant(_ID, close if self.chance(2) else a_text(self.rng))

    def bm25(self, column: str | None = None) -> str:
        return f"bm25({column or self.pick(self.texts())}, {self.text_query()})"

    def nearest(self, column: str | None = None) -> str:
        query = self.constant(PropType(Scalar.VECTOR, dim=DIM), a_vector(self.rng))
        return f"nearest({column or self.pick(self.near_columns())}, {query})"

    def near_columns(self) -> list[str]:
        return [one for one in self.vectors() if one[1:].split(".")[0] in self.nodes]

    def rrf(self) -> str:
        """Return the fusion of two arms on one variable."""
        options = [*self.texts(), *self.near_columns()]
        first = self.pick(options)
        var = first.split(".")[0]
        second = self.pick([one for one in options if one.split(".")[0] == var])
        k = f", {self.pick([1, 60])}" if self.chance(2) else ""
        return f"rrf({self.arm(first)}, {self.arm(second)}{k})"

    def arm(self, column: str) -> str:
        vector = self.type_of(column).scalar is Scalar.VECTOR
        return self.nearest(column) if vector else self.bm25(column)

    def score(self) -> str | None:
        makers = [self.bm25] if self.texts() else []
        makers += [self.nearest] if self.near_columns() else []
        return self.pick(makers)() if makers else None


def columns_of(kind: Kind) -> dict[str, PropType]:
    """Return every column of a type, the ids included."""
    system = ("id", "src", "dst") if isinstance(kind, EdgeType) else ("id",)
    return dict.fromkeys(system, _ID) | {name: p.type for name, p in kind.properties.items()}


def _fits(value: Any) -> bool:
    low, high = _PARAM_WHOLE
    return all(low <= one <= high for one in (value if isinstance(value, list) else [value]))


def spelled(kind: PropType, value: Any) -> str:
    """Return a literal."""
    if isinstance(value, list):
        return f"[{', '.join(spelled(PropType(_item(kind)), one) for one in value)}]"
    match kind.scalar:
        case Scalar.STRING:
            return quote(value)
        case Scalar.BOOL:
            return "true" if value else "false"
        case Scalar.DATE:
            return f'date("{show_day(value)}")'
        case Scalar.DATETIME:
            return f'datetime("{show_moment(value)}")'
        case Scalar.F32 | Scalar.F64:
            return f"{value:.17f}"
        case _:
            return str(value)


def _item(kind: PropType) -> Scalar:
    return Scalar.F64 if kind.scalar is Scalar.VECTOR else kind.scalar


def as_json(kind: PropType, value: Any) -> Any:
    """Return a value as a caller passes it."""
    if isinstance(value, list):
        return [as_json(PropType(_item(kind)), one) for one in value]
    if kind.scalar is Scalar.DATE:
        return show_day(value)
    return show_moment(value) if kind.scalar is Scalar.DATETIME else value


def show_day(days: int) -> str:
    return (date(1970, 1, 1) + timedelta(days=days)).isoformat()


def show_moment(millis: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)
    return moment.isoformat(timespec="milliseconds")


# Match


def clause(draft: Draft, depth: int) -> str | None:
    """Return one more clause that fits what is bound, or None when none was found."""
    options: list[Callable[[Draft], str | None]] = [traversal] * 5 + [binding]
    if draft.bound:
        options += [comparison, comparison, comparison, membership, null_test, identity]
        if draft.texts():
            options += [text_clause, score_filter]
        elif draft.near_columns():
            options.append(score_filter)
        if depth < 2:
            options += [lambda one: negation(one, depth + 1)]
    return draft.pick(options)(draft)


def binding(draft: Draft) -> str:
    again = draft.nodes and draft.chance(4)
    if again:
        var = draft.pick(draft.nodes)
        kind = draft.nodes[var]
    else:
        var, kind = draft.fresh("n"), draft.pick(draft.catalog.nodes.values())
    draft.nodes[var] = kind
    items = []
    for name, prop in kind.properties.items():
        if prop.type.scalar is not Scalar.VECTOR and draft.chance(16):
            items.append(f"{name}: {draft.value_like(f'${var}.{name}')}")
    return f"${var}: {kind.name}" + (f" {{ {', '.join(items)} }}" if items else "")


def traversal(draft: Draft) -> str:
    edge: EdgeType = draft.pick(draft.catalog.edges.values())
    same = edge.from_type == edge.to_type
    types = (edge.from_type, edge.to_type)
    ways = [types] if same else [types, types[::-1]]
    left_type, right_type = draft.pick(ways)
    left, right = _end(draft, left_type), _end(draft, right_type)
    if left not in draft.nodes and right not in draft.nodes:
        left_type, right_type = types  # nothing is known, so the edge is read forwards
    word = edge.name.lower()
    word = f"<{word}>" if same and draft.chance(3) else word
    shape = draft.pick(["plain", "plain", "hops", "named"])
    named = ""
    if shape == "hops":
        low = draft.pick([1, 1, 1, 2, 2, 3])
        word += f"{{{low},{draft.rng.randint(low, 3)}}}"
    elif shape == "named":
        var = draft.fresh("k")
        named = f"${var}:"
    text = f"${left} {named}{word} ${right}"
    for end, kind in ((left, left_type), (right, right_type)):
        if end != "_":
            draft.nodes[end] = draft.catalog.nodes[kind]
    if named:
        draft.edges[named[1:-1]] = edge
    return text


def _end(draft: Draft, kind: str) -> str:
    known = [var for var, found in draft.nodes.items() if found.name == kind]
    if known and not draft.chance(3):
        return draft.pick(known)
    return "_" if draft.chance(3) else draft.fresh("n")


def _comparable(kind: PropType) -> bool:
    return not kind.is_list and kind.scalar is not Scalar.VECTOR


def comparison(draft: Draft) -> str | None:
    columns = draft.columns(_comparable)
    left = draft.pick(columns)
    kind = draft.type_of(left)
    if kind.enum_values is None and draft.chance(3):
        others = [
            one
            for one in columns
            if one != left
            and (
                (other := draft.type_of(one)).scalar is kind.scalar
                or (other.is_numeric and kind.is_numeric)
            )
        ]
        right = draft.pick(others or [left])
    else:
        right = draft.value_like(left)
    if kind.is_plain_string and draft.chance(3):
        op = draft.pick(["contains", "starts_with"])
        if kind.enum_values is None and draft.chance(3):
            left, right = right, left
        return f"{left} {op} {right}" if not left.startswith("$p") else f"{right} {op} {left}"
    op = draft.pick(_ORDERED)
    if draft.chance(4) and "." in left and not right.startswith("$p"):
        left, right = right, left
    return f"{left} {op} {right}"


def shared_value(draft: Draft) -> str | None:
    """Return an equality of two variables, which need not be connected otherwise."""
    columns = draft.columns(_comparable)
    pairs = [
        (left, right)
        for left in columns
        for right in columns
        if left.split(".")[0] != right.split(".")[0]
        and (
            (kind := draft.type_of(left)).scalar is (other := draft.type_of(right)).scalar
            or (kind.is_numeric and other.is_numeric)
        )
    ]
    held = {column: set(map(str, draft.held(column))) for column in columns}
    meeting = [(left, right) for left, right in pairs if held[left] & held[right]]
    return " = ".join(draft.pick(meeting or pairs)) if pairs else None


def membership(draft: Draft) -> str | None:
    lists = draft.columns(lambda kind: kind.is_list)
    if lists and draft.chance(2):
        column = draft.pick(lists)
        return f"{column} contains {draft.value_like(column)}"
    column = draft.pick(draft.columns(_comparable))
    kind = draft.type_of(column).required()
    wanted = PropType(kind.scalar, is_list=True, enum_values=kind.enum_values)
    held = [one for one in draft.held(column) if kind.scalar not in INTEGERS or _fits(one)]
    some = draft.rng.sample(held, min(len(held), 3)) + a_value(draft.rng, wanted)
    return f"{column} in {draft.constant(wanted, some)}"


def null_test(draft: Draft) -> str:
    options = draft.columns()
    if draft.near_columns() and draft.chance(4):
        options = [draft.nearest()]
    return f"{draft.pick(options)} {draft.pick(['is null', 'is not null'])}"


def identity(draft: Draft) -> str | None:
    left = draft.pick(draft.bound)
    others = [var for var, kind in draft.bound.items() if kind is draft.bound[left]]
    others = [var for var in others if var != left] or others
    op = "=" if others == [left] else draft.pick(["=", "!=", "!="])
    return f"${left} {op} ${draft.pick(others)}"


def text_clause(draft: Draft) -> str:
    call = draft.text_call()
    return f"{call} = {draft.pick(['true', 'false'])}" if draft.chance(4) else call


def score_filter(draft: Draft) -> str | None:
    score = draft.score()
    return None if score is None else f"{score} {draft.pick(_ORDERED)} {draft.pick(['0.5', '1'])}"


def negation(draft: Draft, depth: int) -> str | None:
    """Return a negation; what it binds is forgotten behind it."""
    nodes, edges, taken = dict(draft.nodes), dict(draft.edges), draft.taken
    inner = [clause(draft, depth) for _ in range(draft.rng.randint(1, 3))]
    draft.nodes, draft.edges = nodes, edges
    if draft.chance(2):
        draft.taken = taken  # the next one may use the same names for something else
    kept = [one for one in inner if one is not None]
    return f"not {{ {'  '.join(kept)} }}" if kept else None


# Return and order


def single_columns(draft: Draft) -> list[str]:
    """Return the projections of a query without groups."""
    found = []
    for _ in range(draft.rng.randint(1, 4)):
        choice = draft.rng.randint(0, 9)
        score = draft.score() if choice == 0 else None
        if score is not None:
            found.append(score)
        elif choice == 1 and draft.texts():
            found.append(draft.text_call())
        elif choice == 2:
            kind = PropType(draft.pick([Scalar.I64, Scalar.STRING, Scalar.DATE]))
            found.append(draft.constant(kind, a_value(draft.rng, kind)))
        elif choice <= 4:
            found.append(f"${draft.pick(draft.bound)}")
        else:
            found.append(draft.pick(draft.columns()))
    return found


def group_columns(draft: Draft) -> tuple[list[str], list[str]]:
    """Return group keys and aggregates."""
    options = [*draft.columns(), *(f"${var}" for var in draft.bound)]
    keys = draft.rng.sample(options, draft.rng.randint(0, min(2, len(options))))
    count = draft.rng.randint(1, 3)
    made = [draft.pick([_count, _count, _number, _extreme])(draft) for _ in range(count)]
    return keys, made


def _count(draft: Draft) -> str:
    if draft.chance(3):
        return "count(*)"
    options = [*draft.columns(), *(f"${var}" for var in draft.bound)]
    return f"count({draft.pick(['', 'distinct '])}{draft.pick(options)})"


def _number(draft: Draft) -> str:
    columns = draft.columns(lambda kind: kind.is_numeric)
    fn = draft.pick(["sum", "avg"])
    return f"{fn}({draft.pick(columns)})" if columns else _count(draft)


def _extreme(draft: Draft) -> str:
    columns = draft.columns(lambda kind: kind.is_numeric or kind.is_plain_string)
    return f"{draft.pick(['min', 'max'])}({draft.pick(columns)})"


def _sortable(draft: Draft, expr: str) -> bool:
    if expr.startswith("$") and "." in expr:
        return _comparable(draft.type_of(expr))
    return not expr.startswith(("nearest", "["))


def a_query(rng: Random, graph: GraphCase) -> ReadCase:
    """Return a query over a graph."""
    draft = Draft(rng, graph.catalog, graph.rows)
    clauses = [draft.pick([binding, traversal])(draft)]
    if not draft.nodes:
        clauses.append(binding(draft))
    clauses += [clause(draft, 0) for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3, 4]))]
    if draft.chance(10):  # a part of its own that shares values with what is there
        clauses += [binding(draft), shared_value(draft)]
        clauses += [shared_value(draft)] if draft.chance(3) else []
    shape = draft.pick(["plain", "plain", "ranked", "ranked", "ranked", "grouped", "distinct"])
    distinct = shape == "distinct" or (shape != "plain" and draft.chance(5))
    if shape == "grouped":
        keys, made = group_columns(draft)
        columns, sortable = [*keys, *made], [*keys, *made]
    else:
        columns = single_columns(draft)
        sortable = columns if distinct else [*columns, *draft.columns(_comparable)]
    sortable = [one for one in sortable if _sortable(draft, one)]
    order = rng.choices(sortable, k=rng.randint(0, 2)) if sortable else []
    named = {one: f"c{at}" for at, one in enumerate(columns)}
    keys_text = [_order_key(draft, one, named) for one in order]
    ranked = _ranking(draft) if shape == "ranked" else None
    if ranked is not None:
        if distinct or draft.chance(2):
            columns = [*columns, ranked]
        keys_text = [ranked + draft.pick(_DIRECTIONS[ranked.split("(")[0]]), *keys_text[:1]]
    returned = ", ".join(f"{one} as c{at}" for at, one in enumerate(columns))
    lines = [f"  match {{ {'  '.join(one for one in clauses if one)} }}"]
    lines.append(f"  return {'distinct ' if distinct else ''}{{ {returned} }}")
    lines += [f"  order {{ {', '.join(keys_text)} }}"] if keys_text else []
    lines += _window(draft, needed=ranked is not None or "nearest" in returned)
    header = ", ".join(f"${name}: {kind}" for name, (kind, _) in draft.params.items())
    text = "\n".join([f"query q({header}) {{", *lines, "}"])
    return ReadCase(text, {name: value for name, (_, value) in draft.params.items()})


_DIRECTIONS = {"nearest": [""], "bm25": ["", " desc", " asc"], "rrf": ["", " desc", " asc"]}


def _order_key(draft: Draft, expr: str, named: dict[str, str]) -> str:
    if expr in named and (not expr.startswith("$") or draft.chance(2)):
        expr = named[expr]
    return expr + draft.pick(["", " asc", " desc"])


def _ranking(draft: Draft) -> str | None:
    if draft.texts() or draft.near_columns():
        return draft.pick([draft.rrf, draft.score])()
    return None


def _window(draft: Draft, *, needed: bool) -> list[str]:
    lines = []
    if needed or draft.chance(3):
        count = str(draft.pick([0, 1, 2, 3, 4, 5, 6, 9, 20]))
        if draft.chance(3):
            draft.params["most"] = ("I64", int(count))
            count = "$most"
        lines.append(f"  limit {count}")
    if draft.chance(5):
        lines.append(f"  offset {draft.pick([0, 1, 1, 2, 3])}")
    return lines
