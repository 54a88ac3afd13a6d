"""Clauses of `match`: bindings, traversals with their direction, filters, negations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from omnigraph.compiler.catalog.model import EdgeType, NodeType
from omnigraph.compiler.diagnostics import did_you_mean
from omnigraph.compiler.operations import CompareOp
from omnigraph.compiler.query import ast, typed
from omnigraph.compiler.query.check_expr import ExprChecker
from omnigraph.compiler.query.check_filter import check_filter, check_null_test
from omnigraph.compiler.query.check_value import check_inline_match
from omnigraph.compiler.query.scope import UNKNOWN, Context, Scope, Unknown, VarType
from omnigraph.compiler.query.typed import Direction
from omnigraph.compiler.source import Span

MAX_TRAVERSALS = 512
"""More steps than any real question has; keeps planning, which looks at pairs of them, instant."""


def check_match(
    ctx: Context, clauses: tuple[ast.Clause, ...]
) -> tuple[tuple[typed.Clause, ...], Scope]:
    """Return the resolved clauses and the variables they bind."""
    scope = Scope()
    steps = list(_traversals(clauses))
    if len(steps) > MAX_TRAVERSALS:
        message = f"a query has at most {MAX_TRAVERSALS} traversals, this one has {len(steps)}"
        ctx.report("T31", message, steps[MAX_TRAVERSALS].span, "split the query")
    _refuse_shadows(ctx, clauses)
    return _ClauseChecker(ctx, scope).run(clauses), scope


def _refuse_shadows(ctx: Context, clauses: tuple[ast.Clause, ...]) -> None:
    """Refuse a name that is a parameter and a node or edge: it would mean both, by place."""
    told = {ast.ANONYMOUS}
    for name, span, what in _bindings(ctx, clauses):
        if name in told or not ctx.is_param(name):
            continue
        told.add(name)
        message = f"`${name}` is a parameter and cannot also be {what}"
        hint = "give one of them another name; to compare with the value, use it in a filter"
        ctx.report("T26", message, span, hint)


def _bindings(ctx: Context, clauses: tuple[ast.Clause, ...]) -> Iterator[tuple[str, Span, str]]:
    """Yield every name that stands for a node or an edge, inside negations, too."""
    for clause in clauses:
        match clause:
            case ast.Binding():
                yield clause.var, clause.span, "a node"
            case ast.Traversal() if ctx.catalog.find_edge(clause.edge) is not None:
                yield clause.src, clause.span, "a node"
                yield clause.dst, clause.dst_span, "a node"
                if clause.edge_var is not None:
                    yield clause.edge_var, clause.edge_var_span, "an edge"
            case ast.Negation():
                yield from _bindings(ctx, clause.clauses)
            case _:
                pass


def _traversals(clauses: tuple[ast.Clause, ...]) -> Iterator[ast.Traversal]:
    for clause in clauses:
        if isinstance(clause, ast.Traversal):
            yield clause
        elif isinstance(clause, ast.Negation):
            yield from _traversals(clause.clauses)


def declared_variables(clauses: tuple[ast.Clause, ...]) -> tuple[str, ...]:
    """Return named variables in the order the text first mentions them, edge variables last."""
    nodes: dict[str, None] = {}
    edges: dict[str, None] = {}
    for clause in clauses:
        match clause:
            case ast.Binding(var=var):
                nodes[var] = None
            case ast.Traversal(src=src, dst=dst, edge_var=edge_var):
                nodes |= {src: None, dst: None}
                if edge_var is not None:
                    edges[edge_var] = None
            case _:
                pass
    nodes.pop(ast.ANONYMOUS, None)
    return (*nodes, *edges)


class _ClauseChecker:
    """One clause list. `mentioned` collects the variables that tie it to the lists around it."""

    def __init__(self, ctx: Context, scope: Scope) -> None:
        self.ctx = ctx
        self.scope = scope
        self.mentioned: dict[str, None] = {}

    def run(self, clauses: tuple[ast.Clause, ...]) -> tuple[typed.Clause, ...]:
        """Check the list: declarations first, so that direction does not depend on layout."""
        self._declare_bindings(clauses)
        done: dict[int, typed.Clause | None] = {}
        for at, clause in enumerate(clauses):
            if not isinstance(clause, ast.Negation):
                done[at] = self._clause(clause)
        # A name bound anywhere in this list is the outer variable inside a negation.
        for at, clause in enumerate(clauses):
            if isinstance(clause, ast.Negation):
                done[at] = self._negation(clause)
        ordered = (done[at] for at in range(len(clauses)))
        return tuple(clause for clause in ordered if clause is not None)

    def _declare_bindings(self, clauses: tuple[ast.Clause, ...]) -> None:
        for clause in clauses:
            if isinstance(clause, ast.Binding) and clause.var != ast.ANONYMOUS:
                self._declare_binding(clause)

    def _declare_binding(self, clause: ast.Binding) -> None:
        kind: VarType | None = self.ctx.catalog.nodes.get(clause.type_name)
        if kind is None:
            self._unknown_type(clause)
            kind = UNKNOWN
        known = self.scope.types.get(clause.var)
        if known is None:
            self.scope.types[clause.var] = kind
        elif known is not kind and not isinstance(known, Unknown) and not isinstance(kind, Unknown):
            code = "T23" if isinstance(known, EdgeType) else "T25"
            message = f"`${clause.var}` is already {_described(known)}, it cannot be a {kind.name}"
            self.ctx.report(code, message, clause.span, "use another variable name")

    def _unknown_type(self, clause: ast.Binding) -> None:
        name, catalog = clause.type_name, self.ctx.catalog
        message, hint = f"unknown node type `{name}`", did_you_mean(name, catalog.nodes)
        if name in catalog.edges:
            message = f"`{name}` is an edge type; only nodes can be bound"
            hint = f"write a traversal: `$a {name[0].lower()}{name[1:]} $b`"
        elif name in catalog.interfaces:
            message = f"`{name}` is an interface; only node types can be bound"
            users = [node.name for node in catalog.nodes.values() if name in node.implements]
            hint = f"it is implemented by {', '.join(users)}" if users else None
        self.ctx.report("T1", message, clause.type_span, hint)

    def _clause(
        self, clause: ast.Binding | ast.Traversal | ast.Filter | ast.NullTest | ast.TextMatch
    ) -> typed.Clause | None:
        match clause:
            case ast.Binding():
                return self._binding(clause)
            case ast.Traversal():
                return self._traversal(clause)
            case ast.Filter() | ast.NullTest() | ast.TextMatch():
                return self._predicate(clause)
            case _:
                assert_never(clause)

    def _predicate(
        self, clause: ast.Filter | ast.NullTest | ast.TextMatch
    ) -> typed.Predicate | None:
        checker = ExprChecker(self.ctx, self.scope)
        found: typed.Predicate | None
        match clause:
            case ast.Filter():
                found = check_filter(checker, clause)
            case ast.NullTest():
                found = check_null_test(checker, clause)
            case ast.TextMatch():
                call = checker.text(clause)
                found = None if call is None else text_predicate(call)
        self._mention(*sorted(checker.used))
        return found

    def _mention(self, *names: str) -> None:
        self.mentioned |= {name: None for name in names if name in self.scope.outer}

    # Bindings

    def _binding(self, clause: ast.Binding) -> typed.Binding | None:
        if clause.var == ast.ANONYMOUS:
            message = "`$_` stands for any node and cannot be declared"
            self.ctx.report("T25", message, clause.span, "give the variable a name")
            return None
        self._mention(clause.var)
        self.scope.bound.add(clause.var)
        kind = self.ctx.catalog.nodes.get(clause.type_name)
        if kind is None:
            return None
        predicates = [
            check_inline_match(self.ctx, clause.var, kind, item) for item in clause.matches
        ]
        kept = tuple(predicate for predicate in predicates if predicate is not None)
        return typed.Binding(clause.var, kind.name, kept)

    # Traversals

    def _traversal(self, clause: ast.Traversal) -> typed.Traversal | None:
        self._mention(clause.src, clause.dst)
        edge = self.ctx.catalog.find_edge(clause.edge)
        hops = self._hops(clause)
        if edge is None:
            self._unknown_edge(clause)
            self._declare_unknown(clause)
            return None
        direction = self._direction(clause, edge)
        edge_var = self._edge_variable(clause, edge)
        if direction is None or hops is None:
            self._declare_unknown(clause)
            return None
        forward = direction is not Direction.IN
        src_type = edge.from_type if forward else edge.to_type
        dst_type = edge.to_type if forward else edge.from_type
        ends_fit = self._end(clause.src, src_type, edge, clause.span)
        if not self._end(clause.dst, dst_type, edge, clause.dst_span) or not ends_fit:
            return None
        return typed.Traversal(
            None if clause.src == ast.ANONYMOUS else clause.src,
            None if clause.dst == ast.ANONYMOUS else clause.dst,
            edge.name,
            direction,
            src_type,
            dst_type,
            *hops,
            edge_var,
        )

    def _unknown_edge(self, clause: ast.Traversal) -> None:
        words = [f"{name[0].lower()}{name[1:]}" for name in self.ctx.catalog.edges]
        hint = did_you_mean(clause.edge, words)
        if hint is None and clause.edge in ("contains", "starts_with", "in"):
            hint = f"a filter needs a property on the left: `$x.name {clause.edge} …`"
        self.ctx.report("T4", f"unknown edge `{clause.edge}`", clause.edge_span, hint)

    def _declare_unknown(self, clause: ast.Traversal) -> None:
        """Keep later uses of the variables quiet: their traversal was already reported."""
        for name in (clause.src, clause.dst, clause.edge_var):
            if name is not None and name != ast.ANONYMOUS:
                self.scope.types.setdefault(name, UNKNOWN)
                self.scope.bound.add(name)

    def _hops(self, clause: ast.Traversal) -> tuple[int, int] | None:
        bounds = clause.bounds
        hint: str | None
        if bounds is None:
            return 1, 1
        if bounds.max is None:
            message, hint = (
                "unbounded traversal is disabled",
                f"write `{{{bounds.min or 1},{max(bounds.min, 5)}}}`",
            )
        elif bounds.min < 1:
            message, hint = "a traversal has at least one hop", f"write `{{1,{bounds.max or 1}}}`"
        elif bounds.max < bounds.min:
            message = f"at most {bounds.max} hops is less than at least {bounds.min}"
            hint = f"write `{{{bounds.max},{bounds.min}}}`" if bounds.max else None
        else:
            return bounds.min, bounds.max
        self.ctx.report("T15", message, bounds.span, hint)
        return None

    def _direction(self, clause: ast.Traversal, edge: EdgeType) -> Direction | None:
        if clause.undirected:
            if edge.from_type == edge.to_type:
                return Direction.BOTH
            message = (
                f"`<{clause.edge}>` needs equal ends, "
                f"{edge.name} goes from {edge.from_type} to {edge.to_type}"
            )
            hint = f"write `{clause.edge}`: it is walked from either end"
            self.ctx.report("T22", message, clause.edge_span, hint)
            return None
        src, dst = self._type_of(clause.src), self._type_of(clause.dst)
        # The left variable decides when its type is known; for equal ends forward always wins.
        if src is not None:
            return Direction.IN if src != edge.from_type and src == edge.to_type else Direction.OUT
        if dst is not None:
            return Direction.IN if dst != edge.to_type and dst == edge.from_type else Direction.OUT
        return Direction.OUT

    def _type_of(self, name: str) -> str | None:
        """Return the node type of an end, or None when it is free or already reported."""
        known = self.scope.types.get(name)
        return known.name if isinstance(known, NodeType) else None

    def _end(self, name: str, type_name: str, edge: EdgeType, span: Span) -> bool:
        """Bind or check one end; say whether it fits."""
        if name == ast.ANONYMOUS:
            return True
        known = self.scope.types.setdefault(name, self.ctx.catalog.nodes[type_name])
        self.scope.bound.add(name)
        match known:
            case NodeType() if known.name != type_name:
                message = (
                    f"{edge.name} goes from {edge.from_type} to {edge.to_type}, "
                    f"`${name}` is a {known.name}"
                )
                self.ctx.report("T5", message, span)
                return False
            case EdgeType():
                message = f"`${name}` is an edge; a traversal ends at nodes"
                self.ctx.report("T23", message, span, "use another variable name")
                return False
            case _:
                return True

    def _edge_variable(self, clause: ast.Traversal, edge: EdgeType) -> str | None:
        name = clause.edge_var
        if name is None:
            return None
        if name == ast.ANONYMOUS:
            message, hint = "`$_` cannot name an edge", f"write `{clause.edge}` without a variable"
        elif clause.bounds is not None:
            message = "an edge variable stands for one edge, not for a path"
            hint = "drop the hop bounds or the edge variable"
        elif name in self.scope.types or name in (clause.src, clause.dst):
            message, hint = f"`${name}` is already bound", "use another variable name"
        else:
            self.scope.types[name] = edge
            self.scope.bound.add(name)
            return name
        self.ctx.report("T23", message, clause.edge_var_span, hint)
        if name != ast.ANONYMOUS:
            self.scope.types.setdefault(name, UNKNOWN)
            self.scope.bound.add(name)
        return None

    # Negations

    def _negation(self, clause: ast.Negation) -> typed.Negation | None:
        errors_before = len(self.ctx.findings.items)
        inner = _ClauseChecker(self.ctx, self.scope.inner())
        clauses = inner.run(clause.clauses)
        if len(self.ctx.findings.items) > errors_before:
            return None
        if not inner.mentioned:
            message = "`not` must mention a variable bound outside of it"
            names = [f"${name}" for name in self.scope.types]
            hint = f"outside are {', '.join(names)}" if names else None
            self.ctx.report("T9", message, clause.span, hint)
            return None
        return typed.Negation(clauses, tuple(inner.mentioned))


def text_predicate(call: typed.TextMatch) -> typed.Compare:
    """Return a text clause as the filter it stands for: the call is true."""
    return typed.Compare(call, CompareOp.EQ, typed.Literal(True, typed.BOOL_TYPE))


def _described(kind: NodeType | EdgeType) -> str:
    return f"a {kind.name} edge" if isinstance(kind, EdgeType) else f"a {kind.name}"
