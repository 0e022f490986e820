"""The priorities of received frames in the tables of a driver, where hardware forwards.

Octets are written out from struct dcbmsg, struct nlattr and struct dcb_app (linux/dcbnl.h) for a
machine that puts the lower octet of a number first.
"""

# ruff: noqa: F811  (fixtures of another file come by import)

from __future__ import annotations

import errno
import socket
import struct
import sys
from contextlib import closing

import pytest
from pyroute2.netlink.exceptions import NetlinkError

from agent.filter_placement import FilterPlacement
from agent.kernel import clsact, dcb
from agent.kernel.dcb import App
from agent.kernel.netlink_batch import Message, NetlinkSocket, attributes
from agent.mechanisms.received_priority.model import PriorityTable, ReceivedPriorityState
from agent.model import AgentError
from tests.unit.drivers import Driver, Tables
from tests.unit.test_filters_in_hardware import (  # noqa: F401
    BRIDGED,
    IN_SWITCH,
    TABLE,
    priorities,
    set_table,
)

PCP, DSCP, ETHERTYPE = 255, 5, 1
BY_CODE_POINT = {(PCP, p, protocol) for p in range(8) for protocol in (p, p + 8)}
DEFAULT_3 = (ETHERTYPE, 3, 0)
OF_OTHERS = {(DSCP, 6, 46), (ETHERTYPE, 7, 0x88F7)}

little_endian = pytest.mark.skipif(sys.byteorder != "little", reason="octets of another order")


@pytest.fixture(autouse=True)
def hooks(monkeypatch):
    """No hook of this machine is touched."""
    monkeypatch.setattr(clsact, "ensure", lambda *_: None)
    monkeypatch.setattr(clsact, "remove_unused", lambda *_: None)


def octets(words: str) -> bytes:
    return bytes.fromhex(words.replace("|", ""))


@little_endian
@pytest.mark.parametrize(
    ("message", "kind", "written"),
    [
        (dcb.get_tables("p1"), 78, "00 15 0000 | 0700 0100 70310000"),
        (
            dcb.set_apps("p1", [App(PCP, 6, 13), App(ETHERTYPE, 3, 0)]),
            79,
            (
                "00 14 0000 | 0700 0100 70310000 | 1800 0d80 | 1400 0380"
                "| 0800 0100 01 03 0000 | 0800 0200 ff 06 0d00"
            ),
        ),
        (
            dcb.delete_apps("p1", [App(PCP, 1, 1)]),
            79,
            "00 1b 0000 | 0700 0100 70310000 | 1000 0d80 | 0c00 0380 | 0800 0200 ff 01 0100",
        ),
        (
            dcb.set_trust("p1", [PCP, DSCP]),
            79,
            (
                "00 14 0000 | 0700 0100 70310000 | 1800 0d80 | 1400 0b80"
                "| 0500 0200 ff 000000 | 0500 0100 05 000000"
            ),
        ),
    ],
)
def test_requests_have_the_octets_of_the_kernels_structures(message, kind, written):
    assert (message.kind, message.payload) == (kind, octets(written))


@little_endian
def test_tables_are_read_from_the_octets_of_an_answer():
    answer = octets(
        "00 15 0000 | 0700 0100 70310000 | 2400 0d80"
        "| 1400 0380 | 0800 0100 05 06 2e00 | 0800 0200 ff 06 0d00"
        "| 0c00 0b80 | 0500 0200 ff 000000"
    )
    found = dcb.parsed([Message(78, answer)])
    assert found == (frozenset({App(DSCP, 6, 46), App(PCP, 6, 13)}), (PCP,))


def test_a_driver_that_cannot_say_what_counts_says_so_by_silence():
    assert dcb.parsed([Message(78, bytes(4))]) == (frozenset(), None)


def test_a_refusal_comes_as_an_octet():
    dcb.raise_refusal([Message(79, octets("00 14 0000 | 0500 0d00 00 000000"))])
    with pytest.raises(NetlinkError) as refusal:
        dcb.raise_refusal([Message(79, octets("00 14 0000 | 0500 0d00 a1 000000"))])
    assert refusal.value.code == errno.EOPNOTSUPP


def test_a_driver_with_tables_gets_no_filters(priorities):
    tables = Tables(OF_OTHERS, [DSCP])
    kernel, of = priorities(Driver(takes=True), tables)
    of.read({"p1": IN_SWITCH})
    set_table(of, IN_SWITCH, TABLE)
    assert tables.apps == OF_OTHERS | BY_CODE_POINT | {DEFAULT_3}
    assert tables.trust == [PCP]
    assert kernel.filters == {}
    state = of.read({"p1": IN_SWITCH})["p1"]
    assert state[ReceivedPriorityState].table == TABLE
    assert state[FilterPlacement].in_hardware is True


def test_a_decoding_table_is_reported_as_it_was_asked_for(priorities):
    table = PriorityTable((0, 0, 2, 3, 4, 1, 6, 7), decoded=(0, 1, 2, 3, 4, 3, 6, 7))
    _kernel, of = priorities(Driver(takes=True), Tables())
    of.read({"p1": IN_SWITCH})
    set_table(of, IN_SWITCH, table)
    assert of.read({"p1": IN_SWITCH})["p1"][ReceivedPriorityState].table == table


def test_another_table_takes_the_place_of_the_first_also_of_priority_0(priorities):
    tables = Tables()
    _kernel, of = priorities(Driver(takes=True), tables)
    of.read({"p1": IN_SWITCH})
    set_table(of, IN_SWITCH, TABLE)
    swapped = PriorityTable((1, 0, 2, 3, 4, 5, 6, 7), default=3)
    set_table(of, IN_SWITCH, swapped, before=TABLE)
    expected = {each for each in BY_CODE_POINT if each[1] > 1} | {DEFAULT_3}
    assert tables.apps == expected | {(PCP, 1, 0), (PCP, 1, 8), (PCP, 0, 1), (PCP, 0, 9)}


def test_what_the_driver_had_before_it_has_again_when_the_configuration_goes(priorities):
    before = {*OF_OTHERS, (PCP, 7, 1), (ETHERTYPE, 5, 0)}
    tables = Tables(before, [DSCP, PCP])
    _kernel, of = priorities(Driver(takes=True), tables)
    of.read({"p1": IN_SWITCH})
    set_table(of, IN_SWITCH, TABLE)
    set_table(of, IN_SWITCH, PriorityTable(), before=TABLE)
    set_table(of, IN_SWITCH, None, before=PriorityTable())
    assert (tables.apps, tables.trust) == (before, [DSCP, PCP])
    assert of.read({"p1": IN_SWITCH})["p1"][ReceivedPriorityState].table is None


def test_what_an_agent_before_a_restart_has_set_goes_with_the_configuration(priorities):
    tables = Tables(OF_OTHERS | BY_CODE_POINT | {DEFAULT_3}, [PCP])
    _kernel, of = priorities(Driver(takes=True), tables)
    of.read({"p1": IN_SWITCH})
    set_table(of, IN_SWITCH, TABLE)
    set_table(of, IN_SWITCH, None, before=TABLE)
    assert (tables.apps, tables.trust) == (OF_OTHERS, [])


def test_tables_of_others_are_no_configuration(priorities):
    _kernel, of = priorities(Driver(takes=True), Tables(BY_CODE_POINT | {DEFAULT_3}, [PCP]))
    assert of.read({"p1": IN_SWITCH})["p1"] == IN_SWITCH


def test_a_table_that_another_program_has_changed_is_missing(priorities):
    tables = Tables()
    _kernel, of = priorities(Driver(takes=True), tables)
    of.read({"p1": IN_SWITCH})
    set_table(of, IN_SWITCH, TABLE)
    tables.trust = [DSCP]
    assert of.read({"p1": IN_SWITCH})["p1"][ReceivedPriorityState].table is None


@pytest.mark.parametrize(
    "tables",
    [
        Tables(OF_OTHERS, [DSCP], refuses=errno.EOPNOTSUPP),
        Tables(OF_OTHERS, [DSCP], forgets=True),
        Tables(OF_OTHERS, None),
    ],
    ids=["refuses", "forgets", "cannot say what counts"],
)
def test_a_driver_without_a_table_by_code_point_gets_filters(priorities, tables):
    before = tables.apps.copy(), tables.trust and list(tables.trust)
    kernel, of = priorities(Driver(takes=True), tables)
    of.read({"p1": IN_SWITCH})
    set_table(of, IN_SWITCH, TABLE)
    assert (tables.apps, tables.trust) == before
    assert len(kernel.filters) == 9
    assert of.read({"p1": IN_SWITCH})["p1"][ReceivedPriorityState].table == TABLE


def test_what_a_driver_refuses_that_has_tables_is_not_tried_with_filters(priorities):
    tables = Tables(OF_OTHERS, [DSCP], refuses=errno.ERANGE)
    kernel, of = priorities(Driver(takes=True), tables)
    of.read({"p1": IN_SWITCH})
    with pytest.raises(AgentError) as refusal:
        set_table(of, IN_SWITCH, TABLE)
    assert str(refusal.value) == (
        "port p1: its driver refused a table of priorities (dcb app): Numerical result out of "
        "range (ERANGE)"
    )
    assert (tables.apps, tables.trust, kernel.filters) == (OF_OTHERS, [DSCP], {})


def test_filters_of_an_agent_that_knew_no_tables_go(priorities):
    kernel, of = priorities(Driver(takes=True))
    of.read({"p1": IN_SWITCH})
    set_table(of, IN_SWITCH, TABLE)
    _other_kernel, of = priorities(Driver(takes=True), Tables())
    of._ipr = kernel
    of.read({"p1": IN_SWITCH})
    set_table(of, IN_SWITCH, TABLE, before=TABLE)
    assert kernel.filters == {}


def test_if_those_filters_do_not_go_the_driver_has_what_it_had(priorities, monkeypatch):
    kernel, of = priorities(Driver(takes=True), tables := Tables(OF_OTHERS, [DSCP]))
    of.read({"p1": IN_SWITCH})
    usual = kernel.tc

    def tc(command, *words, **values):
        if command == "del-filter":
            raise NetlinkError(errno.EPERM, "Operation not permitted")
        return usual(command, *words, **values)

    monkeypatch.setattr(kernel, "tc", tc)
    with pytest.raises(AgentError, match="the kernel refused a filter"):
        set_table(of, IN_SWITCH, TABLE)
    assert (tables.apps, tables.trust) == (OF_OTHERS, [DSCP])


def test_the_kernel_is_asked_and_answers():
    loopback = struct.pack("=BxHiII", 0, 0, 1, 0, 0)  # struct ifinfomsg
    with closing(NetlinkSocket(socket.NETLINK_ROUTE)) as kernel:
        (answer,) = kernel.ask(Message(18, loopback))  # RTM_GETLINK
        with pytest.raises(NetlinkError):
            kernel.ask(Message(18, struct.pack("=BxHiII", 0, 0, 0x7FFFFFFF, 0, 0)))
    assert answer.kind == 16  # RTM_NEWLINK
    assert (3, b"lo\0") in attributes(answer.payload[16:])  # IFLA_IFNAME


def test_where_the_kernel_forwards_the_driver_is_not_asked_for_tables(priorities):
    tables = Tables()
    _kernel, of = priorities(Driver(takes=False), tables)
    of.read({"p1": BRIDGED})
    set_table(of, BRIDGED, TABLE)
    assert tables.apps == set()
