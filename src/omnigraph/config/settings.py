"""What `omnigraph.yaml` may say, as plain values, and what paths in it are relative to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from omnigraph.api.words import Engine
from omnigraph.base.uri import is_on_s3, is_there, stands_alone
from omnigraph.config.cache import CacheSettings
from omnigraph.config.document import Problem
from omnigraph.config.environment import Environment, s3_options
from omnigraph.config.limits import LimitSettings
from omnigraph.config.logs import LogSettings
from omnigraph.config.stored import StoredFiles
from omnigraph.engine.search.options import Provider
from omnigraph.errors import NotFoundError
from omnigraph.storage.options import Durability, FileChecks, Retention, S3Options, StorageOptions

FILE_NAME = "omnigraph.yaml"

OutputFormat = Literal["table", "kv", "csv", "jsonl", "json"]
OUTPUT_FORMATS: tuple[OutputFormat, ...] = ("table", "kv", "csv", "jsonl", "json")
CellLayout = Literal["truncate", "wrap"]
CELL_LAYOUTS: tuple[CellLayout, ...] = ("truncate", "wrap")
AliasCommand = Literal["read", "change"]
ALIAS_COMMANDS: tuple[AliasCommand, ...] = ("read", "change")


@dataclass(frozen=True, slots=True)
class GraphEntry:
    """A graph with a name of its own; `bearer_token_env` names the variable with its token."""

    name: str
    uri: str
    bearer_token_env: str | None = None


@dataclass(frozen=True, slots=True)
class Alias:
    """A query with a short name, run as `read` or `change`."""

    name: str
    command: AliasCommand
    query: str
    query_name: str | None = None
    args: tuple[str, ...] = ()
    graph: str | None = None
    branch: str | None = None
    format: OutputFormat | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    """Values of parameters that neither a flag nor an argument gives."""


@dataclass(frozen=True, slots=True)
class CliSettings:
    """Defaults of the command line."""

    graph: str | None = None
    branch: str | None = None
    output_format: OutputFormat = "table"
    table_max_column_width: int = 80
    table_cell_layout: CellLayout = "truncate"


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Defaults of the server."""

    graph: str | None = None
    bind: str = "127.0.0.1:8080"
    query_seconds: float | None = 30.0
    """What one read may take; a request may ask for less. None is no limit."""
    query_rows: int | None = 1_000_000
    """Rows of any step of a read."""
    query_memory: int | None = 256 << 20
    load_size: int | None = 4 << 30
    """How large the body of a streamed load may be."""


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """Where the access policy and its tests are."""

    file: Path | None = None
    tests: Path | None = None


@dataclass(frozen=True, slots=True)
class SparkSection:
    """How to start Spark; what is not said is left to the pipeline."""

    master: str | None = None
    memory: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """Defaults of loads."""

    engine: Engine = "auto"
    spark_above_mib: int = 64
    max_errors: int = 100
    staging: Path | None = None
    spark: SparkSection = SparkSection()


@dataclass(frozen=True, slots=True)
class MaintenanceSettings:
    """What of the past goes by itself, behind the writers; nothing does unless one is said."""

    keep: int | None = None
    """So many of the newest versions of every table stay."""
    older_than: int | None = None
    """Only what was superseded so many seconds ago may go."""


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    """Who embeds text; nothing is the offline embedder."""

    provider: Provider | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """One settings file with the environment behind it; without a file, the defaults."""

    environment: Environment
    path: Path | None = None
    project: str | None = None
    graphs: Mapping[str, GraphEntry] = field(default_factory=dict)
    server: ServerSettings = ServerSettings()
    cli: CliSettings = CliSettings()
    query_roots: tuple[str, ...] = ()
    queries: StoredFiles = field(default_factory=StoredFiles)
    aliases: Mapping[str, Alias] = field(default_factory=dict)
    policy: PolicySettings = PolicySettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    durability: Durability = "full"
    check_files: FileChecks = "never"
    maintenance: MaintenanceSettings = MaintenanceSettings()
    pipeline: PipelineSettings = PipelineSettings()
    limits: LimitSettings = field(default_factory=LimitSettings)
    cache: CacheSettings = field(default_factory=CacheSettings)
    logging: LogSettings = field(default_factory=LogSettings)
    warnings: tuple[Problem, ...] = ()

    @property
    def base(self) -> Path:
        """The folder that relative paths in the file start from."""
        return Path() if self.path is None else self.path.parent

    def graph(self, name: str) -> GraphEntry:
        """Return a graph by its name.

        Raises:
            NotFoundError: the file names no such graph.
        """
        found = self.graphs.get(name)
        if found is None:
            known = ", ".join(self.graphs) or "none"
            raise NotFoundError(
                f"graph '{name}' not found in {FILE_NAME}", hint=f"known graphs: {known}"
            )
        return found

    def alias(self, name: str) -> Alias:
        """Return an alias by its name.

        Raises:
            NotFoundError: the file has no such alias.
        """
        found = self.aliases.get(name)
        if found is None:
            known = ", ".join(self.aliases) or "none"
            raise NotFoundError(f"alias '{name}' not found", hint=f"known aliases: {known}")
        return found

    def find_query_file(self, given: str) -> Path:
        """Return a query file: beside the settings file first, then below the query roots.

        Raises:
            NotFoundError: it is in none of these places.
        """
        places = [self.base / given, *(self.base / root / given for root in self.query_roots)]
        for path in places:
            if is_there(path):
                return path
        looked = ", ".join(dict.fromkeys(str(path.parent) for path in places))
        raise NotFoundError(f"query file '{given}' not found", hint=f"looked in {looked}")

    def storage_options(self, *uris: str) -> StorageOptions:
        """Return how to open the graphs at `uris`: object stores are asked for if any is in one."""
        s3 = s3_options(self.environment) if any(map(is_on_s3, uris)) else S3Options()
        kept = Retention(keep_versions=self.maintenance.keep, keep_s=self.maintenance.older_than)
        return StorageOptions(
            s3=s3, durability=self.durability, check_files=self.check_files, retention=kept
        )


def rebase(base: Path, uri: str) -> str:
    """Return a graph address of the file: relative paths start from the file's folder."""
    if stands_alone(uri):
        return uri
    return f"{base}/{uri}"
