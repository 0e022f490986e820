"""The base time of a list: from the tree of IEEE 802.1Q to the kernel's nanoseconds. Pure."""

from __future__ import annotations

from agent.mechanism import Refused, Tree
from agent.model import NS_PER_S

INT64_MAX = 2**63 - 1  # the kernel's bound on a time


def base_time_ns(ptp_time: Tree, cycle_time_ns: int) -> int:
    """An `admin-base-time` in nanoseconds of a list that repeats each `cycle_time_ns`.

    The standard's type has 64 bits of seconds, a time of the kernel 63 of nanoseconds, and it adds
    a cycle. Raises `Refused`; here, not among the problems of a port: those are looked for only
    where something is to change, and a base time whole cycles away changes nothing until the next
    boot.
    """
    nanoseconds: int = ptp_time.get("nanoseconds", 0)
    if nanoseconds >= NS_PER_S:
        raise Refused(f"admin-base-time/nanoseconds is {nanoseconds}: a second has {NS_PER_S}")
    # RFC 7951 writes 64-bit integers as strings.
    time_ns = int(ptp_time.get("seconds", 0)) * NS_PER_S + nanoseconds
    if not 0 <= time_ns <= INT64_MAX - cycle_time_ns:
        raise Refused(f"base time {time_ns} ns is not within 0..{INT64_MAX - cycle_time_ns}")
    return time_ns
