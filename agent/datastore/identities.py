"""What a port's configuration depends on beside the configured tree. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from agent.model import PortState

# The interface index with how often the port has left a bridge, the bridge that forwards its
# frames, and the same indexes of the ports that it has if it is a bridge itself.
Index = tuple[int, int]
Identity = tuple[Index, str | None, frozenset[Index]]


def identities(states: Mapping[str, PortState]) -> dict[str, Identity]:
    """The identity of each port: when it changes, the port has lost what was set, or lacks it."""
    indexes = {name: (state.ifindex, state.bridge_departures) for name, state in states.items()}
    return {
        name: (
            indexes[name],
            state.bridge,
            frozenset(indexes[each] for each in ports if each in indexes),
        )
        for name, state in states.items()
        for ports in [state.as_bridge.ports if state.as_bridge else ()]
    }
