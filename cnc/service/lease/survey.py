"""What the switches of a network keep, compared with what its database knows of them.

A database that was put back from a backup does not know what was decided since: its plan lacks
streams that run. Nothing is changed then before an admin has chosen.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cnc import rollout
from cnc.rollout import Met
from cnc.switch import ConnectOptions
from cnc.switch.device import DeviceError, ManagedNode

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Survey:
    """`highest`: the highest term of the network on a switch that answered, 0: none. `unknown`: a
    line for each term or rollout that the database does not know, with its switch; `rollouts`: the
    ids of these."""

    highest: int
    unknown: tuple[str, ...]
    rollouts: frozenset[str]


def survey(
    switches: Iterable[ManagedNode],
    network: str,
    *,
    known_term: int,
    knows: Callable[[str], bool],
    connect: ConnectOptions,
) -> Survey:
    """Ask all switches. `known_term` is the highest that the database knows, and it `knows` the ids
    of rollouts. Switches that do not answer are left out, and logged."""
    found: dict[str, Met] = {}
    for name, its in rollout.meet(switches, connect=connect).items():
        if isinstance(its, DeviceError):
            LOG.warning("not asked for its term: %s", its)
        else:
            found[name] = its
    terms = {
        name: its.term for name, its in found.items() if its.term and its.term.network == network
    }
    # A rollout without an instant is that of a claim: a term, and no lists.
    foreign = {
        name: its.rollout
        for name, its in found.items()
        if its.rollout and its.rollout.apply_before_ns and not knows(its.rollout.id)
    }
    return Survey(
        max((its.term for its in terms.values()), default=0),
        (
            *(f"{name}: {its}" for name, its in terms.items() if its.term > known_term),
            *(
                f"{name}: it runs rollout {its.id} of {its.controller}, {its.time}"
                for name, its in foreign.items()
            ),
        ),
        frozenset(its.id for its in foreign.values()),
    )
