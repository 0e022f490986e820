"""From the cbs qdiscs that a port has to those it is to have. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from agent.composition import Change, Contribution
from agent.mechanism import Contributions
from agent.mechanisms.cbs.model import NAME, Shapers
from agent.model import PortConfig, PortState
from agent.root_qdisc import Below, change_below, foreign_root, root_of


def contributions(state: PortState, its: Shapers) -> Contributions:
    """The qdiscs below the root of a port."""
    for each in _contributed(state, its):
        yield root_of(state), each


def diff(config: PortConfig, state: PortState) -> Iterator[Change]:
    """One change, or none where the kernel has what is asked."""
    before, after = state[Shapers], config[Shapers]
    if before != after:
        yield change_below(
            state, "credit-based shaper", _below(state, before), _below(state, after)
        )


def problems(config: PortConfig, state: PortState) -> Iterator[str]:
    """Why a port cannot have these."""
    if state.foreign_qdisc and config[Shapers].queues:
        yield foreign_root(state.name, state.foreign_qdisc)


def _below(state: PortState, its: Shapers) -> Below:
    return Below(tuple(_contributed(state, its)), _words(its))


def _contributed(state: PortState, its: Shapers) -> Iterator[Contribution]:
    for child in its.queues:
        yield Contribution(NAME, state.name, child.place, child)


def _words(its: Shapers) -> str:
    found = []
    for each in its.queues:
        shown = dict(each.options)
        found.append(
            f"traffic class {each.traffic_class} {each.idle_slope_bps} bit/s (send slope "
            f"{shown['sendslope']} kbit/s, credit {shown['locredit']} to {shown['hicredit']})"
        )
    return "; ".join(found) or "none"
