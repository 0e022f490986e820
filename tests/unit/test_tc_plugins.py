"""The plugins' octets against linux/pkt_cls.h and linux/tc_act, written out by hand."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from pyroute2.netlink.rtnl import tcmsg
from pyroute2.netlink.rtnl.tcmsg import common_act

from agent.kernel import act_pedit, act_skbedit, cls_basic, tc_plugins
from agent.kernel.act_pedit import keys_of

PIPE, CONTINUE = 3, -1


@pytest.fixture(autouse=True, scope="module")
def registered():
    tc_plugins.register()


@pytest.mark.parametrize(
    ("found", "ours"),
    [(tcmsg.plugins, tc_plugins.TC_PLUGINS), (common_act.plugins, tc_plugins.ACTION_PLUGINS)],
)
def test_pyroute2_uses_the_agents_plugins(found, ours):
    assert ours.items() <= found.items()


def test_the_page_for_upstream_names_each_plugin():
    page = Path(tc_plugins.__file__).with_name("README.md").read_text()
    plugins = (*tc_plugins.TC_PLUGINS.values(), *tc_plugins.ACTION_PLUGINS.values())
    files = {f"{each.__name__.rpartition('.')[2]}.py" for each in plugins}
    assert {each for each in files if f"`{each}`" in page} == files


def attribute(number, payload):
    return struct.pack("=HH", 4 + len(payload), number) + payload + b"\0" * (-len(payload) % 4)


def encoded(options_type, action):
    options = options_type()
    options.setvalue(common_act.plugins[action["kind"]].get_parameters(action))
    options.encode()
    return bytes(options.data[4 : options["header"]["length"]])


def test_a_key_edits_a_word_of_the_ethernet_header():
    action = {"kind": "pedit", "keys": [{"offset": 12, "keep": 0xFFFF0FFF, "set": 0xA000}]}
    octets = encoded(act_pedit.options, action)
    selection = struct.pack("=IIiiiBBxx", 0, 0, PIPE, 0, 0, 1, 0)
    key = bytes.fromhex("ffff0fff") + bytes.fromhex("0000a000") + struct.pack("=IIII", 12, 0, 0, 0)
    in_ethernet_header = attribute(1, struct.pack("=H", 1)) + attribute(2, struct.pack("=H", 0))
    assert octets == attribute(4, selection + key) + attribute(5, attribute(6, in_ethernet_header))
    read = act_pedit.options(data=bytearray(struct.pack("=HH", 4 + len(octets), 2) + octets))
    read.decode()
    assert keys_of(read) == action["keys"]


@pytest.mark.parametrize(("control", "action"), [(None, PIPE), ("unspec", CONTINUE)])
def test_what_comes_after_skbedit_can_be_chosen(control, action):
    chosen = {"control": control} if control else {}
    octets = encoded(act_skbedit.options, {"kind": "skbedit", "priority": 6, **chosen})
    parameters = struct.pack("=IIiii", 0, 0, action, 0, 0)
    assert octets == attribute(2, parameters) + attribute(3, struct.pack("=I", 6))


def test_a_filter_matches_one_skb_priority():
    values = {"skb_priority": 3, "action": {"kind": "gact", "action": "ok"}}
    tree = dict(cls_basic.get_parameters(values)["attrs"])["TCA_BASIC_EMATCHES"]
    equal = struct.pack("=HBBHBB", 0x1006, 0, 0, 0x1000, 0, 0)
    meta = attribute(1, equal) + attribute(3, struct.pack("=I", 3))
    match = attribute(1, struct.pack("=HHHH", 0, 4, 0, 0) + meta)
    assert tree == attribute(1, struct.pack("=HH", 1, 0)) + attribute(2, match)
    assert cls_basic.skb_priority_of({"TCA_BASIC_EMATCHES": tree}) == 3
    inverted = tree.replace(struct.pack("=HHHH", 0, 4, 0, 0), struct.pack("=HHHH", 0, 4, 4, 0))
    assert cls_basic.skb_priority_of({"TCA_BASIC_EMATCHES": inverted}) is None
    assert cls_basic.skb_priority_of({}) is None
