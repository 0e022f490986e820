"""Which traffic classes of a port send by a credit (IEEE 802.1Q-2022 8.6.8.2)."""

from __future__ import annotations

from dataclasses import dataclass

from agent.root_qdisc import ChildQdisc

NAME = "credit-based-shaper"
CBS = "cbs"
SLOPE_UNIT_BPS = 1_000  # what the kernel counts slopes in (struct tc_cbs_qopt)


@dataclass(frozen=True, slots=True)
class CreditQdisc(ChildQdisc):
    """The cbs qdisc of a traffic class, which has one transmit queue."""

    traffic_class: int = 0

    @property
    def idle_slope_bps(self) -> int:
        return dict(self.options)["idleslope"] * SLOPE_UNIT_BPS


@dataclass(frozen=True, slots=True)
class Shapers:
    """The cbs qdiscs of a port, by queue.

    Both what is asked of a port and what it does; made without arguments: nothing.
    """

    queues: tuple[CreditQdisc, ...] = ()
