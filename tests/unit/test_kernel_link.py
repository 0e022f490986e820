"""What is made of the kernel's messages about interfaces."""

from __future__ import annotations

import pytest
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from agent.kernel import link
from agent.model import LinuxBridge


def message(index: int, name: str, **attributes: object) -> ifinfmsg:
    """An interface, as it comes from the kernel."""
    sent = ifinfmsg()
    sent["index"] = index
    sent["attrs"] = [("IFLA_IFNAME", name), *attributes.items()]
    sent.encode()
    received = ifinfmsg(sent.data)
    received.decode()
    return received


class Dump:
    """Answers as IPRoute does."""

    def __init__(self, *messages: ifinfmsg) -> None:
        self._messages = messages

    def get_links(self) -> tuple[ifinfmsg, ...]:
        return self._messages


@pytest.mark.parametrize(("kind", "bridge"), [("bridge", "m0"), ("bond", None), ("vrf", None)])
def test_only_a_master_that_is_a_bridge_forwards_the_frames_of_a_port(kind, bridge):
    member = {
        "IFLA_MASTER": 9,
        "IFLA_LINKINFO": {"attrs": [("IFLA_INFO_SLAVE_KIND", kind)]},
    }
    dump = Dump(message(2, "p1", **member), message(3, "p2"), message(9, "m0"))
    assert [found.bridge for found in link.read(dump)] == [bridge, None, None]


def test_a_port_of_a_switch_whose_hardware_forwards_has_the_number_of_that_switch():
    dump = Dump(message(2, "p1", IFLA_PHYS_SWITCH_ID="\0\1\2\3"), message(3, "p2"))
    assert [found.switch_id for found in link.read(dump)] == ["00:01:02:03", None]


def test_the_interface_that_measures_wake_ups_is_no_port():
    dump = Dump(message(1, "lo"), message(2, "p1"), message(3, link.WAKE_UP_PROBE))
    assert [found.name for found in link.read(dump)] == ["p1"]


def test_a_bridge_is_described_by_its_options_and_the_numbers_of_its_ports():
    options = [("IFLA_BR_VLAN_FILTERING", 1), ("IFLA_BR_MCAST_SNOOPING", 0)]
    data = {"attrs": [("IFLA_INFO_KIND", "bridge"), ("IFLA_INFO_DATA", {"attrs": options})]}
    slave = {"attrs": [("IFLA_BRPORT_NO", 2), ("IFLA_BRPORT_STATE", 4)]}
    member = {
        "attrs": [("IFLA_INFO_SLAVE_KIND", "bridge"), ("IFLA_INFO_SLAVE_DATA", slave)],
    }
    dump = Dump(
        message(2, "p1", IFLA_MASTER=9, IFLA_LINKINFO=member), message(9, "br0", IFLA_LINKINFO=data)
    )
    port, bridge = link.read(dump)
    assert port.as_bridge is None
    assert bridge.as_bridge == LinuxBridge(
        vlan_filtering=True,
        multicast_snooping=False,
        ports={"p1": 2},
        port_states={"p1": "blocking"},
    )
