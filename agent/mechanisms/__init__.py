"""The mechanisms of this agent, a folder each. The order has no meaning for the kernel."""

from __future__ import annotations

from pathlib import Path

from agent.mechanism import Mechanism
from agent.mechanisms.bridged_classification import BRIDGED_CLASSIFICATION
from agent.mechanisms.classification import CLASSIFICATION
from agent.mechanisms.forwarding import FORWARDING
from agent.mechanisms.gates import GATES
from agent.mechanisms.identification import IDENTIFICATION
from agent.mechanisms.received_priority import RECEIVED_PRIORITY
from agent.mechanisms.sent_priority import SENT_PRIORITY
from agent.mechanisms.stream_filters import stream_filters
from agent.mechanisms.talker_offsets import talker_offsets

STATE_DIR = Path("/run/tsn-agent")


def mechanisms(state_dir: Path) -> tuple[Mechanism, ...]:
    """Those of an agent that has this directory, for local programs and for BPF objects."""
    return (
        GATES,
        CLASSIFICATION,
        RECEIVED_PRIORITY,
        BRIDGED_CLASSIFICATION,
        SENT_PRIORITY,
        FORWARDING,
        IDENTIFICATION,
        stream_filters(state_dir / "bpf"),
        talker_offsets(state_dir / "offsets.json"),
    )


MECHANISMS = mechanisms(STATE_DIR)
