"""Which settings file, and from its text to settings."""

from __future__ import annotations

import os.path
from dataclasses import replace
from pathlib import Path

from omnigraph.api.words import ENGINES
from omnigraph.base.budget import DEFAULT
from omnigraph.base.durations import parse_duration
from omnigraph.compiler.source import Source
from omnigraph.config.cache import DEFAULT_BYTES, OFF, CacheSettings
from omnigraph.config.document import Document, Section
from omnigraph.config.environment import Environment
from omnigraph.config.limits import NONE, LimitSettings, parse_count, parse_seconds, parse_size
from omnigraph.config.logs import LOG_LEVELS, LogSettings, parse_milliseconds
from omnigraph.config.settings import (
    ALIAS_COMMANDS,
    CELL_LAYOUTS,
    FILE_NAME,
    OUTPUT_FORMATS,
    Alias,
    CliSettings,
    EmbeddingSettings,
    GraphEntry,
    MaintenanceSettings,
    PipelineSettings,
    PolicySettings,
    ServerSettings,
    Settings,
    SparkSection,
    rebase,
)
from omnigraph.config.stored import StoredFiles
from omnigraph.engine.search.options import PROVIDERS
from omnigraph.errors import BadRequestError, NotFoundError, StorageError
from omnigraph.storage.options import Durability, FileChecks

_DURABILITIES: tuple[Durability, ...] = ("full", "os")
_FILE_CHECKS: tuple[FileChecks, ...] = ("never", "first_read")

# Names that older files and other tools use, and what stands for them here.
_RENAMED = {
    "targets": "graphs",
    "target": "cli.graph",
    "embeddings": "embedding",
}
_RENAMED_CLI = {"target": "graph", "format": "output_format", "default_graph": "graph"}
_RENAMED_SERVER = {"target": "graph", "address": "bind", "listen": "bind"}
_RENAMED_ALIAS = {"target": "graph", "query_name": "name", "file": "query"}


def load_settings(explicit: str | None, environment: Environment) -> Settings:
    """Return the settings of `explicit`, else of `omnigraph.yaml` in the current folder.

    Raises:
        NotFoundError: the explicit file does not exist.
        ConfigError: the file is not YAML, or a value cannot be.
    """
    shown = FILE_NAME if explicit is None else explicit
    # Lexical: a link to a settings file is where its relative paths start from.
    path = Path(os.path.abspath(shown))  # noqa: PTH100
    text = _read(path, shown)
    if text is None:
        if explicit is not None:
            raise NotFoundError(f"config file '{explicit}' not found")
        return _with_policy_of_environment(Settings(environment))
    document = Document(Source(text, shown))
    return _with_policy_of_environment(_settings(document, path, environment))


def _with_policy_of_environment(settings: Settings) -> Settings:
    """Return the settings under the policy that a variable names, if it does."""
    said = settings.environment.find("OMNIGRAPH_POLICY_FILE")
    if said is None:
        return settings
    return replace(settings, policy=replace(settings.policy, file=Path(said)))


def _read(path: Path, shown: str) -> str | None:
    try:
        return path.read_text("utf-8-sig")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise StorageError(f"config file '{shown}' is not UTF-8 text: {error.reason}") from None
    except OSError as error:
        raise StorageError(f"cannot read config file '{shown}': {error.strerror}") from error


def _settings(document: Document, path: Path, environment: Environment) -> Settings:
    root = document.root()
    base = path.parent
    project, auth, query = root.section("project"), root.section("auth"), root.section("query")
    storage = root.section("storage")
    env_file = auth.text("env_file")
    settings = Settings(
        environment=environment if env_file is None else environment.with_file(base / env_file),
        path=path,
        project=project.text("name"),
        graphs={name: _graph(name, one, base) for name, one in root.sections("graphs").items()},
        server=_server(root.section("server")),
        cli=_cli(root.section("cli")),
        query_roots=query.texts("roots"),
        queries=_queries(root.section("queries"), base),
        aliases={name: _alias(name, one) for name, one in root.sections("aliases").items()},
        policy=_policy(root.section("policy"), base),
        embedding=_embedding(root.section("embedding")),
        durability=storage.choice("durability", _DURABILITIES, "full"),
        check_files=storage.choice("check_files", _FILE_CHECKS, "never"),
        maintenance=_maintenance(root.section("maintenance")),
        pipeline=_pipeline(root.section("pipeline"), base),
        limits=_limits(root.section("limits")),
        cache=_cache(root.section("cache"), base),
        logging=_logging(root.section("logging")),
    )
    for section in (project, auth, query, storage):
        section.finish({})
    root.finish(_RENAMED)
    return replace(settings, warnings=tuple(document.warnings))


def _graph(name: str, section: Section, base: Path) -> GraphEntry:
    entry = GraphEntry(
        name, rebase(base, section.required("uri")), section.text("bearer_token_env")
    )
    section.finish({"url": "uri", "path": "uri", "token_env": "bearer_token_env"})
    return entry


def _server(section: Section) -> ServerSettings:
    defaults = ServerSettings()
    found = ServerSettings(
        graph=section.text("graph"),
        bind=section.text("bind") or defaults.bind,
        query_seconds=section.parsed("query_seconds", parse_seconds, defaults.query_seconds),
        query_rows=section.parsed("query_rows", parse_count, defaults.query_rows),
        query_memory=section.parsed("query_memory", parse_size, defaults.query_memory),
        load_size=section.parsed("load_size", parse_size, defaults.load_size),
    )
    section.finish(_RENAMED_SERVER)
    return found


def _cli(section: Section) -> CliSettings:
    defaults = CliSettings()
    found = CliSettings(
        graph=section.text("graph"),
        branch=section.text("branch"),
        output_format=section.choice("output_format", OUTPUT_FORMATS, defaults.output_format),
        table_max_column_width=section.integer(
            "table_max_column_width", defaults.table_max_column_width, minimum=1
        ),
        table_cell_layout=section.choice(
            "table_cell_layout", CELL_LAYOUTS, defaults.table_cell_layout
        ),
    )
    section.finish(_RENAMED_CLI)
    return found


def _queries(section: Section, base: Path) -> StoredFiles:
    found = StoredFiles(
        tuple(base / one for one in section.texts("files")), section.texts("expose")
    )
    section.finish({"roots": "files", "folder": "files", "exposed": "expose"})
    return found


def _embedding(section: Section) -> EmbeddingSettings:
    found = EmbeddingSettings(section.maybe_choice("provider", PROVIDERS), section.text("model"))
    section.finish({"name": "model", "client": "provider"})
    return found


def _alias(name: str, section: Section) -> Alias:
    found = Alias(
        name=name,
        command=section.required_choice("command", ALIAS_COMMANDS),
        query=section.required("query"),
        query_name=section.text("name"),
        args=section.texts("args"),
        graph=section.text("graph"),
        branch=section.text("branch"),
        format=section.maybe_choice("format", OUTPUT_FORMATS),
        params=section.values("params"),
    )
    section.finish(_RENAMED_ALIAS)
    return found


def _pipeline(section: Section, base: Path) -> PipelineSettings:
    defaults = PipelineSettings()
    staging, spark = section.text("staging"), section.section("spark")
    found = PipelineSettings(
        engine=section.choice("engine", ENGINES, defaults.engine),
        spark_above_mib=section.integer("spark_above_mib", defaults.spark_above_mib, minimum=0),
        max_errors=section.integer("max_errors", defaults.max_errors, minimum=1),
        staging=None if staging is None else base / staging,
        spark=SparkSection(spark.text("master"), spark.text("memory"), spark.all_texts("conf")),
    )
    spark.finish({})
    section.finish({})
    return found


def _maintenance(section: Section) -> MaintenanceSettings:
    found = MaintenanceSettings(
        keep=section.parsed("keep", parse_count, None),
        older_than=section.parsed("older_than", _duration, None),
    )
    section.finish({"keep_versions": "keep", "retention": "older_than"})
    return found


def _duration(text: str, name: str) -> int | None:
    """Return the seconds of a duration; None for `none`."""
    if text.lower() == NONE:
        return None
    try:
        return parse_duration(text)
    except BadRequestError as error:
        raise BadRequestError(f"{name}: {error.message}", hint=error.hint) from None


def _limits(section: Section) -> LimitSettings:
    found = LimitSettings(
        query_seconds=section.parsed("query_seconds", parse_seconds, DEFAULT),
        query_memory=section.parsed("query_memory", parse_size, DEFAULT),
        job_memory=section.parsed("job_memory", parse_size, DEFAULT),
        process_memory=section.parsed("process_memory", parse_size, DEFAULT),
    )
    section.finish({"seconds": "query_seconds", "memory": "query_memory"})
    return found


def _cache(section: Section, base: Path) -> CacheSettings:
    folder = section.text("folder")
    found = CacheSettings(
        None if folder in (None, OFF) else base / folder,
        is_off=folder == OFF,
        size=section.parsed("size", parse_size, DEFAULT_BYTES),
    )
    section.finish({"dir": "folder", "path": "folder", "max_size": "size"})
    return found


def _logging(section: Section) -> LogSettings:
    found = LogSettings(
        level=section.maybe_choice("level", LOG_LEVELS),
        slow_query_ms=section.parsed("slow_query_ms", parse_milliseconds, None),
    )
    section.finish({"slow_ms": "slow_query_ms"})
    return found


def _policy(section: Section, base: Path) -> PolicySettings:
    file, tests = section.text("file"), section.text("tests")
    section.finish({})
    return PolicySettings(
        None if file is None else base / file, None if tests is None else base / tests
    )
