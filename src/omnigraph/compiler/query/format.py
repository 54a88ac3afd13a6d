"""The one layout of `.gq` text: tokens and comments stay, the space between them is decided here.

The parse tree says where lines and list items begin, the tokens say everything else. Commas that
the grammar leaves optional are made regular; nothing else is added or removed, so the meaning
stays. Every decision depends on tokens only (and on which comments had a line of their own), which
makes formatting twice the same as formatting once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from omnigraph.compiler.query import ast
from omnigraph.compiler.query.parser import parse_queries
from omnigraph.compiler.source import Source, Span
from omnigraph.compiler.syntax import Token, tokens

WIDTH = 88
_INDENT = "  "
_OPENERS, _CLOSERS = frozenset("{(["), frozenset("})]")
_READ_WORDS = frozenset({"match", "return", "order", "limit", "offset"})


def format_queries(source: Source) -> str:
    """Return the text in its one layout; formatting the result again changes nothing.

    Raises:
        DiagnosticsError: the text does not parse.
    """
    queries = parse_queries(source).queries
    found = list(tokens(source.text))
    return _Printer(source.text, found, _Plan.of(found, queries)).run()


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the tree decides, by index of the token: line starts, list items, kinds of brackets."""

    lines: frozenset[int]
    items: frozenset[int]
    comma_after: frozenset[int]
    dropped: frozenset[int]
    parent_of: Sequence[int]
    closer_of: dict[int, int]
    opener_of: dict[int, int]
    headers: dict[int, int]
    blocks: frozenset[int]
    lists: frozenset[int]
    bounds: frozenset[int]

    @staticmethod
    def of(found: Sequence[Token], queries: Sequence[ast.Query]) -> _Plan:
        """Match the tree's offsets with the tokens."""
        starts = {token.start: index for index, token in enumerate(found)}
        closer_of, parent_of = _brackets(found)
        lines = {starts[span.start] for query in queries for span in _line_spans(query)}
        lines |= _read_words(found, parent_of, queries, starts)
        items = {starts[span.start] for query in queries for span in _item_spans(query)}
        comma_after: set[int] = set()
        first_seen: set[int] = set()
        for index in sorted(items):
            if parent_of[index] in first_seen:
                comma_after.add(_previous(found, index))
            first_seen.add(parent_of[index])
        lists = frozenset(first_seen)
        dropped = {
            index
            for index, token in enumerate(found)
            if token.text == "," and parent_of[index] in lists
        }
        return _Plan(
            frozenset(lines),
            frozenset(items),
            frozenset(comma_after),
            frozenset(dropped),
            parent_of,
            closer_of,
            {closer: opener for opener, closer in closer_of.items()},
            {starts[query.span.start]: _body(found, starts[query.span.start]) for query in queries},
            frozenset(parent_of[index] for index in lines) - {-1},
            lists,
            frozenset(opener for opener in closer_of if _is_bounds(found, opener)),
        )


def _brackets(found: Sequence[Token]) -> tuple[dict[int, int], list[int]]:
    """Return the closer of every opener, and for every token the opener around it (-1: none)."""
    closer_of: dict[int, int] = {}
    parent_of: list[int] = []
    stack = [-1]
    for index, token in enumerate(found):
        if token.kind == "symbol" and token.text in _CLOSERS:
            closer_of[stack.pop()] = index
        parent_of.append(stack[-1])
        if token.kind == "symbol" and token.text in _OPENERS:
            stack.append(index)
    return closer_of, parent_of


def _body(found: Sequence[Token], query: int) -> int:
    """Return the brace that opens a query's body: the first one behind its header."""
    while found[query].text != "{":
        query += 1
    return query


def _line_spans(query: ast.Query) -> Iterator[Span]:
    yield query.span
    match query.body:
        case ast.ReadBody() as body:
            yield from _clause_spans(body.match)
        case ast.MutationBody() as body:
            yield from (statement.span for statement in body.statements)


def _clause_spans(clauses: Sequence[ast.Clause]) -> Iterator[Span]:
    for clause in clauses:
        yield clause.span
        if isinstance(clause, ast.Negation):
            yield from _clause_spans(clause.clauses)


def _item_spans(query: ast.Query) -> Iterator[Span]:
    yield from (param.span for param in query.params)
    match query.body:
        case ast.ReadBody() as body:
            yield from (item.span for item in body.projections)
            yield from (item.span for item in body.order)
            yield from _match_item_spans(body.match)
        case ast.MutationBody() as body:
            for statement in body.statements:
                if not isinstance(statement, ast.Delete):
                    yield from (item.span for item in statement.assignments)


def _match_item_spans(clauses: Sequence[ast.Clause]) -> Iterator[Span]:
    for clause in clauses:
        match clause:
            case ast.Binding():
                yield from (item.span for item in clause.matches)
            case ast.Negation():
                yield from _match_item_spans(clause.clauses)
            case _:
                pass


def _read_words(
    found: Sequence[Token],
    parent_of: Sequence[int],
    queries: Sequence[ast.Query],
    starts: dict[int, int],
) -> set[int]:
    """Return the words that open the parts of read queries: no other words stand beside them."""
    lines: set[int] = set()
    for query in queries:
        if query.is_mutation:
            continue
        for index in range(starts[query.span.start], len(found)):
            token = found[index]
            if token.start >= query.span.end:
                break
            parent = parent_of[index]
            inside_body = parent >= 0 and parent_of[parent] == -1 and found[parent].text == "{"
            if inside_body and token.kind == "word" and token.text in _READ_WORDS:
                lines.add(index)
    return lines


def _is_comment(token: Token) -> bool:
    return token.kind.endswith("comment")


def _previous(found: Sequence[Token], index: int) -> int:
    """Return the last token in front that is neither a comment nor a comma."""
    index -= 1
    while _is_comment(found[index]) or found[index].text == ",":
        index -= 1
    return index


def _next(found: Sequence[Token], index: int) -> Token | None:
    """Return the next token that is not a comment."""
    for following in range(index + 1, len(found)):
        if not _is_comment(found[following]):
            return found[following]
    return None


def _is_bounds(found: Sequence[Token], opener: int) -> bool:
    """Whether a brace opens hop bounds: only those begin with a number."""
    following = _next(found, opener)
    return found[opener].text == "{" and following is not None and following.kind == "number"


class _Printer:
    """Writes the tokens in order; `broken` are the brackets whose items have their own lines."""

    def __init__(self, text: str, found: Sequence[Token], plan: _Plan) -> None:
        self.text, self.tokens, self.plan = text, found, plan
        self.out: list[str] = []
        self.column = 0
        self.depth = 0
        self.broken: set[int] = set()
        self.split_header = False
        self.must_break = False
        self.query_ended = False

    def run(self) -> str:
        """Return the formatted text."""
        for index, token in enumerate(self.tokens):
            if index in self.plan.dropped:
                continue
            if _is_comment(token):
                self._comment(index, token)
            else:
                self._token(index, token)
        return "".join(self.out) + "\n" if self.out else ""

    # Writing

    def _write(self, text: str) -> None:
        self.out.append(text)
        cut = text.rfind("\n")
        self.column = self.column + len(text) if cut < 0 else len(text) - cut - 1

    def _new_line(self, index: int, depth: int) -> None:
        if self.out:
            self._write("\n\n" if self._wants_blank(index) else "\n")
        self._write(_INDENT * depth)
        self.must_break = False
        if depth == 0:
            self.query_ended = False

    def _wants_blank(self, index: int) -> bool:
        """One blank line between queries; elsewhere at most one, where the author left some."""
        if self.depth == 0 and self.query_ended:
            return True
        before, token = self.tokens[index - 1], self.tokens[index]
        if before.text in _OPENERS or token.text in _CLOSERS:
            return False
        return self._gap(index).count("\n") > 1

    def _gap(self, index: int) -> str:
        """Return the space in front of a token."""
        before = self.tokens[index - 1].end if index else 0
        return self.text[before : self.tokens[index].start]

    # Tokens

    def _token(self, index: int, token: Token) -> None:
        plan = self.plan
        opener = plan.opener_of.get(index)
        if opener is not None and (opener in plan.blocks or opener in self.broken):
            self.depth -= 1
            self._new_line(index, self.depth)
        elif index in plan.lines or (index in plan.items and plan.parent_of[index] in self.broken):
            self._new_line(index, self.depth)
        elif self.must_break or (self.split_header and self._is_annotation(index)):
            self._new_line(index, self.depth + 1)
        elif index:
            self._write(self._space(index))
        if index in plan.headers:
            self.split_header = not self._fits(index, plan.headers[index])
        if index in plan.closer_of:
            self._open(index)
        self._write(token.text)
        if index in plan.comma_after:
            self._write(",")
        if self.depth == 0 and token.text == "}":
            self.query_ended = True

    def _open(self, index: int) -> None:
        if index in self.plan.lists and not self._fits(index, self.plan.closer_of[index]):
            self.broken.add(index)
        if index in self.plan.blocks or index in self.broken:
            self.depth += 1

    def _is_annotation(self, index: int) -> bool:
        return self.tokens[index].text == "@" and self.plan.parent_of[index] == -1

    def _fits(self, first: int, last: int) -> bool:
        """Whether a run of tokens has room on the line; comments need lines of their own."""
        width = self.column
        for index in range(first, last + 1):
            token = self.tokens[index]
            if _is_comment(token):
                return False
            if index in self.plan.dropped:
                continue
            width += len(token.text) + (index in self.plan.comma_after)
            width += len(self._space(index)) if index > first else 0
        return width <= WIDTH

    # Comments

    def _comment(self, index: int, token: Token) -> None:
        text = token.text.rstrip() if token.kind == "line_comment" else token.text
        if index == 0 or self.must_break or "\n" in self._gap(index):
            self._new_line(index, self._comment_depth(index))
            self.must_break = index + 1 < len(self.tokens) and "\n" in self._gap(index + 1)
        else:
            self._write("  " if token.kind == "line_comment" else " ")
        self._write(text)
        self.must_break |= token.kind == "line_comment"

    def _comment_depth(self, index: int) -> int:
        """A comment stands where the next line will: deeper when it splits a line."""
        following = index + 1
        while following < len(self.tokens) and (
            _is_comment(self.tokens[following]) or following in self.plan.dropped
        ):
            following += 1
        if following == len(self.tokens):
            return self.depth
        opener = self.plan.opener_of.get(following)
        if opener is not None:
            starts_line = opener in self.plan.blocks or opener in self.broken
        else:
            starts_line = following in self.plan.lines or following in self.plan.items
        return self.depth if starts_line else self.depth + 1

    # Space

    def _space(self, index: int) -> str:
        """Return what stands between a token and the one written before it."""
        before_at = index - 1
        while before_at in self.plan.dropped:
            before_at -= 1
        before, token = self.tokens[before_at], self.tokens[index]
        if _is_comment(before):
            return " "
        if self._tight_after(before_at, before) or self._tight_before(index, token, before):
            return ""
        return " "

    def _tight_after(self, index: int, before: Token) -> bool:
        if before.kind != "symbol":
            return False
        match before.text:
            case "(" | "[" | "@" | "." | "-":
                return True
            case "{":
                return index in self.plan.bounds
            case ",":
                return self.plan.parent_of[index] in self.plan.bounds
            case ":":
                return self._names_edge(index)
            case "<":
                return self._is_undirected(index)
            case _:
                return False

    def _tight_before(self, index: int, token: Token, before: Token) -> bool:
        if token.kind != "symbol":
            return False
        match token.text:
            case "," | ")" | "]" | "?" | "." | ":":
                return True
            case "(":
                return before.kind == "word"
            case "{":
                return index in self.plan.bounds
            case "}":
                opener = self.plan.opener_of[index]
                return opener in self.plan.bounds or opener == index - 1
            case ">":
                return before.kind == "word" and self._closes_undirected(index)
            case _:
                return False

    def _names_edge(self, index: int) -> bool:
        """Whether a colon ties an edge variable to its edge: `$w:knows`."""
        following = _next(self.tokens, index)
        return (
            self.tokens[_previous(self.tokens, index)].kind == "variable"
            and following is not None
            and (following.text == "<" or following.text[0].islower() or following.text[0] == "_")
        )

    def _is_undirected(self, index: int) -> bool:
        rest = [token for token in self.tokens[index + 1 : index + 8] if not _is_comment(token)]
        return len(rest) > 1 and rest[0].kind == "word" and rest[1].text == ">"

    def _closes_undirected(self, index: int) -> bool:
        opener = _previous(self.tokens, _previous(self.tokens, index))
        return self.tokens[opener].text == "<"
