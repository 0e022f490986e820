"""The mechanisms of this agent, a folder each. The order has no meaning for the kernel."""

from __future__ import annotations

from agent.mechanism import Mechanism
from agent.mechanisms.bridged_classification import BRIDGED_CLASSIFICATION
from agent.mechanisms.classification import CLASSIFICATION
from agent.mechanisms.gates import GATES
from agent.mechanisms.received_priority import RECEIVED_PRIORITY

MECHANISMS: tuple[Mechanism, ...] = (
    GATES,
    CLASSIFICATION,
    RECEIVED_PRIORITY,
    BRIDGED_CLASSIFICATION,
)
