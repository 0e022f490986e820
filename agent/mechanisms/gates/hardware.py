"""Ports between which hardware forwards frames that software gates never see. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from agent.model import PortState


def peers(state: PortState, states: Mapping[str, PortState]) -> tuple[str, ...]:
    """The ports whose frames the hardware of their switch forwards to this port by itself: the
    other ports of the same switch (IFLA_PHYS_SWITCH_ID) in the same Linux bridge.

    Frames that the kernel itself sends by a port of such a switch pass its qdiscs, be it alone in
    its bridge, or in none: those of local programs, routed ones, and those of other interfaces.
    """
    if state.switch_id is None or state.bridge is None:
        return ()
    return tuple(
        sorted(
            other.name
            for other in states.values()
            if other.switch_id == state.switch_id
            and other.bridge == state.bridge
            and other.name != state.name
        )
    )


def software_gates_refused(state: PortState, peers: tuple[str, ...]) -> str | None:
    """Why software gates would not do what they are asked to; None: they would."""
    if not peers:
        return None
    return (
        f"the hardware of switch {state.switch_id} (driver {state.driver or 'unknown'}) forwards "
        f"frames from {', '.join(peers)} to {state.name}, which pass no gates of mode software; "
        f"use full-offload, if the driver has it, or take {state.name} out of {state.bridge}, so "
        "that the kernel forwards"
    )
