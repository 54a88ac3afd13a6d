"""Running mutations: from a query text and a branch to one visible commit, or nothing.

Where a branch moved so that the request may mean something else by now, it is run again on what
the branch is then.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import assert_never, cast

from omnigraph.api.writes import MutationResult
from omnigraph.base.budget import Budget, unstoppable
from omnigraph.base.calls import Watch
from omnigraph.base.ids import ULIDS
from omnigraph.base.metrics import METRICS
from omnigraph.base.table_keys import is_node_key
from omnigraph.compiler.compile import CompiledQuery, compile_query
from omnigraph.compiler.ir.ops import MutationIr
from omnigraph.engine.contract import Catalogs
from omnigraph.engine.image.cache import ImageCache
from omnigraph.engine.search.embedder import Embedder
from omnigraph.engine.write.change_set import ChangeSet
from omnigraph.engine.write.commit import OvertakenError, check_changes, commit_changes
from omnigraph.engine.write.embed import fill_vectors, fills
from omnigraph.engine.write.mutate import run_mutation
from omnigraph.engine.write.request import MutationRequest, request_hash
from omnigraph.errors import BadRequestError, OmniGraphError
from omnigraph.storage.commit.session import UNCONDITIONAL, SchemaChangedError
from omnigraph.storage.files.records import Commit
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.store import GraphStore

log = logging.getLogger(__name__)

_RETRIES = 3

RERUNS = METRICS.counter(
    "omnigraph_mutation_reruns_total", "Mutations run again because their branch moved."
)


class GraphWriter:
    """Runs mutations, and hands the images what they changed. Thread-safe."""

    def __init__(
        self,
        catalogs: Catalogs,
        images: ImageCache,
        embedder: Embedder | None,
        watch: Watch,
    ) -> None:
        self._catalogs = catalogs
        self._images = images
        self._embedder = embedder
        self._watch, self._clock = watch, watch.clock

    def mutate(self, store: GraphStore, request: MutationRequest, budget: Budget) -> MutationResult:
        """Run all statements as one commit, or none; `budget` is the current one.

        Raises:
            BudgetExceededError: a limit was reached; nothing was written.
            CompileError: the text is wrong.
            BadRequestError: a parameter is wrong, or the query is a read.
            ConstraintError: the data breaks rules of the schema; nothing was written.
            ConflictError: someone else changed what this write relied on, again and again.
        """
        with self._watch.call("mutation", request.name, request.branch) as seen:
            done = self._until_settled(store, request, budget)
            seen.name = done.query_name
        return done

    def _until_settled(
        self, store: GraphStore, request: MutationRequest, budget: Budget
    ) -> MutationResult:
        for _ in range(_RETRIES):
            try:
                return self._attempt(store, request, budget)
            except (SchemaChangedError, OvertakenError):
                RERUNS.add()  # it may mean something else by now, or be refused
        return self._attempt(store, request, budget)

    def _attempt(
        self, store: GraphStore, request: MutationRequest, budget: Budget
    ) -> MutationResult:
        session = store.begin(request.branch, request.actor, message=request.message)
        catalog = self._catalogs.of(session.base)
        compiled = compile_query(catalog, request.source, request.name)
        ir = _mutation_ir(compiled)
        told = partial(
            MutationResult,
            branch=request.branch,
            query_name=compiled.name,
            actor_id=request.actor,
        )
        now_ms = self._clock.now_us() // 1_000
        bound = compiled.bind(request.params, now_ms=now_ms)
        asked = request.preconditions
        if asked.idempotency_key is not None:
            asked = replace(asked, request_hash=request_hash(request, compiled.name, bound.params))
        if (done := session.require(asked)) is not None:
            return told(*_first_result(done), replayed=True)
        mutated = run_mutation(ir, session.base, catalog, bound.params, self._new_id, now_ms)
        nodes, edges = mutated.affected_nodes, mutated.affected_edges
        if mutated.changes.is_empty and asked == UNCONDITIONAL:
            return told(nodes, edges, None)
        changes = fill_vectors(mutated.changes, catalog, self._embedder)
        filled = fills(mutated.changes, catalog, self._embedder)
        budget.check("mutate")
        if request.preview:
            check_changes(session, changes, catalog, filled)
            return told(nodes, edges, None)
        with unstoppable():
            made = commit_changes(session, changes, catalog, asked, [nodes, edges], filled=filled)
            if made.outcome == "committed":
                self._take_over(session.base, made.snapshot, changes)
        match made.outcome:
            case "replayed":
                return told(*_first_result(made.commit), replayed=True)
            case "unchanged":
                return told(nodes, edges, None)
            case "committed":
                return told(nodes, edges, made.commit.id)
            case _:
                assert_never(made.outcome)

    def _take_over(self, before: Snapshot, after: Snapshot, changes: ChangeSet) -> None:
        """Hand what was just committed to the images, so that reading it back costs nothing.

        The commit counts by now, so nothing that fails here may be told as its failure.
        """
        try:
            for key, change in changes.tables.items():
                if key in before.tables and key in after.tables:
                    self._images.advance(
                        before.table(key),
                        after.table(key),
                        change.upserts,
                        change.deletes,
                        in_place=is_node_key(key),
                        are_new=change.inserts_new,
                    )
        except (OmniGraphError, OSError, MemoryError) as error:
            # Ids may have to be read of a version that a cleanup took, or a store may be away.
            log.info("what was written is read by the next query: %s", error)

    def _new_id(self) -> str:
        return ULIDS.next(self._clock.now_us())


def _first_result(commit: Commit) -> tuple[int, int, str]:
    """Return what a request did when it was made first."""
    nodes, edges = cast("list[int]", commit.result)
    return nodes, edges, commit.id


def _mutation_ir(compiled: CompiledQuery) -> MutationIr:
    if not isinstance(compiled.ir, MutationIr):
        raise BadRequestError(
            f"query '{compiled.name}' is a read", hint="run it as a read, not as a mutation"
        )
    return compiled.ir
