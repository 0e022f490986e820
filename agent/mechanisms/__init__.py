"""The mechanisms of this agent, a folder each, and those of others: the entry points of the group
`agent.mechanisms` of installed packages. The order has no meaning for the kernel."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from agent.mechanism import Mechanism
from agent.mechanisms.bridged_classification import BRIDGED_CLASSIFICATION
from agent.mechanisms.cbs import CREDIT_BASED_SHAPER
from agent.mechanisms.classification import CLASSIFICATION
from agent.mechanisms.clock import clock
from agent.mechanisms.forwarding import FORWARDING
from agent.mechanisms.frer import frer
from agent.mechanisms.gates import gates_with
from agent.mechanisms.identification import IDENTIFICATION
from agent.mechanisms.launch_time import LAUNCH_TIME
from agent.mechanisms.multipath import multipath
from agent.mechanisms.preemption import PREEMPTION
from agent.mechanisms.received_priority import RECEIVED_PRIORITY
from agent.mechanisms.sent_priority import SENT_PRIORITY
from agent.mechanisms.stream_filters import stream_filters
from agent.mechanisms.talker_offsets import talker_offsets
from agent.model import STATE_DIR

GROUP = "agent.mechanisms"


def mechanisms(state_dir: Path, *, shared_clock: bool = False) -> tuple[Mechanism, ...]:
    """Those of an agent with this directory for its records, local programs, PTP daemons and BPF
    objects.

    `shared_clock`: all switches of the network have the clock of this machine. Raises ImportError
    where that of another package cannot be had, or has a name that is taken.
    """
    ours = (
        gates_with(state_dir / "transmit-quota.json"),
        CLASSIFICATION,
        RECEIVED_PRIORITY,
        BRIDGED_CLASSIFICATION,
        SENT_PRIORITY,
        FORWARDING,
        IDENTIFICATION,
        stream_filters(state_dir / "bpf"),
        frer(state_dir / "bpf"),
        LAUNCH_TIME,
        CREDIT_BASED_SHAPER,
        PREEMPTION,
        talker_offsets(state_dir / "offsets.json"),
        clock(state_dir / "ptp", shared_clock=shared_clock),
        multipath(state_dir / "multipath.json"),
    )
    return (*ours, *_of_others({each.name for each in ours}))


def _of_others(taken: set[str]) -> Iterator[Mechanism]:
    for entry in entry_points(group=GROUP):
        package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown package"
        whose = f"mechanism {entry.name} of {package} ({entry.value})"
        its = _loaded(entry, whose)
        if its.name in taken:
            raise ImportError(f"{whose}: another mechanism has the name {its.name!r} already")
        taken.add(its.name)
        yield its


def _loaded(entry: EntryPoint, whose: str) -> Mechanism:
    try:
        its = entry.load()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ImportError(f"{whose}: cannot be loaded: {reason}") from error
    if not isinstance(its, Mechanism):
        raise ImportError(f"{whose}: is a {type(its).__name__}, not an agent.mechanism.Mechanism")
    return its


MECHANISMS = mechanisms(STATE_DIR)
