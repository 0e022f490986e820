"""What a port's configuration depends on beside the configured tree. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from agent.model import PortState

# The interface index, the bridge that forwards the frames of the port, and the indexes of the ports
# that it has if it is a bridge itself.
Identity = tuple[int, str | None, frozenset[int]]


def identities(states: Mapping[str, PortState]) -> dict[str, Identity]:
    """The identity of each port: when it changes, the port has lost what was set, or lacks it."""
    indexes = {name: state.ifindex for name, state in states.items()}
    return {
        name: (
            state.ifindex,
            state.bridge,
            frozenset(indexes[each] for each in ports if each in indexes),
        )
        for name, state in states.items()
        for ports in [state.as_bridge.ports if state.as_bridge else ()]
    }
