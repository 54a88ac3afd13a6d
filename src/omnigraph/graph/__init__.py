"""`Graph`: what a Python program holds. Porcelain and wiring over the engine and the pipeline.

In control-flow order: `graph` (a handle: main, and the whole graph), `branch` (a view that writes),
`view` (one state, for reading), `seen` (a graph of which some rows are hidden), `changes` (diffs,
the feed, the life of nodes and edges), `algorithms` (over all nodes and edges of a state),
`history` (branches and commits), `runs` (writes that are published together), `stored` (queries
called by name), `schemas` (changed, compared, as they were), `state` (what all handles share),
`configured` (from settings to options), `options`, `requests` (what a write brings along), `turns`
(readers give way to writers), `spark_source` (graphs as Spark reads them), `spark_queries` (queries
that run there), `spark_streams` (graphs in streams), `copies` (of whole graphs), `described` (a
schema and a text, for who asks what there is), `around` (what is near a node), `derived` (files of
images on this machine's disk).
"""

from omnigraph.api.history import GraphCommit
from omnigraph.api.protocols import Text
from omnigraph.api.query import Profile
from omnigraph.graph.branch import GraphBranch
from omnigraph.graph.graph import Graph, connect, init
from omnigraph.graph.history import Branches, Commits
from omnigraph.graph.options import GraphOptions
from omnigraph.graph.state import ClosedError
from omnigraph.graph.view import GraphView

__all__ = [
    "Branches",
    "ClosedError",
    "Commits",
    "Graph",
    "GraphBranch",
    "GraphCommit",
    "GraphOptions",
    "GraphView",
    "Profile",
    "Text",
    "connect",
    "init",
]
