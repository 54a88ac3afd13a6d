"""The words a call may choose from, the same on every surface."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias, get_args

DEFAULT_BRANCH = "main"

Moment: TypeAlias = "str | int"
"""A commit id, or a version of a branch."""


class Mode(StrEnum):
    """What happens to the rows that a touched table has."""

    OVERWRITE = "overwrite"
    APPEND = "append"
    MERGE = "merge"


Engine = Literal["auto", "spark", "inline"]
ENGINES: tuple[Engine, ...] = get_args(Engine)
OnError = Literal["fail", "skip"]
ON_ERROR: tuple[OnError, ...] = get_args(OnError)
ExportFormat = Literal["jsonl", "parquet"]
EXPORT_FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)
RefillMode = Literal["fill_missing", "reembed_all"]
REFILL_MODES: tuple[RefillMode, ...] = get_args(RefillMode)
EmbedMode = Literal["fill_missing", "reembed_all", "reembed_selected", "clean"]

ChangeOp = Literal["insert", "update", "delete"]
CHANGE_OPS: tuple[ChangeOp, ...] = get_args(ChangeOp)
EntityKind = Literal["node", "edge"]
ENTITY_KINDS: tuple[EntityKind, ...] = get_args(EntityKind)
Images = Literal["none", "after", "both"]
IMAGES: tuple[Images, ...] = get_args(Images)
