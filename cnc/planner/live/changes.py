"""What a change of a plan is: what others have to know of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cnc.model import GateControlList, PortRef, Stream, StreamAddress, StreamPlan

Movable = Callable[[], Mapping[str, Stream]]
"""The streams that may move, each as it would have to be placed then."""

Breaks = Callable[[Mapping[PortRef, GateControlList]], Mapping[str, str]]
"""The streams without instants to whom some promise would not hold where ports run these lists, and
why."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The places of streams that come or move, and the lists of ports that change: None where no
    stream is left. Every other stream and port stays as it is.

    `ports` are all that the change touches: those whose lists change, and those by which frames
    of streams leave that come, move or go, talkers' too. `moved` and `gone` are the streams that
    ran elsewhere before, and that run no longer. `addresses` has all added streams where switches
    bridge, `jitter_ns` those that limit their jitter, and `recovery_ns` those of which there is a
    bound, as in a plan.
    """

    streams: Mapping[str, StreamPlan]
    gates: Mapping[PortRef, GateControlList | None]
    addresses: Mapping[str, StreamAddress] = field(default_factory=dict)
    jitter_ns: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    recovery_ns: Mapping[str, int] = field(default_factory=dict)
    ports: frozenset[PortRef] = frozenset()
    moved: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


class Come(NamedTuple):
    """The places of streams that come, and of those that `moved` for them, and the lists that ports
    run then."""

    streams: dict[str, StreamPlan]
    gates: dict[PortRef, GateControlList | None]
    jitter_ns: dict[str, dict[str, int]]
    recovery_ns: dict[str, int]
    moved: tuple[str, ...] = ()
