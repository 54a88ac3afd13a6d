"""Queries that are called by name: what there is of them now, and calling one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from omnigraph.api.keywords import StoredKeywords
from omnigraph.api.protocols import AnyGraph
from omnigraph.api.query import QueryResult
from omnigraph.api.stored import StoredQuery, StoredQueryError, StoredQueryNotFoundError
from omnigraph.api.words import DEFAULT_BRANCH, Moment
from omnigraph.api.writes import MutationResult
from omnigraph.base.arguments import text_argument
from omnigraph.compiler.catalog.model import Catalog
from omnigraph.compiler.query.stored import StoredText, read_stored
from omnigraph.config.stored import Marks, StoredFiles
from omnigraph.errors import BadRequestError, OmniGraphError

log = logging.getLogger("omnigraph.stored")


class StoredTexts:
    """The stored queries of one open graph, read again whenever their files changed. Thread-safe.

    Once there are some, they stay in force until others can be read: a typing error in one file
    must not take all queries away from who is calling them.
    """

    def __init__(self, files: StoredFiles) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._marks: Marks | None = None
        self._found: Mapping[str, StoredText] | None = None
        self._told = ""

    def all(self) -> Mapping[str, StoredText]:
        """Return every stored query by its name, as its file is now.

        Raises:
            OmniGraphError: they cannot be read, and never could.
        """
        if not self._files.places:
            return {}
        with self._lock:
            if self._found is None:
                self._found, self._marks = self._read()
            else:
                self._refresh()
            return self._found

    def reload(self, files: StoredFiles, catalog: Catalog) -> None:
        """Take the queries of other places, or of the same ones, if all of them hold.

        Raises:
            OmniGraphError: they do not; those in force stay.
        """
        fresh = StoredTexts(files)
        fresh.check(catalog)
        with self._lock:
            self._files, self._found, self._marks = files, fresh._found, fresh._marks

    def check(self, catalog: Catalog) -> None:
        """Return only if every query can be read and means something under a schema.

        Raises:
            OmniGraphError: one does not; a `StoredQueryError` names it.
        """
        for one in self.all().values():
            one.check(catalog)

    def broken(self, catalog: Catalog) -> tuple[StoredQueryError, ...]:
        """Return what is wrong with the queries under a schema, by their names."""
        found = []
        for one in self.all().values():
            try:
                one.check(catalog)
            except StoredQueryError as error:
                found.append(error)
        return tuple(found)

    def _read(self) -> tuple[Mapping[str, StoredText], Marks]:
        marks = self._files.marks()  # first: what changes while it is read is read again
        return read_stored(self._files.sources(), self._files.exposed), marks

    def _refresh(self) -> None:
        """Read again what changed; what cannot be read is told once and changes nothing."""
        try:
            marks = self._files.marks()
            if marks == self._marks:
                return
            self._marks = marks
            self._found, self._marks = self._read()
            self._told = ""
            log.info("stored queries: %d, read again", len(self._found))
        except OmniGraphError as error:
            if error.message != self._told:  # once, and not for every call
                log.error("the old stored queries stay in force: %s", error.message)
            self._told = error.message


class GraphQueries:
    """The stored queries of a graph, to be looked at and to be called."""

    def __init__(self, graph: AnyGraph, texts: StoredTexts) -> None:
        self._graph, self._texts = graph, texts

    def list(self) -> list[StoredQuery]:
        """Return every stored query, by name."""
        return [one.query for one in self._texts.all().values()]

    def get(self, name: str) -> StoredQuery:
        """Return a stored query.

        Raises:
            StoredQueryNotFoundError: there is none of that name.
        """
        return self.text(name).query

    def run(
        self,
        name: str,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = DEFAULT_BRANCH,
        at: Moment | None = None,
        **how: Unpack[StoredKeywords],
    ) -> QueryResult | MutationResult:
        """Run a stored query: a read, or a write that is one commit.

        Args:
            name: which one.
            params: parameter values by name, without `$`.
            branch: what is read or written.
            at: read the past: a commit id, a tag or a version.
            how: limits and cancel; a write takes what `mutate` takes, too.

        Raises:
            StoredQueryNotFoundError: there is none of that name.
            StoredQueryError: under the schema of the branch it means nothing.
            BadRequestError: a parameter is wrong, or a write is asked for in the past.
        """
        stored = self.text(name)
        if not stored.query.mutation:
            _refuse_of_writes(name, how)
            reads = self._graph.branch(branch) if at is None else self._graph.at(at, branch=branch)
            limits, cancel = how.get("limits"), how.get("cancel")
            with stored.naming():
                return reads.query(stored.source, name, params, limits=limits, cancel=cancel)
        if at is not None:
            raise BadRequestError(f"stored query '{name}' writes, and the past cannot be written")
        with stored.naming():
            return self._graph.branch(branch).mutate(stored.source, name, params, **how)

    def text(self, name: str) -> StoredText:
        """Return a stored query as it is written.

        Raises:
            StoredQueryNotFoundError: there is none of that name.
        """
        found = self._texts.all().get(text_argument(name, "the name of a stored query"))
        if found is None:
            raise StoredQueryNotFoundError(name)
        return found


_OF_WRITES: Sequence[str] = ("actor", "message", "if_head", "idempotency_key", "preview")


def _refuse_of_writes(name: str, how: Mapping[str, Any]) -> None:
    """Refuse what only a write can keep, where it would be forgotten in silence."""
    odd = [one for one in _OF_WRITES if how.get(one) is not None and how.get(one) is not False]
    if odd:
        raise BadRequestError(f"stored query '{name}' is a read, which takes no {odd[0]}")
