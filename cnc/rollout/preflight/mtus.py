"""Checks, before a change, that the ports on the way of each stream take its longest packets.

The MTU of a Linux port is the longest MAC client data that it sends, and receives for sure: an IP
packet, or what follows the EtherType (a VLAN tag does not count: `is_skb_forwardable` in
include/linux/netdevice.h). A bridge drops what is longer, and says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cnc.finding import Check, Finding, Verdict
from cnc.model import ORDINARY_MTU_OCTETS, PortRef
from cnc.plans.packets import Packets


def examine_mtu(
    ref: PortRef, mtu_octets: int | None, packets: Mapping[PortRef, Packets]
) -> Iterator[Finding]:
    """Nothing of ports that no stream crosses, of those that do not tell, and of those where all is
    as long as Ethernet frames ordinarily are."""
    if mtu_octets is None or ref not in packets:
        return
    octets, stream, best_effort_octets = packets[ref]
    if mtu_octets < octets:
        text = f"its MTU is {mtu_octets} octets, stream {stream} has packets of {octets}"
        hint = f"raise it on {ref.node}: ip link set {ref.port} mtu {octets}; or state a smaller "
        yield Finding(*ref, Check.MTU, Verdict.FAILED, text, f"{hint}payload")
    elif mtu_octets > max(best_effort_octets, ORDINARY_MTU_OCTETS):
        text = (
            f"its MTU is {mtu_octets} octets, and the plan leaves time for packets of "
            f"{best_effort_octets} of best effort"
        )
        hint = "state the longest frame of best effort as its `max-frame`, or lower the MTU"
        yield Finding(*ref, Check.MTU, Verdict.WARNING, text, hint)
    elif octets > ORDINARY_MTU_OCTETS:
        yield Finding(*ref, Check.MTU, Verdict.OK, f"{mtu_octets} octets")
