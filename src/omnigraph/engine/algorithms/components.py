"""Which nodes are connected, whichever way the edges between them point."""

from __future__ import annotations

import numpy as np

from omnigraph.base.budget import NUMBER_BYTES, checkpoint, keep
from omnigraph.engine.algorithms.network import Network
from omnigraph.engine.image.arrays import Ints


def connected_components(network: Network) -> Ints:
    """Return the component of every node; components are numbered by their first nodes.

    In every round the node that stands for a group joins the smallest neighbour of its group, and
    pointers to pointers are shortened until none is left. Edges inside a group are dropped, so the
    rounds become smaller.
    """
    keep("components", 2 * network.size * NUMBER_BYTES)
    stands = np.arange(network.size)
    near, far = network.sources, network.targets
    while True:
        checkpoint("components", 5 * len(near) * NUMBER_BYTES)
        near, far = stands[near], stands[far]
        apart = near != far
        if not apart.any():
            break
        near, far = near[apart], far[apart]
        # Only towards smaller numbers, so no circle can close.
        np.minimum.at(stands, np.maximum(near, far), np.minimum(near, far))
        stands = _shortened(stands)
    # Whoever stands for a component is its first node, so ascending they are numbered already.
    is_first = stands == np.arange(network.size)
    return (np.cumsum(is_first) - 1)[stands]


def _shortened(stands: Ints) -> Ints:
    """Let every node point at who stands for its whole group."""
    while True:
        checkpoint("components")
        further = stands[stands]
        if np.array_equal(further, stands):
            return stands
        stands = further
