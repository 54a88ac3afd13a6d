"""How many edges every node has."""

from __future__ import annotations

import numpy as np

from omnigraph.engine.algorithms.chosen import Along
from omnigraph.engine.algorithms.network import Network
from omnigraph.engine.image.arrays import Ints


def degrees(network: Network, along: Along) -> Ints:
    """Return the number of edges that leave every node, reach it, or both; a self-loop does both.

    Parallel edges count one by one.
    """
    found = np.zeros(network.size, np.int64)
    if along in ("out", "both"):
        found += np.bincount(network.sources, minlength=network.size)
    if along in ("in", "both"):
        found += np.bincount(network.targets, minlength=network.size)
    return found
