"""PageRank: where a walker is who follows edges and now and then starts anywhere."""

from __future__ import annotations

import math

import numpy as np

from omnigraph.base.arguments import count_argument, shown
from omnigraph.base.budget import NUMBER_BYTES, checkpoint, keep
from omnigraph.engine.algorithms.network import Network
from omnigraph.engine.image.arrays import Floats, Ints, Mask
from omnigraph.engine.image.pieces import gathered, sorted_rows
from omnigraph.errors import BadRequestError, BudgetExceededError


class NotConvergedError(BudgetExceededError):
    """An iteration still changes too much after as many rounds as were allowed."""


def check_pagerank(damping: float, max_iterations: int, tolerance: float) -> None:
    """Return only if the numbers make sense.

    Raises:
        BadRequestError: they do not.
    """
    if not _is_number(damping) or not 0 <= damping < 1:
        raise BadRequestError(
            f"damping is a number from 0 to below 1, not {shown(damping)}", hint="0.85 is usual"
        )
    if not _is_number(tolerance) or tolerance <= 0:
        raise BadRequestError(
            f"tolerance is a number above 0, not {shown(tolerance)}", hint="1e-9 is the default"
        )
    count_argument(max_iterations, "max_iterations")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def pagerank(
    network: Network, damping: float = 0.85, max_iterations: int = 200, tolerance: float = 1e-9
) -> Floats:
    """Return the rank of every node; ranks add up to 1.

    Nodes without a way out hand their rank to all alike. Parallel edges each carry their part.

    Raises:
        NotConvergedError: the ranks of all nodes together still move by more than `tolerance`.
    """
    size = network.size
    if not size:
        return np.empty(0)
    keep("pagerank", (4 * size + 4 * len(network.sources)) * NUMBER_BYTES)
    sources, parts, starts, heads, is_end = _transitions(network)
    ranks = np.full(size, 1.0 / size)
    moved = math.inf
    for _ in range(max_iterations):
        checkpoint("pagerank")
        flowing = gathered(ranks, sources) * parts
        arrived = np.zeros(size)
        if len(starts):
            arrived[heads] = np.add.reduceat(flowing, starts)
        spread = damping * float(ranks[is_end].sum()) + (1.0 - damping)
        following = damping * arrived + spread / size
        moved = float(np.abs(following - ranks).sum())
        ranks = following
        if moved < tolerance:
            return ranks
    raise NotConvergedError(
        f"pagerank still moves by {moved:.2g} after {max_iterations} rounds",
        hint="raise max_iterations or tolerance, or lower damping",
        limit=max_iterations,
    )


def _transitions(network: Network) -> tuple[Ints, Floats, Ints, Ints, Mask]:
    """Return edges by target (source, the part of its rank they carry), where targets begin, ends.

    The order is that of the nodes, and of parts among parallel edges, so a sum is always the same.
    """
    weights = network.weights
    sources, targets = network.sources, network.targets
    carried = np.ones(len(sources)) if weights is None else weights
    out: Floats = np.bincount(sources, weights=carried, minlength=network.size).astype(np.float64)
    if weights is not None:
        _check_sums(out)
    with np.errstate(invalid="ignore", divide="ignore"):
        parts = np.where(out[sources] > 0, carried / out[sources], 0.0)
    keys = [targets, sources] if weights is None else [targets, sources, parts]
    order = sorted_rows(keys, len(sources))
    sources, targets, parts = sources[order], targets[order], parts[order]
    begins = np.append(True, targets[1:] != targets[:-1])[: len(targets)]
    starts = np.flatnonzero(begins)
    return sources, parts, starts, targets[starts], out <= 0


def _check_sums(out: Floats) -> None:
    if not np.isfinite(out).all():
        raise BadRequestError(
            "the weights of a node's edges add up to more than a double holds",
            hint="scale them down",
        )
