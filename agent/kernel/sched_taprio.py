"""pyroute2 plugin for the taprio queueing discipline (`TCA_TAPRIO_*` of linux/pkt_sched.h).

Registered as `pyroute2.netlink.rtnl.tcmsg.plugins["taprio"]` it serves `IPRoute.tc()` and the dump:

    ipr.tc("add", "taprio", index, handle="7a0:", num_tc=2, map=[0, 1, *[0] * 14],
           queues=[(1, 0), (1, 1)], clockid=time.CLOCK_TAI, base_time=0, cycle_time=1_000_000,
           sched_entries=[(0x1, 400_000), (0x3, 600_000)], stab={"overhead": 24})

Times are nanoseconds, sizes octets. `map` names the traffic class of each of the 16 skb priorities,
`queues` the (count, offset) of each class, `sched_entries` the (gate mask, interval) of each step.
Optional: cycle_time_extension, flags, txtime_delay, tc_entries (dicts of index, max_sdu, fp).
"""

# mypy: allow-subclassing-any

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any

from pyroute2.netlink import NLA_F_NESTED, nla
from pyroute2.netlink.rtnl import TC_H_ROOT

FLAG_TXTIME_ASSIST = 0x1
FLAG_FULL_OFFLOAD = 0x2
CMD_SET_GATES = 0

PRIORITIES = 16  # TC_QOPT_BITMASK + 1
MAX_CLASSES = 16  # TC_QOPT_MAX_QUEUE

TCA_STAB_BASE = 1
_TC_SIZESPEC = struct.Struct("=BBhiIIII")  # struct tc_sizespec
_NLA_HEADER = struct.Struct("=HH")

parent = TC_H_ROOT


def fix_request(request: dict[str, Any]) -> None:
    """Encode the size table `stab`, which pyroute2 knows only as opaque octets."""
    stab = request.get("stab")
    if isinstance(stab, Mapping):
        size = _TC_SIZESPEC.pack(0, 0, 0, stab.get("overhead", 0), 0, stab.get("mpu", 0), 0, 0)
        request["stab"] = _NLA_HEADER.pack(_NLA_HEADER.size + len(size), TCA_STAB_BASE) + size


def get_parameters(kwarg: Mapping[str, Any]) -> dict[str, Any]:
    """The `TCA_OPTIONS` of a request; an attribute that is not given is left to the kernel."""
    attrs: list[list[Any]] = []
    if "map" in kwarg:
        attrs.append(["TCA_TAPRIO_ATTR_PRIOMAP", _mqprio_qopt(kwarg)])
    if "sched_entries" in kwarg:
        entries = [
            ["TCA_TAPRIO_SCHED_ENTRY", _sched_entry(mask, interval)]
            for mask, interval in kwarg["sched_entries"]
        ]
        attrs.append(["TCA_TAPRIO_ATTR_SCHED_ENTRY_LIST", {"attrs": entries}])
    for key, attribute in (
        ("base_time", "TCA_TAPRIO_ATTR_SCHED_BASE_TIME"),
        ("cycle_time", "TCA_TAPRIO_ATTR_SCHED_CYCLE_TIME"),
        ("cycle_time_extension", "TCA_TAPRIO_ATTR_SCHED_CYCLE_TIME_EXTENSION"),
        ("clockid", "TCA_TAPRIO_ATTR_SCHED_CLOCKID"),
        ("flags", "TCA_TAPRIO_ATTR_FLAGS"),
        ("txtime_delay", "TCA_TAPRIO_ATTR_TXTIME_DELAY"),
    ):
        if kwarg.get(key) is not None:
            attrs.append([attribute, kwarg[key]])
    attrs += [
        ["TCA_TAPRIO_ATTR_TC_ENTRY", _tc_entry(entry)] for entry in kwarg.get("tc_entries", ())
    ]
    return {"attrs": attrs}


def _mqprio_qopt(kwarg: Mapping[str, Any]) -> dict[str, Any]:
    queues = kwarg["queues"]
    return {
        "num_tc": kwarg.get("num_tc", len(queues)),
        "prio_tc_map": _padded(kwarg["map"], PRIORITIES),
        "hw": 0,
        "count": _padded((count for count, _ in queues), MAX_CLASSES),
        "offset": _padded((offset for _, offset in queues), MAX_CLASSES),
    }


def _padded(values: Iterable[int], length: int) -> list[int]:
    given = list(values)
    return given + [0] * (length - len(given))


def _sched_entry(gate_mask: int, interval_ns: int) -> dict[str, Any]:
    return {
        "attrs": [
            ["TCA_TAPRIO_SCHED_ENTRY_CMD", CMD_SET_GATES],
            ["TCA_TAPRIO_SCHED_ENTRY_GATE_MASK", gate_mask],
            ["TCA_TAPRIO_SCHED_ENTRY_INTERVAL", interval_ns],
        ]
    }


def _tc_entry(entry: Mapping[str, int]) -> dict[str, Any]:
    return {
        "attrs": [
            [f"TCA_TAPRIO_TC_ENTRY_{key.upper()}", entry[key]]
            for key in ("index", "max_sdu", "fp")
            if key in entry
        ]
    }


class options(nla):  # noqa: N801 (the name pyroute2 looks up)
    """The attributes of TCA_OPTIONS; the operational schedule lies directly in it."""

    nla_map = (
        ("TCA_TAPRIO_ATTR_UNSPEC", "none"),
        ("TCA_TAPRIO_ATTR_PRIOMAP", "mqprio_qopt"),
        ("TCA_TAPRIO_ATTR_SCHED_ENTRY_LIST", "sched_entry_list"),
        ("TCA_TAPRIO_ATTR_SCHED_BASE_TIME", "int64"),
        ("TCA_TAPRIO_ATTR_SCHED_SINGLE_ENTRY", "none"),
        ("TCA_TAPRIO_ATTR_SCHED_CLOCKID", "int32"),
        ("TCA_TAPRIO_PAD", "none"),
        ("TCA_TAPRIO_ATTR_ADMIN_SCHED", "admin_sched"),
        ("TCA_TAPRIO_ATTR_SCHED_CYCLE_TIME", "int64"),
        ("TCA_TAPRIO_ATTR_SCHED_CYCLE_TIME_EXTENSION", "int64"),
        ("TCA_TAPRIO_ATTR_FLAGS", "uint32"),
        ("TCA_TAPRIO_ATTR_TXTIME_DELAY", "uint32"),
        ("TCA_TAPRIO_ATTR_TC_ENTRY", "tc_entry"),
    )

    class mqprio_qopt(nla):  # noqa: N801
        """struct tc_mqprio_qopt"""

        fields = (
            ("num_tc", "B"),
            ("prio_tc_map", f"{PRIORITIES}B"),
            ("hw", "B"),
            ("count", f"{MAX_CLASSES}H"),
            ("offset", f"{MAX_CLASSES}H"),
        )

    class sched_entry_list(nla):  # noqa: N801
        nla_flags = NLA_F_NESTED
        nla_map = (
            ("TCA_TAPRIO_SCHED_UNSPEC", "none"),
            ("TCA_TAPRIO_SCHED_ENTRY", "sched_entry"),
        )

        class sched_entry(nla):  # noqa: N801
            nla_flags = NLA_F_NESTED
            nla_map = (
                ("TCA_TAPRIO_SCHED_ENTRY_UNSPEC", "none"),
                ("TCA_TAPRIO_SCHED_ENTRY_INDEX", "uint32"),
                ("TCA_TAPRIO_SCHED_ENTRY_CMD", "uint8"),
                ("TCA_TAPRIO_SCHED_ENTRY_GATE_MASK", "uint32"),
                ("TCA_TAPRIO_SCHED_ENTRY_INTERVAL", "uint32"),
            )

    class tc_entry(nla):  # noqa: N801
        nla_flags = NLA_F_NESTED
        nla_map = (
            ("TCA_TAPRIO_TC_ENTRY_UNSPEC", "none"),
            ("TCA_TAPRIO_TC_ENTRY_INDEX", "uint32"),
            ("TCA_TAPRIO_TC_ENTRY_MAX_SDU", "uint32"),
            ("TCA_TAPRIO_TC_ENTRY_FP", "uint32"),
        )


class admin_sched(options):  # noqa: N801
    """The schedule that waits for its base time (dump only): the same attributes, nested."""


options.admin_sched = admin_sched
