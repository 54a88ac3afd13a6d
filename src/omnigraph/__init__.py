"""OmniGraph: a typed property-graph database on Lance.

    graph = omnigraph.init("people.omni", "people.pg")
    graph = omnigraph.connect("people.omni")

Names are loaded on first use, so importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph.errors import OmniGraphError
    from omnigraph.graph import Graph, GraphOptions, connect, init
    from omnigraph.result import MutationResult, QueryResult

__version__ = "0.1.0"
__all__ = [
    "Graph",
    "GraphOptions",
    "MutationResult",
    "OmniGraphError",
    "QueryResult",
    "__version__",
    "connect",
    "init",
]

_HOMES = {
    "OmniGraphError": "omnigraph.errors",
    "Graph": "omnigraph.graph",
    "GraphOptions": "omnigraph.graph",
    "connect": "omnigraph.graph",
    "init": "omnigraph.graph",
    "MutationResult": "omnigraph.result",
    "QueryResult": "omnigraph.result",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'omnigraph' has no attribute '{name}'")
    return getattr(import_module(home), name)
