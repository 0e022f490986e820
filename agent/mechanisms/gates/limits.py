"""How much a port's gates can take: what sch_taprio bounds, and what drivers' sources say.

The kernel has no query for the limits of a driver: `agent.driver_facts` has those of its source.
"""

from __future__ import annotations

import time

from agent.driver_facts import FACTS
from agent.mechanisms.gates.model import GateLimits, TaprioMode

INT_MAX = 2**31 - 1  # taprio_cycle_time_range of sch_taprio.c; an interval is a part of a cycle
NS_PER_S = 1_000_000_000
TENTHS = 10

# The kernel takes any length, but shows a qdisc in a single message of at most
# SKB_WITH_OVERHEAD(32768) octets (netlink_recvmsg, whatever the reader's buffer), and the running
# and the pending list have to fit into it: 36 octets an entry (dump_entry) and about 850 for the
# rest leave 438 entries, a few less with CONFIG_MAX_SKB_FRAGS=45. A longer one ends the dump
# (tc_dump_qdisc): this qdisc and those of all later interfaces are missing. A request for one qdisc
# is answered in one page (qdisc_get_notify), which holds a quarter of that.
SOFTWARE_LIST_MAX = 430


def limits_for(mode: TaprioMode, driver: str | None) -> GateLimits:
    """The limits of a port whose gates run in `mode`."""
    if mode is TaprioMode.FULL_OFFLOAD:
        return _of_driver(driver)
    return GateLimits(
        list_max=SOFTWARE_LIST_MAX,
        cycle_max_ns=INT_MAX,
        interval_max_ns=INT_MAX,
        tick_tenth_ns=_tick_tenth_ns(),
    )


def _of_driver(driver: str | None) -> GateLimits:
    facts = FACTS.get(driver or "")
    if facts is None:
        return GateLimits()
    return GateLimits(
        list_max=facts.list_max,
        cycle_max_ns=facts.cycle_max_ns,
        interval_max_ns=facts.interval_max_ns,
        tick_tenth_ns=facts.tick_ns and facts.tick_ns * TENTHS,
        interval_min_ns=facts.interval_min_ns,
    )


def _tick_tenth_ns() -> int:
    """The timers' resolution: 1 ns with high-resolution timers, else a jiffy."""
    return round(time.clock_getres(time.CLOCK_MONOTONIC) * NS_PER_S) * TENTHS


def limits_by_mode(driver: str | None) -> dict[TaprioMode, GateLimits]:
    """The limits of a port, by the mode that its gates may run in."""
    return {mode: limits_for(mode, driver) for mode in TaprioMode}
