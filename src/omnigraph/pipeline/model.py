"""What a load is asked for and what it reports: plain values, no behaviour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from omnigraph.api.words import ENGINES, ON_ERROR, Engine, Mode, OnError
from omnigraph.base.arguments import count_argument, word_argument
from omnigraph.engine.write.violations import MAX_REPORTED
from omnigraph.errors import BadRequestError, StorageError


class InputError(BadRequestError):
    """Something given to a load cannot be read as data."""


class UnreadableError(StorageError):
    """A file broke while it was being read; nothing was written."""


class UnwritableError(StorageError):
    """A file that was asked for cannot be written; none is left half written."""


class StagingError(StorageError):
    """The load's own files could not be written; the graph is as it was."""


@dataclass(frozen=True, slots=True)
class Columns:
    """What the columns of one type's files are called here; others keep their names."""

    names: Mapping[str, str] = field(default_factory=dict)
    ignored: frozenset[str] = frozenset()
    delimiter: str | None = None
    """What stands between the cells of CSV files; seen from the header unless said."""
    encoding: str | None = None
    """What CSV files are written in; UTF-8, or what their first bytes say, unless said."""
    files: tuple[str, ...] = ()
    """Which files have rows of the type, whatever they are called."""

    def renamed(self, names: Iterable[str]) -> list[str | None]:
        """Return what each column is called here; None is left out."""
        return [None if one in self.ignored else self.names.get(one, one) for one in names]

    def require_all(self, names: Sequence[str], source: str) -> None:
        """Refuse a file that lacks a column the mapping names.

        Raises:
            InputError: it does.
        """
        for name in self.names:
            if name not in names:
                raise InputError(
                    f"{source}: there is no column '{name}', which the mapping names",
                    hint=f"its columns are {', '.join(names)}",
                )


AS_THEY_ARE = Columns()
ColumnMap: TypeAlias = Mapping[str, Columns]
"""By the name of a type, or `*` for any other one."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How to start Spark; anything in `conf` goes to it as it is."""

    master: str = "local[*]"
    memory: str = "1g"
    """Of the Java process; rows live in the Python workers beside it."""
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether everything runs on this machine, in one Java process."""
        return self.master == "local" or self.master.startswith("local[")


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """What a caller may decide about all loads into an open graph."""

    engine: Engine = "auto"
    spark_above_bytes: int = 64 << 20
    """Inputs beyond this size go to Spark under `engine="auto"`."""
    max_errors: int = MAX_REPORTED
    """How many faults are told one by one; all are counted."""
    staging: Path | None = None
    """Where to keep files meanwhile, if not beside the graph; all workers must see it."""
    spark: SparkSettings | None = None
    """Says where Spark runs; then every load goes there unless it asks for something else."""
    spark_memory: str = "1g"
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    """Memory and settings of a Spark that is started here although `spark` does not say where."""

    def own_spark(self, master: str = "local[*]") -> SparkSettings:
        """Return how to start Spark on some master."""
        return SparkSettings(master, self.spark_memory, self.spark_conf)


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How a load goes about its work."""

    mode: Mode = Mode.OVERWRITE
    engine: Engine = "auto"
    on_error: OnError = "fail"
    max_errors: int = MAX_REPORTED
    """How many faults are told one by one; all are counted."""
    spark_above_bytes: int = 64 << 20
    """Inputs beyond this size go to Spark under `engine="auto"`."""
    split_bytes: int = 32 << 20
    """How much of a file one task reads."""
    max_line_bytes: int = 64 << 20
    staging: Path | None = None
    """Where to keep files meanwhile, if not beside the graph; all workers must see it."""
    mapping: ColumnMap = field(default_factory=dict)
    """What columns of tables and fields of flat objects are called here."""


def load_options(
    mode: str,
    engine: str | None,
    on_error: str,
    defaults: PipelineOptions,
    max_errors: int | None = None,
    mapping: ColumnMap = {},  # noqa: B006 - never written to
) -> LoadOptions:
    """Return options from words, and from the graph's for what is not said.

    Raises:
        BadRequestError: a word is none of the known ones.
    """
    return LoadOptions(
        word_argument(mode, tuple(Mode), "mode"),
        word_argument(defaults.engine if engine is None else engine, ENGINES, "engine"),
        word_argument(on_error, ON_ERROR, "on_error"),
        count_argument(defaults.max_errors if max_errors is None else max_errors, "max_errors"),
        defaults.spark_above_bytes,
        staging=defaults.staging,
        mapping=mapping,
    )
