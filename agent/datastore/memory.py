"""What outlives the agent's process, in one small file.

The ports go on without the agent, so what it alone knows of them must not end with it. The file is
for one boot only: after the next one no schedule is left that it could describe.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from agent import whole_file
from agent.boot import boot_id
from agent.mechanisms.gates.history import GateHistory
from agent.mechanisms.gates.model import GateEntry, GateOperation, GateSchedule
from agent.model import Clock, LastChange
from agent.run_context import Link, RunContext

LOG = logging.getLogger(__name__)
T = TypeVar("T")

# What reading a value raises that is not what was written.
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)

MAX_FILE_OCTETS = 16 * 2**20  # far more than the longest lists of a hundred ports take


@dataclass(frozen=True, slots=True)
class Memory:
    """`history` is by port."""

    history: Mapping[str, GateHistory] = field(default_factory=dict)
    last_change: LastChange | None = None
    run_context: RunContext = field(default_factory=RunContext)


class MemoryFile:
    """A file that is there, whole, or not there at all."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Memory:
        """What was kept; nothing where there is no file, or none that can be read."""
        try:
            with self._path.open("rb") as file:
                kept = json.loads(file.read(MAX_FILE_OCTETS))
            return self._decode(kept) if kept["boot-id"] == boot_id() else Memory()
        except FileNotFoundError:
            return Memory()
        # RecursionError: brackets nested a thousand deep.
        except (OSError, RecursionError, *_UNREADABLE) as error:
            LOG.warning("%s is ignored and will be replaced: %r", self._path, error)
            return Memory()

    def _decode(self, kept: Any) -> Memory:
        return Memory(
            self._by_port(kept["ports"], _decode_history),
            kept["last-change"] and _decode_last_change(kept["last-change"]),
            RunContext(
                {
                    Clock(clock): _natural(offset_ns, minimum=-(2**63))
                    for clock, offset_ns in kept["surroundings"]["clock-offsets-ns"].items()
                },
                self._by_port(kept["surroundings"]["links"], _decode_link),
            ),
        )

    def _by_port(self, kept: Any, decode: Callable[[Any], T]) -> dict[str, T]:
        """What was kept of each port; one that cannot be read is named and left out."""
        decoded = {}
        for port, value in kept.items():
            try:
                decoded[port] = decode(value)
            except _UNREADABLE as error:
                LOG.warning("%s: what it has of port %s is ignored: %r", self._path, port, error)
        return decoded

    def write(self, memory: Memory) -> None:
        """Replace the file. What cannot be kept is logged: the ports are right all the same."""
        content = json.dumps(_encode(memory)).encode()
        try:
            self._path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            # A power cut takes the schedules too: there is nothing to wait for the disk for.
            whole_file.replace(self._path, content, durable=False)
        except OSError as error:
            LOG.warning("a restarted agent will not know of this change: %s", error)


def _encode(memory: Memory) -> dict[str, Any]:
    last = memory.last_change
    return {
        "boot-id": boot_id(),
        "surroundings": {
            "clock-offsets-ns": memory.run_context.clock_offsets_ns,
            "links": {
                port: {"carrier-losses": link.carrier_losses, "is-up": link.is_up}
                for port, link in memory.run_context.links.items()
            },
        },
        "last-change": last
        and {"time": last.time.isoformat(), "duration-us": last.duration_us, "ports": last.ports},
        "ports": {
            port: {
                "change-time-ns": past.change_time_ns,
                "change-errors": past.change_errors,
                "schedule": past.schedule and _encode_schedule(past.schedule),
            }
            for port, past in memory.history.items()
        },
    }


def _encode_schedule(schedule: GateSchedule) -> dict[str, Any]:
    return {
        "base-time-ns": schedule.base_time_ns,
        "cycle-time-ns": schedule.cycle_time_ns,
        "entries": [[e.operation, e.gate_states, e.interval_ns] for e in schedule.entries],
    }


def _decode_history(kept: Any) -> GateHistory:
    return GateHistory(
        kept["schedule"] and _decode_schedule(kept["schedule"]),
        _natural(kept["change-time-ns"]),
        _natural(kept["change-errors"]),
    )


def _decode_last_change(kept: Any) -> LastChange:
    return LastChange(
        # Aware of its time zone, whatever was kept.
        datetime.fromisoformat(kept["time"]).astimezone(UTC),
        _natural(kept["duration-us"]),
        _natural(kept["ports"], below=2**32),
    )


def _decode_link(kept: Any) -> Link:
    losses, is_up = kept["carrier-losses"], kept["is-up"]
    if type(is_up) is not bool:
        raise ValueError(f"{is_up!r} is neither true nor false")
    return Link(None if losses is None else _natural(losses), is_up)


def _decode_schedule(kept: Any) -> GateSchedule:
    return GateSchedule(
        _natural(kept["base-time-ns"]),
        # Zero is divided by.
        _natural(kept["cycle-time-ns"], minimum=1),
        tuple(
            GateEntry(_natural(states), _natural(interval_ns), GateOperation(operation))
            for operation, states, interval_ns in kept["entries"]
        ),
    )


def _natural(value: Any, minimum: int = 0, below: int = 2**63) -> int:
    if type(value) is not int or not minimum <= value < below:
        raise ValueError(f"{value!r} is not an integer within {minimum}..{below - 1}")
    return value
