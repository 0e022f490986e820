"""What outlives the agent's process, in one small file.

The ports go on without the agent, so what it alone knows of them must not end with it. The file is
for this boot only: after the next one no schedule is left that it could describe.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent.datastore.history import GateHistory, LastChange
from agent.model import GateEntry, GateOperation, Schedule

LOG = logging.getLogger(__name__)

MAX_FILE_OCTETS = 16 * 2**20  # far more than the longest lists of a hundred ports take


@dataclass(frozen=True, slots=True)
class Memory:
    """`history` is by port."""

    history: Mapping[str, GateHistory] = field(default_factory=dict)
    last_change: LastChange | None = None


class MemoryFile:
    """A file that is there, whole, or not there at all."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Memory:
        """What was kept; nothing where there is no file, or none that can be read."""
        try:
            with self._path.open("rb") as file:
                return _decode(json.loads(file.read(MAX_FILE_OCTETS)))
        except FileNotFoundError:
            return Memory()
        # RecursionError: brackets nested a thousand deep.
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            LOG.warning("%s is ignored and will be replaced: %r", self._path, error)
            return Memory()

    def write(self, memory: Memory) -> None:
        """Replace the file. What cannot be kept is logged: the ports are right all the same."""
        new = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            new.unlink(missing_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(new, flags, 0o600), "w", encoding="utf-8") as file:
                json.dump(_encode(memory), file)
            new.rename(self._path)
        except OSError as error:
            LOG.warning("a restarted agent will not know of this change: %s", error)


def _encode(memory: Memory) -> dict[str, Any]:
    last = memory.last_change
    return {
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


def _encode_schedule(schedule: Schedule) -> dict[str, Any]:
    return {
        "base-time-ns": schedule.base_time_ns,
        "cycle-time-ns": schedule.cycle_time_ns,
        "entries": [[e.operation, e.gate_states, e.interval_ns] for e in schedule.entries],
    }


def _decode(kept: Any) -> Memory:
    last = kept["last-change"]
    return Memory(
        {
            port: GateHistory(
                past["schedule"] and _decode_schedule(past["schedule"]),
                _natural(past["change-time-ns"]),
                _natural(past["change-errors"]),
            )
            for port, past in kept["ports"].items()
        },
        last
        and LastChange(
            # Aware of its time zone, whatever was kept.
            datetime.fromisoformat(last["time"]).astimezone(UTC),
            _natural(last["duration-us"]),
            _natural(last["ports"], below=2**32),
        ),
    )


def _decode_schedule(kept: Any) -> Schedule:
    return Schedule(
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
