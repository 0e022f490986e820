"""What NETCONF does with the lists by which a bridge forwards, knows and polices streams.

Each row is an entry of the example of a module, and one of its leaves that has another value.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from lxml import etree

from tests.stack.netconf_client import BASE, PREFIXES, ask, errors
from tests.stack.yang_modules import EXAMPLES

NAMESPACES = PREFIXES | {
    "sid": "urn:ieee:std:802.1Q:yang:ieee802-dot1cb-stream-identification",
    "psfp": "urn:ieee:std:802.1Q:yang:ieee802-dot1q-psfp-bridge",
    "frer": "urn:ieee:std:802.1Q:yang:ieee802-dot1cb-frer",
}
COMPONENT = "/bridge:bridges/bridge:bridge/bridge:component"
OPERATION = f"{{{BASE}}}operation"


class Row(NamedTuple):
    """An entry of a list in an example, and its leaf at `leaf` as it is changed from `before`.

    A list of leaves has `after` beside it then. `is_needed`: another entry refers to this one.
    `after` None: the agent takes no other value.
    """

    example: str
    entry: str
    leaf: str
    before: str
    after: str | None
    is_leaf_list: bool = False
    is_needed: bool = False

    @property
    def merged(self) -> list[str]:
        """The values of the leaf once `after` has been merged."""
        return [self.before, self.after] if self.is_leaf_list else [self.after]


ROWS = {
    "filtering entry": Row(
        "ieee802-dot1q-bridge",
        f"{COMPONENT}/bridge:filtering-database/bridge:filtering-entry"
        "[bridge:address='02-00-00-00-00-02']",
        "bridge:port-map/tsn:interface",
        "swp2",
        "swp3",
    ),
    "stream": Row(
        "ieee802-dot1cb-stream-identification",
        "/sid:stream-identity[sid:index='2']",
        "sid:null-stream-identification/sid:vlan",
        "10",
        "20",
    ),
    "stream filter": Row(
        "ieee802-dot1q-psfp-bridge",
        f"{COMPONENT}/psfp:stream-filters/psfp:stream-filter-instance-table"
        "[psfp:stream-filter-instance-id='1']",
        "psfp:max-sdu-size",
        "200",
        "150",
    ),
    "enforcement": Row(
        "ieee802-dot1q-psfp-bridge",
        f"{COMPONENT}/psfp:stream-filters/psfp:stream-filter-instance-table"
        "[psfp:stream-filter-instance-id='1']",
        "tsn:enforcement",
        "drop",
        "count",
    ),
    "stream gate": Row(
        "ieee802-dot1q-psfp-bridge",
        f"{COMPONENT}/psfp:stream-gates/psfp:stream-gate-instance-table"
        "[psfp:stream-gate-instance-id='1']",
        "psfp:admin-base-time/psfp:seconds",
        "1800000000",
        "1800000001",
        is_needed=True,
    ),
    "entry of a gate": Row(
        "ieee802-dot1q-psfp-bridge",
        f"{COMPONENT}/psfp:stream-gates/psfp:stream-gate-instance-table/psfp:admin-control-list"
        "/psfp:gate-control-entry[psfp:index='0']",
        "psfp:interval-octet-max",
        "200",
        "100",
    ),
    "flow meter": Row(
        "ieee802-dot1q-psfp-bridge",
        f"{COMPONENT}/psfp:flow-meters/psfp:flow-meter-instance-table",
        "psfp:committed-burst-size",
        "3044",
        "6088",
        is_needed=True,
    ),
    "generation": Row(
        "ieee802-dot1cb-frer",
        "/frer:frer/frer:sequence-generation[frer:index='0']",
        "frer:stream",
        "7",
        "8",
        is_leaf_list=True,
    ),
    "recovery": Row(
        "ieee802-dot1cb-frer",
        "/frer:frer/frer:sequence-recovery[frer:index='0']",
        "frer:history-length",
        "32",
        "16",
    ),
    "numbers in frames": Row(
        "ieee802-dot1cb-frer",
        "/frer:frer/frer:sequence-identification[frer:port='swp1']",
        "frer:active",
        "true",
        None,
    ),
}

each_row = pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
CHANGING = {name: row for name, row in ROWS.items() if row.after}
each_changing_row = pytest.mark.parametrize("row", CHANGING.values(), ids=CHANGING.keys())


@pytest.fixture
def operator(shared_netconfd, row):
    """A client of a switch whose running configuration is the example."""
    with shared_netconfd.connect() as client:
        edit(client, whole(row))
        done(client, "<commit/>")
        yield client


def whole(row):
    """The configuration of the example."""
    text = (EXAMPLES / f"{row.example}.xml").read_text()
    return etree.fromstring(f'<config xmlns="{BASE}">{text}</config>'.encode())


def one(configuration, path):
    (found,) = configuration.xpath(f"//nc:config{path}", namespaces=NAMESPACES)
    return found


def entry_alone(row, operation=None):
    """A configuration of nothing but the row's entry, and of the keys on its way, and the entry."""
    configuration = whole(row)
    entry = one(configuration, row.entry)
    kept = entry
    while kept.getparent() is not None:
        for other in list(kept.getparent()):
            # What a list is known by stands first.
            if other is not kept and (other.getparent().tag == configuration.tag or len(other)):
                other.getparent().remove(other)
        kept = kept.getparent()
    if operation:
        entry.set(OPERATION, operation)
    return configuration, entry


def done(client, operation):
    reply = ask(client, operation)
    assert [etree.tostring(each).decode() for each in errors(reply)] == []
    return reply


def request(configuration):
    inside = etree.tostring(configuration).decode()
    return f"<edit-config><target><candidate/></target>{inside}</edit-config>"


def edit(client, configuration):
    done(client, request(configuration))


def changed(row):
    """The example with the row's leaf changed, and nothing else."""
    configuration = whole(row)
    leaf = one(configuration, f"{row.entry}/{row.leaf}")
    assert leaf.text == row.before
    leaf.text = row.after
    return configuration


def refused(client, operation):
    (error,) = errors(ask(client, operation))
    return error.findtext(f"{{{BASE}}}error-tag")


def leaves(client, row, datastore="running"):
    """The values of the row's leaf, selected by XPath."""
    declared = " ".join(f'xmlns:{prefix}="{uri}"' for prefix, uri in NAMESPACES.items())
    reply = done(
        client,
        f"<get-config><source><{datastore}/></source>"
        f'<filter {declared} type="xpath" select="{row.entry}/{row.leaf}"/></get-config>',
    )
    return [each.text for each in reply.xpath(f"//{row.leaf}", namespaces=NAMESPACES)]


@each_row
def test_an_entry_is_read_as_it_was_written(operator, row):
    configuration, entry = entry_alone(row)
    wanted = {leaf.tag: leaf.text for leaf in entry.iter() if not len(leaf)}
    inside = "".join(etree.tostring(each).decode() for each in configuration)
    reply = done(
        operator,
        f'<get-config><source><running/></source><filter type="subtree">{inside}</filter>'
        "</get-config>",
    )
    found = {leaf.tag: leaf.text for leaf in reply.iter(*wanted)}
    assert found == wanted


@each_changing_row
def test_a_merged_leaf_changes_alone_and_only_by_a_commit(operator, row):
    edit(operator, changed(row))
    assert leaves(operator, row) == [row.before]
    done(operator, "<discard-changes/>")
    assert leaves(operator, row, "candidate") == [row.before]
    edit(operator, changed(row))
    done(operator, "<commit/>")
    assert leaves(operator, row) == row.merged


@each_row
def test_an_entry_that_is_there_cannot_be_created(operator, row):
    configuration, _ = entry_alone(row, "create")
    assert refused(operator, request(configuration)) == "data-exists"
    assert leaves(operator, row, "candidate") == [row.before]


@each_row
def test_an_entry_is_deleted_once_unless_another_one_refers_to_it(operator, row):
    configuration, entry = entry_alone(row, "delete")
    if row.is_needed:
        assert refused(operator, request(configuration)) == "data-missing"  # RFC 7950 15.5
        assert leaves(operator, row, "candidate") == [row.before]
        return
    edit(operator, configuration)
    assert refused(operator, request(configuration)) == "data-missing"
    entry.set(OPERATION, "remove")
    edit(operator, configuration)
    assert leaves(operator, row, "candidate") == []
    assert leaves(operator, row) == [row.before]


@each_changing_row
def test_a_commit_that_nobody_confirms_is_undone(operator, row):
    edit(operator, changed(row))
    done(operator, "<commit><confirmed/><confirm-timeout>60</confirm-timeout></commit>")
    assert leaves(operator, row) == row.merged
    done(operator, "<cancel-commit/>")
    assert leaves(operator, row) == [row.before]


@each_row
def test_the_next_start_has_what_was_saved(operator, row):
    done(
        operator,
        "<copy-config><target><startup/></target><source><running/></source></copy-config>",
    )
    assert leaves(operator, row, "startup") == [row.before]


@each_row
def test_an_observer_reads_it_and_changes_nothing(operator, shared_netconfd, row):
    with shared_netconfd.connect(username="observer") as observer:
        assert leaves(observer, row) == [row.before]
        assert refused(observer, request(entry_alone(row, "remove")[0])) == "access-denied"
    assert leaves(operator, row, "candidate") == [row.before]
