"""Checks, before a change, that the frames of a bridge have the tags that numbers stand behind."""

from __future__ import annotations

from collections.abc import Iterator

from cnc.data_tree.tree import BridgeReport
from cnc.mechanisms.frer.model import SequenceFunctions, ports_of
from cnc.model import BridgeForwarding
from cnc.support.wording import named


def preflight(
    _device: str, desired: BridgeForwarding, report: BridgeReport
) -> Iterator[tuple[str, str]]:
    """Whether drivers take tags off frames whose numbers are to be written or read."""
    numbering = {
        port for its in desired[SequenceFunctions].by_stream.values() for port in ports_of(its)
    }
    if hiding := sorted(numbering & report.hides_tags):
        commands = "; ".join(f"ethtool -K {port} rxvlan off" for port in hiding)
        text = (
            f"cannot eliminate duplicate frames: the driver of {named(hiding)} takes their "
            "VLAN tags off (rx-vlan-offload)"
        )
        yield text, f"turn that off on the switch, and at each start of it: {commands}"
