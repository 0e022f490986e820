"""Why a port cannot replicate and eliminate frames as it is asked to. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from agent.mac_addresses import problem_of_destination
from agent.mechanisms.frer.model import (
    HISTORY_LENGTHS,
    Address,
    FrerConfig,
    FrerState,
)
from agent.model import PortConfig, PortState

_TAGGED_VLANS = range(1, 4095)  # IEEE Std 802.1Q-2022, table 9-2: 0 and 4095 name no VLAN


def problems(config: PortConfig, state: PortState) -> Iterator[str]:
    """One line each, without the name of the port."""
    functions = config[FrerConfig]
    if not functions:
        return
    if state.switch_id is not None:
        yield (
            "hardware forwards its frames, which do not pass the processor: they cannot be "
            "replicated and eliminated (802.1CB) there; leave it out of /frer"
        )
    elif state.bridge is None:
        yield (
            "it is no port of a bridge, and streams are replicated and eliminated where a bridge "
            "forwards them; add it to one (ip link set ... master)"
        )
    if state.rx_vlan_offload:
        yield (
            "its driver takes VLAN tags off received frames (rx-vlan-offload), and streams are "
            f"known by them; turn that off: ethtool -K {state.name} rxvlan off"
        )
    if foreign := state[FrerState].foreign:
        yield (
            f"it has the XDP program {foreign}, which is not the agent's, and a port has one; "
            f"remove it with its own tool, or by: ip link set dev {state.name} xdp off"
        )
    yield from _stream_problems(functions)
    for recovered in functions.recovered:
        for function in recovered.functions:
            if function.history_length and function.history_length not in HISTORY_LENGTHS:
                yield (
                    f"sequence-recovery {function.entry}: history-length "
                    f"{function.history_length} is beyond {HISTORY_LENGTHS[-1]}, which is all "
                    "that is kept"
                )


def _stream_problems(functions: FrerConfig) -> Iterator[str]:
    seen: dict[Address, int] = {}
    for stream in sorted(functions.streams, key=lambda each: each.handle):
        name, address = f"stream {stream.handle}", stream.address
        if problem := problem_of_destination(address.mac):
            yield f"{name}: {problem}"
        if address.vlan_id not in _TAGGED_VLANS:
            yield f"{name}: VLAN {address.vlan_id} is none that a tag can name"
        if (first := seen.setdefault(address, stream.handle)) != stream.handle:
            yield f"{name}: frames to {address} are of stream {first}; remove one"
