"""BPF maps: keys and values of fixed lengths, read and written by the hundred."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

from agent.kernel.libbpf import check, info, is_missing, libbpf

_ANY = 0  # BPF_ANY
# What a kernel says that has no batches (before Linux 5.6), or none for maps of this kind: ENOTSUPP
# of linux/errno.h, for which Python has no name.
_NO_BATCHES = frozenset({errno.EINVAL, 524})
_BATCH = 256
_POSITION_OCTETS = 4  # a hash map is at the number of a bucket
_INFO = struct.Struct("=IIIIII")  # the beginning of struct bpf_map_info


class Map:
    """One map: keys and values of a fixed length, in octets. Raises OSError where not said else."""

    def __init__(self, descriptor: int) -> None:
        """Takes over the descriptor."""
        self.descriptor = descriptor
        _kind, self.id, self.key_octets, self.value_octets, self.entries_max, _flags = (
            _INFO.unpack_from(info(descriptor))
        )

    def close(self) -> None:
        os.close(self.descriptor)

    def lookup(self, key: bytes) -> bytes | None:
        """The value of this key; None where it has none."""
        value = ctypes.create_string_buffer(self.value_octets)
        outcome = libbpf().bpf_map_lookup_elem(self.descriptor, self._key(key), value)
        return None if is_missing(outcome) else value.raw

    def update(self, key: bytes, value: bytes) -> None:
        """Let the key have this value. In a hash map a program sees the former or the new one."""
        if len(value) != self.value_octets:
            raise ValueError(f"a value of {len(value)} octets, not {self.value_octets}")
        library = libbpf()
        check(library.bpf_map_update_elem(self.descriptor, self._key(key), value, _ANY))

    def delete(self, key: bytes) -> None:
        """The key has no value any more, if it had any."""
        is_missing(libbpf().bpf_map_delete_elem(self.descriptor, self._key(key)))

    def keys(self) -> list[bytes]:
        """All keys of a hash map, if none is deleted meanwhile."""
        return [key for key, _value in self.items()]

    def items(self) -> list[tuple[bytes, bytes]]:
        """All entries of a hash map, if none is deleted meanwhile."""
        try:
            return list(self._batches())
        except OSError as error:
            if error.errno not in _NO_BATCHES:
                raise
        return list(self._one_by_one())

    def _batches(self) -> Iterator[tuple[bytes, bytes]]:
        """By the hundred: a system call for each key and each value takes ten times as long."""
        position: bytes | None = None
        following = ctypes.create_string_buffer(max(self.key_octets, _POSITION_OCTETS))
        room = min(_BATCH, self.entries_max)
        is_last = False
        while not is_last:
            keys = ctypes.create_string_buffer(room * self.key_octets)
            values = ctypes.create_string_buffer(room * self.value_octets)
            count = ctypes.c_uint32(room)
            outcome = libbpf().bpf_map_lookup_batch(
                self.descriptor, position, following, keys, values, ctypes.byref(count), None
            )
            if outcome == -errno.ENOSPC and room < self.entries_max:
                room = min(2 * room, self.entries_max)  # for all entries that share a hash
                continue
            is_last = is_missing(outcome)
            position = following.raw
            yield from zip(
                _parts(keys.raw, self.key_octets, count.value),
                _parts(values.raw, self.value_octets, count.value),
                strict=True,
            )

    def _one_by_one(self) -> Iterator[tuple[bytes, bytes]]:
        following = ctypes.create_string_buffer(self.key_octets)
        key: bytes | None = None
        while not is_missing(libbpf().bpf_map_get_next_key(self.descriptor, key, following)):
            key = following.raw
            if (value := self.lookup(key)) is not None:
                yield key, value

    def _key(self, key: bytes) -> bytes:
        if len(key) != self.key_octets:
            raise ValueError(f"a key of {len(key)} octets, not {self.key_octets}")
        return key


class MapShape(NamedTuple):
    """How long keys and values of a map are, in octets."""

    key_octets: int
    value_octets: int


def _parts(octets: bytes, length: int, count: int) -> Iterator[bytes]:
    return (octets[start : start + length] for start in range(0, count * length, length))
