"""The quota of a run as sysctls of the kernel, and what the agent has made of them.

The kernel shows them in its first network namespace alone, and root of a container may find them
read-only: the agent leaves them as they are then.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent import whole_file
from agent.boot import boot_id
from agent.composition import Contribution, KernelObject
from agent.mechanisms.gates.model import TransmitQuotaState

LOG = logging.getLogger(__name__)

SYSCTLS = Path("/proc/sys/net/core")
INT_MAX = 2**31 - 1
MAX_FILE_OCTETS = 4096


@dataclass(frozen=True, slots=True)
class _Record:
    """The bias that the agent found, and the one that it set."""

    found: int
    raised: int


class DevWeight:
    """Needs CAP_NET_ADMIN to set anything. By the file `record` a restarted agent knows what was
    set."""

    def __init__(self, record: Path, sysctls: Path = SYSCTLS) -> None:
        self._record = record
        self._weight = sysctls / "dev_weight"
        self._bias = sysctls / "dev_weight_tx_bias"
        self._ignored = ""

    def read(self) -> TransmitQuotaState | None:
        """None where the kernel does not show it."""
        try:
            weight, bias = _value(self._weight), _value(self._bias)
        except OSError:
            return None
        return TransmitQuotaState(_frames(weight, bias), weight > 0 and self._is_writable())

    @property
    def is_raised(self) -> bool:
        """Whether an agent may have raised it, and not taken that back."""
        return self._record.exists()

    def replace(
        self,
        _target: KernelObject,
        _before: Sequence[Contribution],
        after: Sequence[Contribution],
    ) -> None:
        """Raise it to what is asked for, or take that back where nothing is. Raises OSError."""
        if after:
            self._raise(max(each.content for each in after))
        else:
            self._take_back()

    def _raise(self, frames: int) -> None:
        """Never to less than it is. The record is written first, and removed last: whenever the
        agent is killed, the next one knows what to take back."""
        weight, bias = _value(self._weight), _value(self._bias)
        if _frames(weight, bias) >= frames:
            return
        record = self._read_record()
        # What somebody else has set in the meantime is what they find again.
        found = record.found if record and record.raised == bias else bias
        record = _Record(found, -(-frames // weight))
        self._write_record(record)
        self._bias.write_text(f"{record.raised}\n", encoding="ascii")

    def _take_back(self) -> None:
        """Unless somebody else has set it since."""
        record = self._read_record()
        if record and record.raised == _value(self._bias):
            self._bias.write_text(f"{record.found}\n", encoding="ascii")
        self._record.unlink(missing_ok=True)

    def _is_writable(self) -> bool:
        """By this process: its capabilities count, which access(2) leaves out."""
        try:
            os.close(os.open(self._bias, os.O_WRONLY))
        except OSError:
            return False
        return True

    def _write_record(self, record: _Record) -> None:
        content = {"boot-id": boot_id(), "found": record.found, "set": record.raised}
        self._record.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        # A power cut takes the sysctl, too.
        whole_file.replace(self._record, json.dumps(content).encode(), durable=False)

    def _read_record(self) -> _Record | None:
        """None where there is none of this boot."""
        try:
            with self._record.open("rb") as file:
                kept = json.loads(file.read(MAX_FILE_OCTETS))
            return _decoded(kept) if kept["boot-id"] == boot_id() else None
        except FileNotFoundError:
            return None
        # RecursionError: brackets nested a thousand deep.
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if self._ignored != repr(error):
                LOG.warning("%s is ignored and will be replaced: %r", self._record, error)
            self._ignored = repr(error)
            return None


def _decoded(kept: Any) -> _Record:
    return _Record(_bias(kept["found"]), _bias(kept["set"]))


def _bias(value: Any) -> int:
    if type(value) is not int or abs(value) > INT_MAX:
        raise ValueError(f"{value!r} is no value of the sysctl")
    return value


def _frames(weight: int, bias: int) -> int:
    """The kernel multiplies in an int; with 0 or less a run ends with what it began with."""
    return max(1, ctypes.c_int(weight * bias).value)


def _value(sysctl: Path) -> int:
    return int(sysctl.read_text(encoding="ascii"))
