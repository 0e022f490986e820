"""Where to draw the nodes of a network so that its shape is seen: the same for the same network.

Switches, and stations on several cables, lie about as far apart as there are cables between them:
classical multidimensional scaling of these distances gives the shape, stress majorisation (Gansner,
Koren, North 2004) evens it out. A station on one cable hangs beside its switch where there is room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import atan2, cos, hypot, pi, sin, sqrt
from operator import mul
from random import Random

from cnc.model import Network

_CABLE = 100.0  # what a cable between switches is long, about
_LEAF_CABLE = 62.0
_WORK_MAX = 2_000_000  # pairs of nodes to look at: some seconds on 500 switches, else well below
_ROUNDS_MAX = 120
_POWER_ROUNDS = 40

Neighbours = Mapping[str, list[str]]


@dataclass(frozen=True, slots=True)
class Place:
    """A node's place, x to the right and y down, and the direction in which a label has room."""

    x: float
    y: float
    label_x: float
    label_y: float


def positions(network: Network) -> dict[str, Place]:
    """A place for every node; cables between switches are about 100 long."""
    neighbours: dict[str, list[str]] = {
        name: [] for name in sorted({*network.bridges, *network.end_stations})
    }
    for source, link in sorted(network.links.items()):
        neighbours[source.node].append(link.target.node)
    at = _shape(
        {name: nodes for name, nodes in neighbours.items() if not _hangs(nodes, neighbours)}
    )
    for name in list(at):
        _hang(name, neighbours, at)
    return {
        name: Place(*at[name], *_widest_gap(_directions(at, name, neighbours[name])))
        for name in neighbours
    }


def _hangs(nodes: list[str], neighbours: Neighbours) -> bool:
    """Whether a node on so many cables is drawn beside its only neighbour."""
    return len(nodes) == 1 and len(neighbours[nodes[0]]) > 1


def _shape(neighbours: Neighbours) -> dict[str, tuple[float, float]]:
    """The nodes that others hang on, the longest way across the picture from left to right."""
    names = list(neighbours)
    if not names:
        return {}
    distances = _distances(neighbours)
    xs, ys = _scaled(distances)
    _even_out(xs, ys, distances)
    middle_x, middle_y = sum(xs) / len(xs), sum(ys) / len(ys)
    xs, ys = [x - middle_x for x in xs], [y - middle_y for y in ys]
    turn = atan2(2 * sum(map(mul, xs, ys)), sum(x * x for x in xs) - sum(y * y for y in ys)) / 2
    # The first name on the left: networks are numbered that way.
    flip = -1 if xs[0] * cos(turn) + ys[0] * sin(turn) > 0 else 1
    return {
        name: (
            flip * _CABLE * (x * cos(turn) + y * sin(turn)),
            flip * _CABLE * (y * cos(turn) - x * sin(turn)),
        )
        for name, x, y in zip(names, xs, ys, strict=True)
    }


def _distances(neighbours: Neighbours) -> list[list[float]]:
    """Cables between any two nodes; parts that do not hang together are put beside each other."""
    number = {name: index for index, name in enumerate(neighbours)}
    apart = sqrt(len(number)) + 1
    table = []
    for name in neighbours:
        row = [apart] * len(number)
        row[number[name]] = 0.0
        seen, queue = {name}, deque([name])
        while queue:
            here = queue.popleft()
            for there in neighbours[here]:
                if there in number and there not in seen:
                    seen.add(there)
                    queue.append(there)
                    row[number[there]] = row[number[here]] + 1
        table.append(row)
    return table


def _scaled(distances: list[list[float]]) -> tuple[list[float], list[float]]:
    """Classical scaling to two dimensions, by power iteration."""
    squares = [[d * d for d in row] for row in distances]
    count = len(squares)
    means = [sum(row) / count for row in squares]
    mean = sum(means) / count
    inner = [
        [(means[i] + means[j] - square - mean) / 2 for j, square in enumerate(row)]
        for i, row in enumerate(squares)
    ]
    chance = Random(1)  # noqa: S311  not for secrets
    axes: list[list[float]] = []
    for _ in range(2):
        vector = [chance.uniform(-1, 1) for _ in range(count)]
        size = 0.0
        for _ in range(_POWER_ROUNDS):
            for axis in axes:
                along = sum(map(mul, axis, vector)) / (sum(map(mul, axis, axis)) or 1)
                vector = [v - along * a for v, a in zip(vector, axis, strict=True)]
            vector = [sum(map(mul, row, vector)) for row in inner]
            size = sqrt(sum(map(mul, vector, vector)))
            vector = [v / (size or 1) for v in vector]
        axes.append([v * sqrt(size) for v in vector])
    # A little chance parts nodes that the two dimensions do not tell apart.
    return (
        [x + chance.uniform(-0.001, 0.001) for x in axes[0]],
        [y + chance.uniform(-0.001, 0.001) for y in axes[1]],
    )


def _even_out(xs: list[float], ys: list[float], distances: list[list[float]]) -> None:
    """Move each node in turn to the position that fits its distances to the others best."""
    count = len(xs)
    others = [
        [(j, d, 1 / (d * d)) for j, d in enumerate(row) if j != i]
        for i, row in enumerate(distances)
    ]
    for _ in range(min(_ROUNDS_MAX, _WORK_MAX // (count * count)) if count > 1 else 0):
        for i, wishes in enumerate(others):
            x = y = weights = 0.0
            here_x, here_y = xs[i], ys[i]
            for j, distance, weight in wishes:
                away_x, away_y = here_x - xs[j], here_y - ys[j]
                share = distance / (hypot(away_x, away_y) or 1)
                x += weight * (xs[j] + share * away_x)
                y += weight * (ys[j] + share * away_y)
                weights += weight
            xs[i], ys[i] = x / weights, y / weights


def _hang(name: str, neighbours: Neighbours, at: dict[str, tuple[float, float]]) -> None:
    """Place what hangs on a node into the widest gaps between its other cables."""
    leaves = [node for node in neighbours[name] if node not in at]
    angles = _directions(at, name, (node for node in neighbours[name] if node in at))
    gaps = [[start, end - start, 0] for start, end in _gaps(angles)]
    for _ in leaves:
        max(gaps, key=lambda gap: _room(gap[1]) / (gap[2] + 1))[2] += 1
    free = (
        start + width * (index + 1) / (count + 1)
        for start, width, count in gaps
        for index in range(int(count))
    )
    for leaf, angle in zip(leaves, free, strict=True):
        at[leaf] = (
            at[name][0] + _LEAF_CABLE * cos(angle),
            at[name][1] + _LEAF_CABLE * sin(angle),
        )


def _room(gap: float) -> float:
    """What a gap between cables counts for: within a corner what hangs on other switches of the
    same ring may come near."""
    return gap if gap > pi - 0.01 else gap / 2


def _directions(
    at: Mapping[str, tuple[float, float]], name: str, others: Iterable[str]
) -> list[float]:
    x, y = at[name]
    return sorted(atan2(at[other][1] - y, at[other][0] - x) for other in set(others))


def _gaps(angles: list[float]) -> list[tuple[float, float]]:
    """The free sectors between directions; all around where there are none."""
    if not angles:
        return [(-pi / 2, 3 * pi / 2)]
    return list(pairwise([*angles, angles[0] + 2 * pi]))


def _widest_gap(angles: list[float]) -> tuple[float, float]:
    start, end = max(_gaps(angles), key=lambda gap: gap[1] - gap[0])
    return cos((start + end) / 2), sin((start + end) / 2)
