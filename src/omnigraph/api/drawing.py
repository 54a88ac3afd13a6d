"""A small graph as an SVG: a layout that ends, dots, arrows, labels; all text escaped."""

from __future__ import annotations

import html
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_STEPS = 120
_SMALL = 24
"""Up to so many arrows each says what it is; of more, the pointer has to ask."""
_RADIUS = 9.0
_LABEL = 20
"""Characters of a label that are shown; the whole of it shows under the pointer."""
_COLOURS = (
    *("#3b6fb6", "#b5542d", "#3f8a5a", "#8a4fa3", "#a67c00"),
    *("#b03a5b", "#2f8a93", "#6b6f2a", "#5b5bd6", "#7a5a48"),
)


@dataclass(frozen=True, slots=True)
class Dot:
    """A node to be drawn."""

    label: str
    kind: str
    id: str


@dataclass(frozen=True, slots=True)
class Arrow:
    """An edge between two dots, by their numbers; a way of several edges is dashed."""

    source: int
    target: int
    kind: str
    is_way: bool = False


def drawn(dots: Sequence[Dot], arrows: Sequence[Arrow]) -> str:
    """Return the dots and arrows as one SVG element."""
    if not dots:
        return '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"></svg>'
    side = float(np.clip(180 * math.sqrt(len(dots)), 320, 1_600))
    at = placed(len(dots), np.array([(one.source, one.target) for one in arrows]).reshape(-1, 2))
    at = 60 + at * np.array([side - 120, 0.7 * side - 120])
    tip = "omnigraph-tip"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {side:.0f} {0.7 * side:.0f}" '
        f'width="{side:.0f}" style="max-width:100%;height:auto" role="img" '
        f'font-family="sans-serif" font-size="11">'
        f"<title>{len(dots)} nodes, {len(arrows)} edges</title>"
        f'<defs><marker id="{tip}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="#8a8f98"/></marker></defs>'
    )
    colours = _colours(one.kind for one in dots)
    lines = [_line(one, at, tip, named=len(arrows) <= _SMALL) for one in arrows]
    marks = [_mark(one, place, colours) for one, place in zip(dots, at, strict=True)]
    return "".join([head, *lines, *marks, _legend(colours), "</svg>"])


def placed(count: int, ends: npt.NDArray[np.int64]) -> Floats:
    """Return a place in the unit square for every node: linked ones near, all of them apart.

    The same graph always gets the same places.
    """
    angle = np.arange(count) * 2.399963  # the golden angle spreads a sunflower's seeds
    at = np.sqrt((np.arange(count) + 0.5) / count)[:, None] * np.c_[np.cos(angle), np.sin(angle)]
    near = 2.0 / math.sqrt(count)
    ends = ends[ends[:, 0] != ends[:, 1]]
    for step in range(_STEPS if count > 1 else 0):
        away = at[:, None] - at[None]
        distance = np.maximum(np.linalg.norm(away, axis=2), 1e-3)
        force = (away * (near**2 / distance**2)[..., None]).sum(axis=1)
        link = at[ends[:, 0]] - at[ends[:, 1]]
        pull = link * (np.linalg.norm(link, axis=1) / near)[:, None]
        np.subtract.at(force, ends[:, 0], pull)
        np.add.at(force, ends[:, 1], pull)
        force -= at * near  # parts without a link between them stay in the picture
        length = np.maximum(np.linalg.norm(force, axis=1), 1e-9)
        most = 0.25 * (1 - step / _STEPS) * near
        at = at + force * (np.minimum(length, most) / length)[:, None]
    low, high = at.min(axis=0), at.max(axis=0)
    return np.asarray(np.where(high > low, (at - low) / np.maximum(high - low, 1e-9), 0.5))


def _line(one: Arrow, at: Floats, tip: str, *, named: bool) -> str:
    start, end = at[one.source], at[one.target]
    dash = ' stroke-dasharray="4 3"' if one.is_way else ""
    style = f'fill="none" stroke="#8a8f98"{dash} marker-end="url(#{tip})"'
    title = f"<title>{html.escape(one.kind)}</title>"
    if one.source == one.target:
        x, y = start
        path = f"M{x - 6:.1f} {y - 8:.1f}C{x - 30:.1f} {y - 42:.1f} {x + 30:.1f} {y - 42:.1f}"
        return f'<path d="{path} {x + 6:.1f} {y - 8:.1f}" {style}>{title}</path>'
    along = (end - start) / max(float(np.linalg.norm(end - start)), 1e-9)
    side = np.array([-along[1], along[0]]) * 6  # there and back are two lines
    first, last = start + along * _RADIUS + side / 2, end - along * (_RADIUS + 2) + side / 2
    middle = (first + last) / 2 + side
    path = f"M{first[0]:.1f} {first[1]:.1f}Q{middle[0]:.1f} {middle[1]:.1f}"
    line = f'<path d="{path} {last[0]:.1f} {last[1]:.1f}" {style}>{title}</path>'
    if not named:
        return line
    place = f'x="{middle[0]:.1f}" y="{middle[1]:.1f}"'
    words = html.escape(one.kind)
    return f'{line}<text {place} fill="#6b7280" text-anchor="middle" font-size="9">{words}</text>'


def _mark(dot: Dot, place: Floats, colours: Mapping[str, str]) -> str:
    label = dot.label if len(dot.label) <= _LABEL else dot.label[: _LABEL - 1] + "…"
    x, y = place
    return (
        f'<g><circle cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS}" fill="{colours[dot.kind]}"/>'
        f'<text x="{x:.1f}" y="{y + 3.5:.1f}" fill="#fff" text-anchor="middle" font-size="9">'
        f"{html.escape(dot.kind[:1])}</text>"
        f'<text x="{x:.1f}" y="{y + 21:.1f}" fill="currentColor" text-anchor="middle">'
        f"{html.escape(label)}</text>"
        f"<title>{html.escape(f'{dot.kind} {dot.id}: {dot.label}')}</title></g>"
    )


def _legend(colours: Mapping[str, str]) -> str:
    parts = []
    for row, (kind, colour) in enumerate(colours.items()):
        y = 14 + 16 * row
        parts.append(
            f'<circle cx="10" cy="{y}" r="5" fill="{colour}"/>'
            f'<text x="20" y="{y + 4}" fill="currentColor">{html.escape(kind)}</text>'
        )
    return "".join(parts)


def _colours(kinds: Iterable[str]) -> dict[str, str]:
    """Return a colour for every type: its own in most pictures, and no other's in this one."""
    found: dict[str, str] = {}
    for kind in sorted(set(kinds)):
        first = zlib.crc32(kind.encode())
        wheel = [_COLOURS[(first + step) % len(_COLOURS)] for step in range(len(_COLOURS))]
        free = [colour for colour in wheel if colour not in found.values()]
        found[kind] = (free or wheel)[0]
    return found
