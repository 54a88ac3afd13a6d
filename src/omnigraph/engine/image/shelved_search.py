"""Inverted lists and what spares scans of vectors, on disk: mapped instead of made anew.

What is made of a column is the column's: it lies beside it, and nothing of another program version
is taken over, which may cut words or sort rows otherwise.
"""

from __future__ import annotations

import pyarrow as pa

from omnigraph.base.version import VERSION
from omnigraph.engine.image import mapped
from omnigraph.engine.image.blocks import Blocks
from omnigraph.engine.image.postings import TermLists
from omnigraph.engine.image.prefix import Prefix
from omnigraph.engine.image.shelf import ShelvedBase
from omnigraph.engine.image.vectors import VectorBase, matrix_of

_MADE_BY = {"made_by": VERSION}
_LISTS = ("offsets", "docs", "counts", "lengths", "has_text")
_BLOCKS = ("rows", "offsets", "directions", "width_cos", "width_sin")
_PREFIX = ("axes", "heads", "rests")


def find_lists(base: ShelvedBase | None, column: object) -> TermLists | None:
    """Return the inverted lists of a column; None if they are not kept."""
    if base is None or not isinstance(column, str):
        return None
    words = mapped.read_column(base.folder, base.file("words", column))
    arrays = _arrays(base, base.file("lists", column), _LISTS)
    if words is None or arrays is None or len(arrays["lengths"]) != base.rows:
        return None
    vocabulary = {word: code for code, word in enumerate(words[0].to_pylist())}
    if len(arrays["offsets"]) != len(vocabulary) + 1:
        return None
    return TermLists(vocabulary, *(arrays[name] for name in _LISTS))


def keep_lists(base: ShelvedBase | None, column: object, lists: TermLists) -> None:
    """Write the inverted lists of a column, if nobody did."""
    if base is None or not isinstance(column, str):
        return
    name = base.file("lists", column)
    if not mapped.is_there(base.folder, name):
        words = pa.array(list(lists.vocabulary), pa.string())
        mapped.write_column(base.folder, base.file("words", column), words, _MADE_BY)
        arrays = {part: getattr(lists, part) for part in _LISTS}
        mapped.write_arrays(base.folder, name, arrays, _MADE_BY)


def find_vectors(
    base: ShelvedBase | None, column: object, values: pa.FixedSizeListArray
) -> VectorBase | None:
    """Return the matrix of a column with what was made of it; None if that is not kept."""
    if base is None or not isinstance(column, str):
        return None
    found = mapped.read_arrays(base.folder, base.file("scale", column))
    if found is None or found[1].get("made_by") != VERSION or len(found[0]["scale"]) != base.rows:
        return None
    vectors = VectorBase(*matrix_of(values), found[0]["scale"], bool(found[1]["tame"]))
    stage, blocks, prefix = 0, None, None
    tried = mapped.read_arrays(base.folder, base.file("blocks", column))
    if tried is not None:
        stage, blocks = 1, Blocks(*(tried[0][name] for name in _BLOCKS)) if tried[0] else None
        tried = mapped.read_arrays(base.folder, base.file("prefix", column))
        if tried is not None:
            stage, prefix = 2, Prefix(*(tried[0][name] for name in _PREFIX)) if tried[0] else None
    vectors.take_over(stage, blocks, prefix)
    return vectors


def keep_vectors(base: ShelvedBase | None, column: object, vectors: VectorBase) -> None:
    """Write what was made of a column of vectors, as far as nobody did."""
    if base is None or not isinstance(column, str):
        return
    stage, blocks, prefix = vectors.shortcuts
    scale = base.file("scale", column)
    if not mapped.is_there(base.folder, scale):
        said = {**_MADE_BY, "tame": vectors.tame}
        mapped.write_arrays(base.folder, scale, {"scale": vectors.scale}, said)
    for at, (kind, made, parts) in enumerate(
        (("blocks", blocks, _BLOCKS), ("prefix", prefix, _PREFIX)), start=1
    ):
        name = base.file(kind, column)
        if stage >= at and not mapped.is_there(base.folder, name):
            # One that is of no use is kept as nothing: trying takes seconds.
            arrays = {} if made is None else {part: getattr(made, part) for part in parts}
            mapped.write_arrays(base.folder, name, arrays, _MADE_BY)


def _arrays(base: ShelvedBase, name: str, parts: tuple[str, ...]) -> mapped.Arrays | None:
    found = mapped.read_arrays(base.folder, name)
    if found is None or found[1].get("made_by") != VERSION or not set(parts) <= set(found[0]):
        return None
    return found[0]
