"""The maps of agent/bpf/stream_filters.bpf.c, octet by octet. Pure.

Who changes a structure there changes it here, and `LAYOUT`, so that an agent does not read the maps
of another version.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from agent.mac_addresses import octets, text
from agent.mechanisms.stream_filters.model import (
    ENTRIES_MAX,
    FilterCounters,
    Frames,
    Gate,
    GateEntry,
    GateList,
    Meter,
    RunningGate,
    Setting,
    StreamFilter,
)

LAYOUT = 4
PORT = struct.Struct("=I")
INSTANCE = struct.Struct("=II")
COUNTERS = struct.Struct("=6Q")
_GATE = struct.Struct("=IIQQ")
FRAMES = struct.Struct("=6sHI")
_ENTRY, _LIST = struct.Struct("=QIBBH"), struct.Struct("=QQII")
_LIST_OCTETS = _LIST.size + ENTRIES_MAX * _ENTRY.size
# filter, gate, meter (instances); max SDU; has meter, only counts, initial setting; handle, has
# handle, matched priority, overhead; rate; burst; change.
_STREAM = struct.Struct("=6IIBBBBIBBHQQQ")
STREAM_OCTETS = _STREAM.size + 2 * _LIST_OCTETS
_NEVER_NS = (1 << 63) - 1
_NO_ENTRY = _ENTRY.pack(_NEVER_NS, 0, 0, 0, 0)
_ANY_PRIORITY, _KEEP_PRIORITY, _ANY_OCTETS = 8, 0xFF, 0xFFFFFFFF
_NOT_IN_OPERATION = 2  # beside closed and open
_NO_MAC = bytes(6)
# The token bucket counts bits times 10^9.
_BURST_UNITS_PER_OCTET = 8 * 1_000_000_000


class Stream(NamedTuple):
    """The value of one entry of a port's map; the lists are those that are `before` and after."""

    filter: StreamFilter
    running: RunningGate


def packed_frames(frames: Frames) -> bytes:
    mac = _NO_MAC if frames.mac is None else octets(frames.mac)
    priority = _ANY_PRIORITY if frames.priority is None else frames.priority
    return FRAMES.pack(mac, frames.vlan_id, priority)


def frames_of(key: bytes) -> Frames:
    mac, vlan_id, priority = FRAMES.unpack(key)
    return Frames(
        None if mac == _NO_MAC else text(mac),
        vlan_id,
        None if priority == _ANY_PRIORITY else priority,
    )


def packed_stream(bridge: int, stream: Stream) -> bytes:
    """`bridge` is the index of the bridge's interface, to which the instances belong."""
    wanted, running = stream
    gate, meter = wanted.gate, wanted.meter
    header = _STREAM.pack(
        *(bridge, wanted.id, bridge, gate.id, bridge, meter.id if meter else 0),
        wanted.max_sdu_octets,
        meter is not None,
        wanted.only_counts,
        _NOT_IN_OPERATION if gate.initial is None else gate.initial.is_open,
        _packed_ipv(gate.first),
        wanted.handle or 0,
        wanted.handle is not None,
        _ANY_PRIORITY if wanted.priority is None else wanted.priority,
        meter.overhead_octets if meter else 0,
        meter.rate_bps if meter else 0,
        meter.burst_octets * _BURST_UNITS_PER_OCTET if meter else 0,
        running.change_ns,
    )
    return header + _packed_list(running.before) + _packed_list(gate.rule)


def stream_of(value: bytes) -> Stream:
    """What `packed_stream` has made the value of."""
    (_bridge, filter_id, _bridge, gate_id, _bridge, meter_id, *rest) = _STREAM.unpack_from(value)
    max_sdu_octets, has_meter, only_counts, state, ipv, *matched, rate_bps, burst, change_ns = rest
    handle, has_handle, priority, overhead = matched
    initial = None if state == _NOT_IN_OPERATION else Setting(bool(state), _ipv_of(ipv))
    before = _list_of(value, _STREAM.size)
    after = _list_of(value, _STREAM.size + _LIST_OCTETS)
    gate = Gate(gate_id, initial, after if isinstance(after, GateList) else None)
    meter = None
    if has_meter:
        meter = Meter(meter_id, rate_bps, burst // _BURST_UNITS_PER_OCTET, overhead)
    return Stream(
        StreamFilter(
            filter_id,
            handle if has_handle else None,
            None if priority == _ANY_PRIORITY else priority,
            max_sdu_octets,
            gate,
            meter,
            only_counts=bool(only_counts),
        ),
        RunningGate(before, change_ns),
    )


def counters_of(value: bytes) -> FilterCounters:
    return FilterCounters(*COUNTERS.unpack(value))


def change_met(value: bytes) -> int:
    """The change that frames have met at a gate, by its time; 0 before the first."""
    _lock, _octets, _begin_ns, change_ns = _GATE.unpack(value)
    return int(change_ns)


def _packed_list(wanted: GateList | Setting) -> bytes:
    if isinstance(wanted, Setting):
        entry = _ENTRY.pack(_NEVER_NS, _ANY_OCTETS, wanted.is_open, _packed_ipv(wanted), 0)
        return _LIST.pack(0, 0, 0, 0) + entry + _NO_ENTRY * (ENTRIES_MAX - 1)
    count = len(wanted.entries)
    header = _LIST.pack(wanted.base_ns, wanted.cycle_ns, count, count - 1)
    entries = b"".join(_packed_entries(wanted))
    return header + entries + _NO_ENTRY * (ENTRIES_MAX - count)


def _packed_entries(wanted: GateList) -> Iterator[bytes]:
    ends_ns = accumulate(each.interval_ns for each in wanted.entries)
    for end_ns, each in zip(ends_ns, wanted.entries, strict=True):
        most = _ANY_OCTETS if each.octets_max is None else each.octets_max
        state = each.setting.is_open, _packed_ipv(each.setting)
        yield _ENTRY.pack(end_ns, most, *state, each.overhead_octets)


def _list_of(value: bytes, at: int) -> GateList | Setting:
    base_ns, cycle_ns, count, _last = _LIST.unpack_from(value, at)
    start = at + _LIST.size
    rows = list(_ENTRY.iter_unpack(value[start : start + max(1, count) * _ENTRY.size]))
    settings = [Setting(bool(is_open), _ipv_of(ipv)) for _, _, is_open, ipv, _ in rows]
    if not count:
        return settings[0]
    entries, begin_ns = [], 0
    for (end_ns, most, *_state, overhead), setting in zip(rows, settings, strict=True):
        octets_max = None if most == _ANY_OCTETS else most
        entries.append(GateEntry(setting, end_ns - begin_ns, octets_max, overhead))
        begin_ns = end_ns
    return GateList(base_ns, cycle_ns, tuple(entries))


def _packed_ipv(setting: Setting) -> int:
    return _KEEP_PRIORITY if setting.ipv is None else setting.ipv


def _ipv_of(ipv: int) -> int | None:
    return None if ipv == _KEEP_PRIORITY else ipv
