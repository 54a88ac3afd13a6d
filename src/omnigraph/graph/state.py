"""What all handles of one open graph share: its store, what reads and writes it, its limits."""

from __future__ import annotations

import threading
from collections.abc import Callable

from omnigraph.base.budget import PROCESS, Budget, Limits
from omnigraph.base.calls import Watch
from omnigraph.base.ids import BranchName
from omnigraph.compiler.catalog.model import Catalog
from omnigraph.config.environment import process_environment
from omnigraph.config.limits import limits_in_force
from omnigraph.engine.contract import Catalogs
from omnigraph.engine.image.cache import ImageCache
from omnigraph.engine.image.shelf import Shelf
from omnigraph.engine.maintain import reconcile_indexes
from omnigraph.engine.read.context import Images
from omnigraph.engine.read.images import SnapshotImages, build_kept
from omnigraph.engine.read.reader import GraphReader
from omnigraph.engine.write.writer import GraphWriter
from omnigraph.errors import BadRequestError, StorageError
from omnigraph.graph.configured import chosen_embedder, input_options, settled, shelf_options
from omnigraph.graph.options import GraphOptions
from omnigraph.graph.stored import StoredTexts
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.options import S3Options
from omnigraph.storage.store import GraphStore


class ClosedError(BadRequestError):
    """The graph was closed."""


class GraphState:
    """One open graph; thread-safe."""

    def __init__(self, store: GraphStore, options: GraphOptions) -> None:
        self._store: GraphStore | None = store
        store.index_with(self._index)
        environment = process_environment()
        inherited = limits_in_force(environment)
        PROCESS.open(inherited.process_memory)
        self.options = settled(options, environment, inherited)
        self.embedder = chosen_embedder(options, environment)
        embedder, watch = self.embedder, Watch(options.clock, self.options.slow_query_ms)
        self.stored = StoredTexts(options.queries)
        self.catalogs = Catalogs()
        places = shelf_options(options, environment)
        self.shelf = None if places is None else Shelf(places, store.kernel)
        cache = ImageCache(options.image_bytes, self.shelf)
        self.reader = GraphReader(self.catalogs, cache, embedder, watch)
        self.writer = GraphWriter(self.catalogs, self.reader.cache, embedder, watch)

    @property
    def store(self) -> GraphStore:
        """The storage below."""
        if self._store is None:
            raise ClosedError("this graph is closed", hint="connect again")
        return self._store

    def described(self) -> str:
        """Return what the graph is called where handles are shown."""
        return "closed" if self._store is None else repr(self.uri)

    @property
    def uri(self) -> str:
        """Where the graph lives."""
        return str(self.store.kernel.root)

    def snapshot(self, branch: str, at: str | int | None = None) -> Snapshot:
        """Return a branch as it is, or as it was at a commit or at one of its versions.

        Raises:
            NotFoundError: no such branch; no branch knows that commit; it never had that version.
            BadRequestError: the moment is neither.
        """
        match at:
            case None:
                return self.store.snapshot(branch)
            case int() if not isinstance(at, bool):
                return self.store.snapshot_at(version=at, branch=branch)
            case str():
                return self.store.snapshot_at(commit_id=at, branch=branch)
            case _:
                what = type(at).__name__
                raise BadRequestError(f"a moment is a commit id or a version, not a {what}")

    def catalog(self, snapshot: Snapshot) -> Catalog:
        """Return what the schema of a snapshot means."""
        return self.catalogs.of(snapshot)

    def _index(self, branch: BranchName, stopped: Callable[[], bool]) -> None:
        """Bring the indexes of a branch up to date, behind its writers."""
        store = self._store
        if store is not None:
            catalog = self.catalogs.of(store.snapshot(branch))
            reconcile_indexes(store, catalog, branch, stopped=stopped)

    def query_budget(self, limits: Limits | None, cancel: threading.Event | None = None) -> Budget:
        """Start the budget of a query: its clock runs from here on."""
        chosen = _over(limits, self.options.limits)
        return Budget(chosen, self.options.clock, cancel_argument(cancel))

    def job_budget(self, limits: Limits | None, cancel: threading.Event | None = None) -> Budget:
        """Start the budget of anything that writes, or goes over a whole graph."""
        chosen = _over(limits, self.options.job_limits)
        return Budget(chosen, self.options.clock, cancel_argument(cancel), what="job")

    def input_options(self) -> S3Options:
        """Return how to reach the object stores of inputs."""
        return input_options(self.options, process_environment())

    def build_cache(self, branch: str) -> None:
        """Put on disk what queries of a branch would have to build, where that is worth it."""
        shelf = self.shelf
        if shelf is None:
            return

        def build(images: Images) -> None:
            assert isinstance(images, SnapshotImages), "this reader sees every row"
            build_kept(images, shelf)
            self.reader.cache.store()

        self.reader.over_images(self.snapshot(branch), build)

    def let_go(self, branch: str | None = None) -> None:
        """Take from this machine's disk what the graph let go of, or all that a branch wrote.

        Raises:
            StorageError: files cannot be removed.
        """
        if self.shelf is None:
            return
        try:
            self.shelf.drop_gone()
            if branch is not None:
                self.shelf.drop_branch(branch)
        except OSError as error:
            raise StorageError(
                f"the graph has let go of old rows, but its derived files have not: {error}",
                hint="omnigraph cache purge takes them away",
            ) from error

    def close(self) -> None:
        """Let go of everything; closing twice is fine."""
        store, self._store = self._store, None
        if store is not None:
            self.reader.close()
            store.close()


def cancel_argument(cancel: threading.Event | None) -> threading.Event | None:
    """Return what another thread may stop a call with.

    Raises:
        BadRequestError: it cannot be set.
    """
    if cancel is not None and not callable(getattr(cancel, "is_set", None)):
        what = type(cancel).__name__
        raise BadRequestError(
            f"cancel is a threading.Event, not {what}", hint="another thread sets it to stop this"
        )
    return cancel


def _over(limits: object, defaults: Limits) -> Limits:
    if limits is None:
        return defaults
    if not isinstance(limits, Limits):
        what = type(limits).__name__
        raise BadRequestError(f"limits are Limits, not {what}", hint="Limits(seconds=5)")
    return limits.over(defaults)
