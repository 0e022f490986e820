"""The maps of agent/bpf/frer.bpf.c: what is asked of ports, and what has become of frames.

Layouts are those of agent/bpf/frer.h, which has to change with them; then `LAYOUT` changes, too.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from agent.kernel.bpf import PinnedObject
from agent.mac_addresses import octets, text
from agent.mechanisms.frer.model import (
    MATCH,
    VECTOR,
    Address,
    Counts,
    FrerConfig,
    Generated,
    LatentErrorDetection,
    Recovered,
    Recovery,
)
from agent.model import NS_PER_MS

LAYOUT = 2
_KEY = struct.Struct("=I6sH")  # struct stream_at_port
_GENERATION = struct.Struct("=IIB3x")
_RECOVERY = struct.Struct("=QIBBBB")
_HANDLE = struct.Struct("=I4x")
_DETECTION = struct.Struct("=IIIH2x")  # of paths there are at least two, none where it is not asked
_ENTRY, _NUMBER, _RESETS = struct.Struct("=II"), struct.Struct("=I"), struct.Struct("=Q")
_COUNTS = struct.Struct("=8Q")
_TABLES = {"generations": 0, "recoveries": 1}  # enum table
_STATES = {"generations": "generated", "recoveries": "recovered"}
_ALGORITHMS = {VECTOR: 1, MATCH: 2}  # enum algorithm
_NO_FUNCTION = bytes(_RECOVERY.size)


class StreamAtPort(NamedTuple):
    ifindex: int
    address: Address


class Maps:
    """The maps of an object that is pinned. Raises OSError where the kernel refuses."""

    def __init__(self, pinned: PinnedObject) -> None:
        self._maps = {
            name: pinned.map(name) for name in (*_TABLES, *_STATES.values(), "resets", "counts")
        }

    def close(self) -> None:
        for each in self._maps.values():
            each.close()

    def functions(self) -> dict[int, FrerConfig]:
        """What is asked of each port, by the number of its interface."""
        generated: defaultdict[int, list[Generated]] = defaultdict(list)
        recovered: defaultdict[int, list[Recovered]] = defaultdict(list)
        for key, value in self._items("generations"):
            generated[key.ifindex].append(_generated(key.address, value))
        for key, value in self._items("recoveries"):
            recovered[key.ifindex].append(_recovered(key.address, value))
        return {
            each: FrerConfig(frozenset(generated[each]), frozenset(recovered[each]))
            for each in {*generated, *recovered}
        }

    def counts(self) -> dict[int, dict[Address, Counts]]:
        """What each port has done with the frames of each stream."""
        found: dict[int, dict[Address, Counts]] = {}
        for key, value in self._items("counts"):
            found.setdefault(key.ifindex, {})[key.address] = Counts(*_COUNTS.unpack(value))
        return found

    def replace(self, ifindex: int, functions: FrerConfig) -> None:
        """Let the port have these functions. One that stays is replaced as a whole; sequence
        numbers, histories and counts of those that stay go on."""
        wanted: dict[str, Mapping[bytes, bytes]] = {
            "generations": {
                _key(ifindex, each.address): _GENERATION.pack(each.handle, each.entry, each.reset)
                for each in functions.generated
            },
            "recoveries": {
                _key(ifindex, each.address): _recovered_octets(each) for each in functions.recovered
            },
        }
        self._request_resets(wanted)
        keys = {key for table in wanted.values() for key in table}
        counts = self._maps["counts"]
        for key in keys.difference(self._keys("counts")):
            counts.update(key, bytes(_COUNTS.size))
        for name, table in wanted.items():
            for key, value in table.items():
                self._maps[name].update(key, value)
            self._delete(name, self._keys_of(name, ifindex) - table.keys())
        self._delete("counts", self._keys_of("counts", ifindex) - keys)

    def forget_unused(self, ifindexes: Collection[int]) -> None:
        """Remove what is of ports other than these, and the states of entries that are no more."""
        for name in (*_TABLES, "counts"):
            self._delete(name, [each for each in self._keys(name) if _port(each) not in ifindexes])
        used = {
            (number, entry)
            for name, number in _TABLES.items()
            for _key, value in self._maps[name].items()
            for entry in _entries(name, value)
        }
        for name, number in _TABLES.items():
            states = _STATES[name]
            unused = [
                each for each in self._keys(states) if (number, *_NUMBER.unpack(each)) not in used
            ]
            self._delete(states, unused)
        self._delete(
            "resets", [each for each in self._keys("resets") if _ENTRY.unpack(each) not in used]
        )

    def _request_resets(self, wanted: Mapping[str, Mapping[bytes, bytes]]) -> None:
        """Reset each entry whose leaf becomes true; that it is so at some port, the maps tell."""
        for name, table in wanted.items():
            present = {
                entry
                for _key, value in self._maps[name].items()
                for entry, reset in _entries(name, value).items()
                if reset
            }
            asked = {
                entry
                for value in table.values()
                for entry, reset in _entries(name, value).items()
                if reset
            }
            for entry in asked - present:
                key = _ENTRY.pack(_TABLES[name], entry)
                before = self._maps["resets"].lookup(key)
                count = _RESETS.unpack(before)[0] if before else 0
                self._maps["resets"].update(key, _RESETS.pack(count + 1))

    def _items(self, name: str) -> Iterator[tuple[StreamAtPort, bytes]]:
        for key, value in self._maps[name].items():
            ifindex, mac, vlan_id = _KEY.unpack(key)
            yield StreamAtPort(ifindex, Address(text(mac), vlan_id)), value

    def _keys_of(self, name: str, ifindex: int) -> set[bytes]:
        return {key for key in self._keys(name) if _port(key) == ifindex}

    def _keys(self, name: str) -> list[bytes]:
        return self._maps[name].keys()

    def _delete(self, name: str, keys: Collection[bytes]) -> None:
        for key in keys:
            self._maps[name].delete(key)


def _key(ifindex: int, address: Address) -> bytes:
    return _KEY.pack(ifindex, octets(address.mac), address.vlan_id)


def _port(key: bytes) -> int:
    ifindex, _mac, _vlan_id = _KEY.unpack(key)
    return int(ifindex)


def _generated(address: Address, value: bytes) -> Generated:
    handle, entry, reset = _GENERATION.unpack(value)
    return Generated(handle, address, entry, bool(reset))


def _recovered(address: Address, value: bytes) -> Recovered:
    (handle,) = _HANDLE.unpack_from(value)
    individual, combined = _functions(value)
    return Recovered(handle, address, combined, individual)


def _recovered_octets(stream: Recovered) -> bytes:
    functions = (
        _packed(each) if each else _NO_FUNCTION for each in (stream.individual, stream.combined)
    )
    detection = stream.combined.latent_errors if stream.combined else None
    return b"".join((_HANDLE.pack(stream.handle), *functions, _detection_octets(detection)))


def _packed(function: Recovery) -> bytes:
    return _RECOVERY.pack(
        function.reset_timeout_ms * NS_PER_MS,
        function.entry,
        _ALGORITHMS[function.algorithm],
        function.history_length,
        function.take_no_sequence,
        function.reset,
    )


def _function(value: bytes) -> Recovery | None:
    if value == _NO_FUNCTION:
        return None
    timeout_ns, entry, algorithm, history_length, take_no_sequence, reset = _RECOVERY.unpack(value)
    names = {number: name for name, number in _ALGORITHMS.items()}
    return Recovery(
        entry,
        names[algorithm],
        history_length,
        timeout_ns // NS_PER_MS,
        bool(take_no_sequence),
        bool(reset),
    )


def _functions(value: bytes) -> tuple[Recovery | None, Recovery | None]:
    """The individual recovery function of a stream, and that for all ports."""
    combined_at = _HANDLE.size + _RECOVERY.size
    end = combined_at + _RECOVERY.size
    combined = _function(value[combined_at:end])
    if combined:
        combined = replace(combined, latent_errors=_detection(value[end:]))
    return _function(value[_HANDLE.size : combined_at]), combined


def _detection_octets(detection: LatentErrorDetection | None) -> bytes:
    if detection is None:
        return bytes(_DETECTION.size)
    return _DETECTION.pack(
        detection.difference, detection.period_ms, detection.reset_period_ms, detection.paths
    )


def _detection(value: bytes) -> LatentErrorDetection | None:
    difference, period_ms, reset_period_ms, paths = _DETECTION.unpack(value)
    if not paths:
        return None
    return LatentErrorDetection(difference, period_ms, paths, reset_period_ms)


def _entries(name: str, value: bytes) -> dict[int, bool]:
    """The entries of the table that this function is of, and whether each asks for a reset."""
    if name == "generations":
        _handle, entry, reset = _GENERATION.unpack(value)
        return {entry: bool(reset)}
    return {each.entry: each.reset for each in _functions(value) if each}
