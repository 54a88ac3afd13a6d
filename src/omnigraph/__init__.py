"""OmniGraph: a typed property-graph database on Lance.

    graph = omnigraph.init("people.omni", "people.pg")
    graph = omnigraph.connect("people.omni")

Names are loaded on first use, so importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from omnigraph.base.version import VERSION

if TYPE_CHECKING:
    from omnigraph.api.query import QueryResult
    from omnigraph.api.writes import MutationResult
    from omnigraph.base.budget import Limits, limit_process_memory
    from omnigraph.config.stored import StoredFiles
    from omnigraph.errors import OmniGraphError
    from omnigraph.graph import Graph, GraphOptions, connect, init
    from omnigraph.graph.copies import clone, relocate

__version__ = VERSION
__all__ = [
    "Graph",
    "GraphOptions",
    "Limits",
    "MutationResult",
    "OmniGraphError",
    "QueryResult",
    "StoredFiles",
    "__version__",
    "clone",
    "connect",
    "init",
    "limit_process_memory",
    "relocate",
]

_HOMES = {
    "OmniGraphError": "omnigraph.errors",
    "Graph": "omnigraph.graph",
    "GraphOptions": "omnigraph.graph",
    "Limits": "omnigraph.base.budget",
    "limit_process_memory": "omnigraph.base.budget",
    "clone": "omnigraph.graph.copies",
    "relocate": "omnigraph.graph.copies",
    "connect": "omnigraph.graph",
    "init": "omnigraph.graph",
    "MutationResult": "omnigraph.api.writes",
    "QueryResult": "omnigraph.api.query",
    "StoredFiles": "omnigraph.config.stored",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name == "aio":
        return import_module("omnigraph.aio")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'omnigraph' has no attribute '{name}'")
    return getattr(import_module(home), name)
