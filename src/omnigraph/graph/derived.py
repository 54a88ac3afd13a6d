"""Derived files on this machine's disk: what there is, taking it away, and making it.

They can always be made anew from graphs, so taking them away costs time and nothing else.
"""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from pathlib import Path

from omnigraph.api.upkeep import CacheContents, CachedTable, CachePurged
from omnigraph.base.uri import parse_uri
from omnigraph.config.environment import process_environment
from omnigraph.engine.image.folders import private_folder
from omnigraph.engine.image.shelf import ShelfOptions
from omnigraph.engine.image.shelf_upkeep import KeptBase, faults_in, kept_in, purge
from omnigraph.graph.configured import shelf_options
from omnigraph.graph.options import GraphOptions


def cache_contents(options: GraphOptions | None = None, *, check: bool = False) -> CacheContents:
    """Return what is kept on disk, by graph, table and version.

    Args:
        options: tells the folder; without, the environment does.
        check: read all of it from end to end; what is damaged is told, and removed.

    Raises:
        BadRequestError: the folder must not be used.
    """
    said = _said(options)
    root = _root(said)
    found = () if root is None else tuple(_told(one, check=check) for one in kept_in(root))
    return CacheContents(
        None if said is None else str(said.folder),
        sum(one.bytes for one in found),
        None if said is None else said.max_bytes,
        found,
    )


def cache_contents_of(found: CacheContents, uri: str | PathLike[str]) -> CacheContents:
    """Return the part of it that is of the graphs at one address."""
    address = str(parse_uri(uri))
    own = tuple(one for one in found.tables if one.uri == address)
    return replace(found, tables=own, bytes=sum(one.bytes for one in own))


def purge_cache(
    uri: str | PathLike[str] | None = None, options: GraphOptions | None = None
) -> CachePurged:
    """Take away what is kept on disk of the graphs at one address, or of all.

    Processes that have files mapped go on with them.

    Args:
        uri: address of a graph; None is all of them.
        options: tells the folder; without, the environment does.
    """
    said = _said(options)
    root, address = _root(said), None if uri is None else str(parse_uri(uri))
    freed = 0 if root is None else purge(root, address)
    return CachePurged(None if said is None else str(said.folder), address, freed)


def _said(options: GraphOptions | None) -> ShelfOptions | None:
    return shelf_options(GraphOptions() if options is None else options, process_environment())


def _root(said: ShelfOptions | None) -> Path | None:
    """Return the folder, if there is one."""
    return None if said is None or not said.folder.is_dir() else private_folder(said.folder)


def _told(one: KeptBase, *, check: bool) -> CachedTable:
    faults = faults_in(one) if check else []
    about = one.about
    used = int(one.used_s * 1_000_000)
    told = (about["uri"], about["location"], about["branch"])
    return CachedTable(*told, one.version, one.rows, one.bytes, used, tuple(faults))
