"""pyroute2 plugin for the taprio queueing discipline (`TCA_TAPRIO_*` of linux/pkt_sched.h).

Registered (`agent.kernel.tc_plugins`) it serves `IPRoute.tc()` and the dump:

    ipr.tc("add", "taprio", index, handle="7a0:", num_tc=2, map=[0, 1, *[0] * 14],
           queues=[(1, 0), (1, 1)], clockid=time.CLOCK_TAI, base_time=0, cycle_time=1_000_000,
           sched_entries=[(0x1, 400_000), (0x3, 600_000)], stab=SizeTable(overhead=24))

Times are nanoseconds, sizes octets. `map` names the traffic class of each of the 16 skb priorities,
`queues` the (count, offset) of each class, `sched_entries` the (gate mask, interval) of each step,
with a CMD_* as the third where the step is more than setting gates. Optional: cycle_time_extension,
flags, txtime_delay, tc_entries (dicts of index, max_sdu, fp).
"""

# mypy: allow-subclassing-any

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pyroute2.netlink import NLA_F_NESTED, nla, nla_base_string
from pyroute2.netlink.rtnl import TC_H_ROOT
from pyroute2.netlink.rtnl.tcmsg import common

from agent.kernel.sched_mqprio import MQPRIO_QOPT, mqprio_qopt

FLAG_TXTIME_ASSIST = 0x1
FLAG_FULL_OFFLOAD = 0x2
CMD_SET_GATES = 0
CMD_SET_AND_HOLD = 1
CMD_SET_AND_RELEASE = 2
FP_EXPRESS = 1  # TC_FP_* of linux/pkt_sched.h, since Linux 6.4
FP_PREEMPTIBLE = 2

TCA_STAB_BASE, TCA_STAB_DATA = 1, 2
_TC_SIZESPEC = struct.Struct("=BBhiIIII")  # struct tc_sizespec
_NLA_HEADER = struct.Struct("=HH")
_U32 = struct.Struct("=I")

# TCA_TAPRIO_SCHED_*
_ENTRY, _ENTRY_CMD, _ENTRY_GATE_MASK, _ENTRY_INTERVAL = 1, 2, 3, 4
_SCHED_ENTRY = struct.Struct("=HH HHB3x HHI HHI")  # what a request says of a step

parent = TC_H_ROOT


class SchedEntry(NamedTuple):
    """One step of a gate control list."""

    gate_mask: int
    interval_ns: int
    command: int = CMD_SET_GATES


class SizeTable(NamedTuple):
    """TCA_STAB: how long the qdiscs of a port take a frame to be (struct tc_sizespec).

    Without `data` that is its length plus `overhead`; else entry length + overhead of `data`, times
    2^`size_log` (__qdisc_calculate_pkt_len). The kernel only keeps `mpu` and `mtu`. `data` is never
    shown again (qdisc_dump_stab), so it is empty in what was read; `size` is the number of entries.
    """

    overhead: int = 0
    size_log: int = 0
    mpu: int = 0
    mtu: int = 0
    size: int = 0
    data: tuple[int, ...] = ()

    def packed(self) -> bytes:
        """The attributes within TCA_STAB."""
        base = _TC_SIZESPEC.pack(
            *(0, self.size_log, 0, self.overhead, 0, self.mpu, self.mtu, self.size)
        )
        packed = _NLA_HEADER.pack(_NLA_HEADER.size + len(base), TCA_STAB_BASE) + base
        if self.data:
            data = struct.pack(f"={len(self.data)}H", *self.data)
            packed += _NLA_HEADER.pack(_NLA_HEADER.size + len(data), TCA_STAB_DATA) + data
        return packed


def size_table(octets: bytes) -> SizeTable | None:
    """What a dump shows of a size table, without its data; None where it is none of this kind."""
    for kind, start, end in _attributes(octets, 0, len(octets)):
        if kind == TCA_STAB_BASE and end - start >= _TC_SIZESPEC.size:
            cell_log, size_log, cell_align, overhead, linklayer, mpu, mtu, size = (
                _TC_SIZESPEC.unpack_from(octets, start)
            )
            if (cell_log, cell_align, linklayer) == (0, 0, 0):
                return SizeTable(overhead, size_log, mpu, mtu, size)
    return None


def fix_request(request: dict[str, Any]) -> None:
    """Encode the size table `stab`, which pyroute2 knows only as opaque octets."""
    stab = request.get("stab")
    if isinstance(stab, SizeTable):
        request["stab"] = stab.packed()


def get_parameters(kwarg: Mapping[str, Any]) -> dict[str, Any]:
    """The `TCA_OPTIONS` of a request; an attribute that is not given is left to the kernel."""
    attrs: list[list[Any]] = []
    if "map" in kwarg:
        attrs.append(["TCA_TAPRIO_ATTR_PRIOMAP", mqprio_qopt(kwarg)])
    if "sched_entries" in kwarg:
        entries = _packed_entries(kwarg["sched_entries"])
        attrs.append(["TCA_TAPRIO_ATTR_SCHED_ENTRY_LIST", entries])
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


def _packed_entries(entries: Iterable[Iterable[int]]) -> bytes:
    """The attributes of a list; pyroute2's own way takes a millisecond for thirty entries."""
    return b"".join(
        _SCHED_ENTRY.pack(
            *(_SCHED_ENTRY.size, _ENTRY | NLA_F_NESTED),
            *(5, _ENTRY_CMD, command),
            *(8, _ENTRY_GATE_MASK, gate_mask),
            *(8, _ENTRY_INTERVAL, interval_ns),
        )
        for gate_mask, interval_ns, command in (SchedEntry(*entry) for entry in entries)
    )


def _unpacked_entries(octets: bytes) -> tuple[SchedEntry, ...]:
    return tuple(
        _unpacked_entry(octets, start, end)
        for kind, start, end in _attributes(octets, 0, len(octets))
        if kind == _ENTRY
    )


def _unpacked_entry(octets: bytes, start: int, end: int) -> SchedEntry:
    command = gate_mask = interval_ns = 0
    for kind, at, _ in _attributes(octets, start, end):
        if kind == _ENTRY_CMD:
            command = octets[at]
        elif kind == _ENTRY_GATE_MASK:
            (gate_mask,) = _U32.unpack_from(octets, at)
        elif kind == _ENTRY_INTERVAL:
            (interval_ns,) = _U32.unpack_from(octets, at)
    return SchedEntry(gate_mask, interval_ns, command)


def _attributes(octets: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Type, start and end of the payload of each attribute (linux/netlink.h)."""
    while start + _NLA_HEADER.size <= end:
        length, kind = _NLA_HEADER.unpack_from(octets, start)
        if length < _NLA_HEADER.size:
            return
        yield kind & ~NLA_F_NESTED, start + _NLA_HEADER.size, start + length
        start += (length + 3) & ~3


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

        fields = MQPRIO_QOPT

    class sched_entry_list(nla_base_string):  # noqa: N801
        """Encoded from octets, decoded to a tuple of SchedEntry."""

        nla_flags = NLA_F_NESTED

        def decode(self) -> None:
            super().decode()
            self.value = _unpacked_entries(self["value"])

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


class stats2(common.stats2):  # noqa: N801
    """TCA_STATS2; what a driver counts for an offloaded schedule (since Linux 6.6) is `stats_app`.

    Of the qdisc it is the port's, of a class the transmit queue's. A count that the driver lacks is
    absent.
    """

    class stats_app(nla):  # noqa: N801
        nla_map = (
            ("TCA_TAPRIO_OFFLOAD_STATS_UNSPEC", "none"),
            ("TCA_TAPRIO_OFFLOAD_STATS_PAD", "none"),
            ("TCA_TAPRIO_OFFLOAD_STATS_WINDOW_DROPS", "uint64"),
            ("TCA_TAPRIO_OFFLOAD_STATS_TX_OVERRUNS", "uint64"),
        )
