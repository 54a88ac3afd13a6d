"""What surfaces may ask is what graphs can do, under the same names and keywords."""

import inspect

import pytest

from omnigraph.api import protocols
from omnigraph.graph import Branches, Commits, Graph, GraphBranch, GraphView

PAIRS = [
    (protocols.Reads, GraphView),
    (protocols.BranchView, GraphBranch),
    (protocols.AnyGraph, Graph),
    (protocols.Branches, Branches),
    (protocols.Commits, Commits),
]


def asked(protocol):
    names = {name for base in protocol.__mro__ for name in vars(base) if not name.startswith("_")}
    return sorted(names)


@pytest.mark.parametrize(("protocol", "graph"), PAIRS, ids=lambda one: one.__name__)
def test_everything_that_can_be_asked_is_answered(protocol, graph):
    own = inspect.getsource(graph.__init__)
    missing = [
        name for name in asked(protocol) if not hasattr(graph, name) and f"self.{name} =" not in own
    ]
    assert not missing
    assert asked(protocol)


def test_a_graph_can_be_asked_whatever_its_views_can():
    assert set(asked(protocols.AnyGraph)) > set(asked(protocols.BranchView))
    assert set(asked(protocols.BranchView)) > set(asked(protocols.Reads))


@pytest.mark.parametrize("view", [GraphView, GraphBranch], ids=lambda one: one.__name__)
def test_a_graph_has_every_method_of_its_views(view):
    public = {name for name in dir(view) if not name.startswith("_")} - {"name", "actor"}
    assert not {name for name in public if not hasattr(Graph, name)}
