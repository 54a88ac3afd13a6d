"""`Graph`: what a Python program holds. Porcelain and wiring over the engine and the pipeline.

`texts` (how schemas and queries are passed), `requests` (what a write brings along), `options`,
`contract` (the accepted schema on disk), `reader` (plans, images and limits of reads), `history`
(branches, commits, the past), `opened` (what all parts stand on), `bulk` (jobs over many rows),
`graph` (queries and mutations).
"""

from omnigraph.graph.graph import Graph, connect, init
from omnigraph.graph.history import Branches, Commits, GraphAt, GraphCommit
from omnigraph.graph.opened import ClosedError
from omnigraph.graph.options import GraphOptions
from omnigraph.graph.reader import Profile
from omnigraph.graph.texts import Text

__all__ = [
    "Branches",
    "ClosedError",
    "Commits",
    "Graph",
    "GraphAt",
    "GraphCommit",
    "GraphOptions",
    "Profile",
    "Text",
    "connect",
    "init",
]
