"""Stream identification: what is asked for, compared, refused and reported."""

from __future__ import annotations

import errno
from contextlib import closing
from dataclasses import replace
from ipaddress import IPv4Address

import pytest
from pyroute2.netlink.exceptions import NetlinkError

from agent.composition import Stage
from agent.datastore.desired import desired_ports
from agent.kernel.cls_flower import ANY_PROTOCOL
from agent.kernel.netlink_batch import NetlinkSocket, Refusal
from agent.mechanism import ReportContext
from agent.mechanisms.identification import IDENTIFICATION as MECHANISM
from agent.mechanisms.identification.filters import (
    IPV4,
    IPV6,
    incoming_filter,
    incoming_stream,
    ingress_stream,
    named_filter,
    outgoing_filter,
    outgoing_stream,
    protocol_of,
)
from agent.mechanisms.identification.kernel import IdentificationAdapter
from agent.mechanisms.identification.model import (
    IdentificationConfig,
    IdentificationState,
    IdentificationTable,
    Incoming,
    Match,
    Named,
    Outgoing,
)
from agent.mechanisms.identification.rules import StreamFilters
from agent.model import AgentError, PortConfig
from tests.stack.recording_kernel import port
from tests.stack.stream_identities import (
    STREAM_IDENTITY,
    TO_LISTENER,
    TO_STREAM,
    UDP,
    identified,
    named,
    restored,
    rewritten,
    stream_identities,
)

TO_UDP = Match(ip_destination="10.0.1.77", protocol="udp", destination_port=5000)
INCOMING = Incoming(7, 1, 2, TO_UDP, TO_STREAM, 10, 1)
OUTGOING = Outgoing(7, 3, TO_STREAM, 10, TO_LISTENER)
NAMED = Named(7, 1, TO_STREAM, 10, is_out_facing=True)
TALKER = replace(port("p1"), bridge="br0")
LISTENER = replace(port("p2"), bridge="br0")
ZEROS = str(IPv4Address(0))
GROUP = "91-E0-F0-00-FE-01"


def configured(*entries, of="p1"):
    return desired_ports(stream_identities(*entries), {})[of][IdentificationConfig].table


def refusal(*entries):
    with pytest.raises(AgentError) as refused:
        desired_ports(stream_identities(*entries), {})
    return str(refused.value)


def asked(*streams):
    incoming = frozenset(each for each in streams if isinstance(each, Incoming))
    outgoing = frozenset(each for each in streams if isinstance(each, Outgoing))
    tagged = frozenset(each for each in streams if isinstance(each, Named))
    table = IdentificationTable(incoming, outgoing, tagged)
    return PortConfig("p1", (IdentificationConfig(table),))


def problems(*streams, state=TALKER):
    return list(MECHANISM.problems(asked(*streams), state))


def test_each_port_is_asked_for_its_part_of_a_stream():
    entries = identified(), rewritten(), restored()
    assert configured(*entries) == IdentificationTable(frozenset({INCOMING}))
    assert configured(*entries, of="p2") == IdentificationTable(outgoing=frozenset({OUTGOING}))


def test_a_stream_that_enters_and_leaves_one_bridge_needs_one_active_entry():
    both = restored(index=2, priority=1)
    both["in-facing"]["output-port"] = ["p1"]
    assert configured(identified(), both).incoming == {INCOMING}
    assert configured(identified(), both, of="p2").outgoing == {replace(OUTGOING, index=2)}


@pytest.mark.parametrize(
    ("entry", "match"),
    [
        (
            identified(kind="null", **{"destination-mac": "02-aa-00-00-00-01"}),
            Match(destination_mac="02-AA-00-00-00-01"),
        ),
        (
            identified(kind="smac-vlan", **{"source-mac": "02-AA-00-00-00-01", "vlan": 0}),
            Match(source_mac="02-AA-00-00-00-01"),
        ),
        (
            identified(**UDP, **{"ip-source": ZEROS, "source-port": 0, "dscp": 46}),
            TO_UDP._replace(dscp=46),
        ),
        (
            identified(**{"ip-destination": "FD00:0::1", "ip-source": "fd00::2"}),
            Match(ip_source="fd00::2", ip_destination="fd00::1"),
        ),
        (
            identified(**{"ip-destination": "10.0.1.77", "next-protocol": "none"}),
            Match(ip_destination="10.0.1.77"),
        ),
    ],
)
def test_a_stream_is_known_by_what_is_given_and_zero_stands_for_any(entry, match):
    (stream,) = configured(entry, rewritten()).incoming
    assert stream.match == match


def test_tagged_frames_are_named_where_they_come_in_on_either_side_of_the_port():
    assert configured(named()).named == {NAMED}
    inner = configured(named(facing="in-facing"))
    assert inner.named == {replace(NAMED, is_out_facing=False)}
    assert not inner.incoming
    assert not inner.outgoing


OUT_FACING = {"out-facing": {"input-port": ["p1"]}}
IN_FACING = {"in-facing": {"input-port": ["p1"]}}


def without(entry, leaf):
    kind = next(name for name in entry if name.endswith("-identification"))
    return entry | {kind: {k: v for k, v in entry[kind].items() if k != leaf}}


@pytest.mark.parametrize(
    ("entries", "index", "why"),
    [
        (
            [identified()],
            1,
            (
                "frames of stream 7 are identified, but no "
                "entry with p1 among its in-facing output-ports says what they get; add one of "
                "dmac-vlan-stream-identification with the same handle"
            ),
        ),
        (
            [rewritten()],
            2,
            (
                "no entry with p1 among its out-facing "
                "input-ports identifies the frames of stream 7; add one with the same handle"
            ),
        ),
        (
            [identified(), rewritten(), rewritten(index=5)],
            5,
            (
                "entry 2 of stream-identity says already what "
                "frames of stream 7 get at p1 (IEEE Std 802.1CB-2017, 9.1.1.2); remove one"
            ),
        ),
        (
            [identified() | IN_FACING],
            1,
            (
                "p1 is in-facing, where "
                "ip-stream-identification has no effect; name it as out-facing input-port"
            ),
        ),
        (
            [restored() | OUT_FACING],
            3,
            (
                "p1 is out-facing, where "
                "dmac-vlan-stream-identification has no effect; name it as in-facing input-port or "
                "output-port"
            ),
        ),
        (
            [restored(port="p1", priority=1)],
            3,
            "the priority of down has no effect without an in-facing output-port",
        ),
        (
            [identified(), restored() | {"in-facing": {"output-port": ["p1"]}}],
            3,
            "up has no effect without an in-facing input-port",
        ),
        (
            [{"index": 4, "handle": 7, **OUT_FACING}],
            4,
            "what identifies its frames is not given",
        ),
        (
            [without(identified(), "tagged"), rewritten()],
            1,
            "ip-stream-identification has no tagged",
        ),
        (
            [identified(dscp=46), rewritten()],
            1,
            "ip-stream-identification has no ip-destination",
        ),
        (
            [identified(kind="null", vlan=0), rewritten()],
            1,
            "null-stream-identification has no destination-mac",
        ),
        (
            [identified(**{"ip-destination": ZEROS}), rewritten()],
            1,
            "ip-destination 0.0.0.0 is the address of no station",
        ),
        (
            [identified(**{"ip-destination": "fe80::1%eth0"}), rewritten()],
            1,
            "fe80::1%eth0: no packet carries a zone; leave it out",
        ),
        (
            [identified(**UDP, **{"ip-source": "fd00::1"}), rewritten()],
            1,
            "ip-source fd00::1 and ip-destination 10.0.1.77 are of two versions of IP",
        ),
        (
            [identified(**{"ip-destination": "10.0.1.77", "source-port": 9}), rewritten()],
            1,
            "ports have no effect without a next-protocol; add udp, tcp or sctp",
        ),
        (
            [identified(), rewritten(**{"destination-mac": GROUP})],
            2,
            (
                f"{GROUP} is a group address, and the bridge "
                "forwards IP packets to a group by their IP address, whatever the MAC address; "
                "choose an individual one"
            ),
        ),
        ([without(named(), "vlan")], 1, "null-stream-identification has no vlan"),
        (
            [named() | IN_FACING],
            1,
            "p1 is both in-facing and out-facing, and would count each frame twice; name it once",
        ),
        (
            [named() | {"in-facing": {"output-port": ["p1"]}}],
            1,
            (
                "p1 is an in-facing output-port, where "
                "null-stream-identification has no effect; name it as input-port"
            ),
        ),
    ],
)
def test_what_has_no_effect_or_no_meaning_is_refused_with_its_entry(entries, index, why):
    assert refusal(*entries) == f"port p1: entry {index} of stream-identity: {why}"


@pytest.mark.parametrize("leaf", ["destination-mac", "tagged", "vlan", "priority"])
def test_what_frames_get_is_given_completely(leaf):
    entry = rewritten()
    del entry["dmac-vlan-stream-identification"]["down"][leaf]
    assert refusal(identified(), entry) == (
        f"port p1: entry 2 of stream-identity: dmac-vlan-stream-identification has no down/{leaf}"
    )


@pytest.mark.parametrize("path", ["down/destination-mac", "down/vlan", "up/destination-mac"])
def test_what_the_listener_gets_is_given_completely(path):
    entry = restored()
    side, _, leaf = path.partition("/")
    del entry["dmac-vlan-stream-identification"][side][leaf]
    assert refusal(entry) == (
        f"port p2: entry 3 of stream-identity: dmac-vlan-stream-identification has no {path}"
    )


def test_a_group_address_is_taken_for_frames_that_are_no_ip():
    by_source = identified(kind="smac-vlan", **{"source-mac": "02-AA-00-00-00-01"})
    (stream,) = configured(by_source, rewritten(**{"destination-mac": GROUP})).incoming
    assert problems(stream) == []


@pytest.mark.parametrize(
    ("stream", "why"),
    [
        (replace(INCOMING, vlan_id=0), "VLAN 0 is none that a tag can name; choose one of 1 to"),
        (replace(OUTGOING, vlan_id=4095), "VLAN 4095 is none that a tag can name"),
        (replace(INCOMING, mac="01-80-C2-00-00-0E"), "01-80-C2-00-00-0E is reserved"),
        (replace(INCOMING, mac="01-1B-19-00-00-00"), "01-1B-19-00-00-00 is the group of PTP"),
        (replace(OUTGOING, restored_mac="FF-FF-FF-FF-FF-FF"), "is the address of no station"),
        (
            replace(INCOMING, match=Match(source_mac=GROUP)),
            f"{GROUP} is a group address, which no frame comes from",
        ),
    ],
)
def test_an_address_or_a_vlan_that_no_stream_can_have_is_refused(stream, why):
    (problem,) = problems(stream)
    assert problem.startswith(f"stream 7 (entry {stream.index} of stream-identity): ")
    assert why in problem


def test_a_port_that_is_in_no_bridge_is_refused():
    (problem,) = problems(INCOMING, state=port("p1"))
    assert problem.startswith("it is no port of a bridge, and streams are identified where")
    assert problems(state=port("p1")) == []


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        (TO_UDP, TO_UDP, True),
        (TO_UDP, TO_UDP._replace(destination_port=5001), False),
        (TO_UDP, TO_UDP._replace(destination_port=None), True),
        (TO_UDP, TO_UDP._replace(destination_port=None, protocol="tcp"), False),
        (TO_UDP, TO_UDP._replace(source_port=9), True),
        (TO_UDP, Match(ip_destination="fd00::1"), False),
        (TO_UDP, Match(ip_destination="10.0.1.78", dscp=46), False),
        (TO_UDP, Match(source_mac="02-AA-00-00-00-01"), True),
        (Match(destination_mac=TO_LISTENER), Match(source_mac="02-AA-00-00-00-01"), True),
        (Match(destination_mac=TO_LISTENER), TO_UDP._replace(destination_mac=TO_LISTENER), True),
        (Match(destination_mac=TO_STREAM), TO_UDP._replace(destination_mac=TO_LISTENER), False),
    ],
)
def test_streams_of_which_one_frame_could_be_are_refused(one, other, overlap):
    streams = (
        replace(INCOMING, match=one),
        replace(INCOMING, handle=8, index=4, match=other),
    )
    found = problems(*streams)
    assert len(found) == overlap
    if overlap:
        assert found[0].startswith("entries 1 and 4 of stream-identity: a frame could be of stream")


def test_two_streams_cannot_have_one_address_where_they_leave():
    (problem,) = problems(OUTGOING, replace(OUTGOING, handle=8, index=5), state=LISTENER)
    assert problem == (
        f"entries 3 and 5 of stream-identity: frames to {TO_STREAM} in VLAN 10 cannot be of two "
        "streams; remove one"
    )


@pytest.mark.parametrize(
    ("kernel", "difference"),
    [
        ((INCOMING, OUTGOING), None),
        (
            (),
            (
                f"frames of stream 7 ({TO_UDP}) do not get {TO_STREAM}, VLAN 10 and priority 1, "
                f"frames of stream 7 ({TO_STREAM} in VLAN 10) do not get {TO_LISTENER} and no tag"
            ),
        ),
        (
            (replace(INCOMING, pcp=3), OUTGOING),
            f"frames of stream 7 ({TO_UDP}) do not get {TO_STREAM}, VLAN 10 and priority 1",
        ),
        (
            (INCOMING, OUTGOING, replace(OUTGOING, handle=8, index=9, vlan_id=11)),
            (
                f"frames of stream 8 ({TO_STREAM} in VLAN 11) get {TO_LISTENER} and no tag, which "
                "is not configured"
            ),
        ),
        ((replace(INCOMING, index=9), OUTGOING), "entries have other numbers"),
    ],
)
def test_what_differs_is_named(kernel, difference):
    table = asked(*kernel)[IdentificationConfig].table
    state = TALKER.with_part(IdentificationState(table))
    changes = list(MECHANISM.diff(asked(INCOMING, OUTGOING), state))
    assert [change.difference for change in changes] == ([difference] if difference else [])


def test_frames_get_an_address_after_it_leads_somewhere_and_lose_it_before():
    assert Stage.FORWARD < StreamFilters.set_in < Stage.CLOSE_GATES
    assert StreamFilters.removed_in < Stage.FORWARD


@pytest.mark.parametrize(
    ("match", "protocol"),
    [
        (TO_UDP._replace(ip_source="10.0.1.2", dscp=46, source_port=9), IPV4),
        (Match(ip_destination="fd00::1", protocol="sctp", source_port=9), IPV6),
        (Match(ip_destination="10.0.1.77", protocol="tcp", destination_mac=TO_LISTENER), IPV4),
        (Match(destination_mac=TO_LISTENER), ANY_PROTOCOL),
        (Match(source_mac=TO_LISTENER), ANY_PROTOCOL),
    ],
)
def test_a_filter_tells_its_stream(match, protocol):
    stream = replace(INCOMING, handle=2**32 - 1, index=0, match=match)
    assert protocol_of(match) == protocol
    assert incoming_stream(incoming_filter(stream)) == stream
    assert outgoing_stream(outgoing_filter(OUTGOING)) == OUTGOING


def test_a_filter_that_does_something_else_is_of_no_stream():
    made = incoming_filter(INCOMING)
    assert incoming_stream(made._replace(cookie=b"")) is None
    assert incoming_stream(made._replace(actions=made.actions[:2])) is None
    priority, *_others = made.actions[::-1]
    other_priority = replace(priority, priority=5)
    assert incoming_stream(made._replace(actions=(*made.actions[:2], other_priority))) is None
    assert incoming_stream(outgoing_filter(OUTGOING)) is None
    assert outgoing_stream(made) is None


def in_memory(state, *streams):
    (change,) = MECHANISM.diff(asked(*streams), state)
    return MECHANISM.memory.applied(state, [each.content for each in change.after], lambda _c: 0)


def test_tagged_frames_cannot_have_two_names():
    assert problems(NAMED, replace(NAMED, handle=8, index=2)) == [
        (
            f"entries 1 and 2 of stream-identity: frames to {TO_STREAM} in VLAN 10 cannot be of "
            "two streams; remove one"
        )
    ]
    assert problems(NAMED, replace(NAMED, handle=8, index=2, vlan_id=11)) == []
    assert problems(replace(NAMED, vlan_id=4095)) == [
        (
            "stream 7 (entry 1 of stream-identity): VLAN 4095 is none that a tag can name; choose "
            "one of 1 to 4094"
        )
    ]


@pytest.mark.parametrize("is_out_facing", [True, False])
def test_a_filter_that_counts_tells_the_name_of_its_frames(is_out_facing):
    stream = replace(NAMED, is_out_facing=is_out_facing)
    assert ingress_stream(named_filter(stream)) == stream
    assert ingress_stream(incoming_filter(INCOMING)) == INCOMING
    other_address = named_filter(replace(stream, vlan_id=11)).keys
    assert ingress_stream(named_filter(stream)._replace(keys=other_address, cookie=b"")) is None


def test_translated_frames_go_on_to_the_filters_of_streams_but_not_in_hardware():
    in_software = incoming_filter(INCOMING)
    in_hardware = incoming_filter(INCOMING, in_switch=True)
    assert [each.actions[-1].chain for each in (in_software, in_hardware)] == [1, None]
    assert incoming_stream(in_hardware) is None
    assert incoming_stream(in_hardware, in_switch=True) == INCOMING


def test_frames_with_a_name_are_counted_on_the_side_of_their_entry_and_reported():
    inner = replace(NAMED, handle=8, index=2, vlan_id=11, is_out_facing=False)
    state = in_memory(TALKER, NAMED, inner)
    entries = named(), named(index=2, handle=8, facing="in-facing", vlan=11)
    reported = MECHANISM.operational_of_switch([state])
    for each in reported[STREAM_IDENTITY]:
        assert each["null-stream-identification"].pop("identification-type")
    assert reported == stream_identities(*entries)
    part = IdentificationState(state[IdentificationState].table, {NAMED: 3, inner: 4})
    shown = MECHANISM.operational(state.with_part(part), ReportContext(lambda _clock: 0))
    counters = shown["statistics"]["ieee802-dot1cb-stream-identification:stream-id"]
    assert counters["per-port-counters"] == {"input-pkts": "7", "output-pkts": "0"}
    rows = counters["per-port-per-stream-counters"]
    assert [(row["direction-out-facing"], row["handle"], row["input-pkts"]) for row in rows] == [
        (False, 8, "4"),
        (True, 7, "3"),
    ]


def test_what_is_reported_is_what_was_configured():
    entries = identified(), rewritten(), restored()
    states = [in_memory(TALKER, INCOMING), in_memory(LISTENER, OUTGOING)]
    reported = MECHANISM.operational_of_switch(states)
    for each in reported[STREAM_IDENTITY]:
        (name,) = (name for name in each if name.endswith("-identification"))
        kind = each[name].pop("identification-type")
        number = name.removesuffix("-stream-identification")
        assert kind == {"type-number": number, "oui-cid": "00-80-C2"}
    assert reported == stream_identities(*entries)
    assert MECHANISM.operational_of_switch([TALKER]) == {}


def test_an_entry_with_two_ports_is_reported_once_with_those_that_have_it():
    one, other = in_memory(LISTENER, OUTGOING), in_memory(replace(LISTENER, name="p3"), OUTGOING)
    listed = MECHANISM.operational_of_switch([other, one])[STREAM_IDENTITY]
    assert [each["in-facing"] for each in listed] == [{"input-port": ["p2", "p3"]}]
    both = replace(OUTGOING, index=2)
    (_passive, active) = MECHANISM.operational_of_switch(
        [in_memory(TALKER, INCOMING), in_memory(LISTENER, both)]
    )[STREAM_IDENTITY]
    assert active["in-facing"] == {"output-port": ["p1"], "input-port": ["p2"]}
    parameters = active["dmac-vlan-stream-identification"]
    assert parameters["down"]["priority"] == 1
    assert parameters["up"]["destination-mac"] == TO_LISTENER


def test_frames_are_counted_by_stream_and_side():
    other = replace(OUTGOING, handle=8, index=5, vlan_id=11)
    state = TALKER.with_part(IdentificationState(frames={INCOMING: 3, OUTGOING: 4, other: 5}))
    context = ReportContext(lambda _clock: 0)
    node = MECHANISM.operational(state, context)["statistics"]
    counters = node["ieee802-dot1cb-stream-identification:stream-id"]
    assert counters["per-port-counters"] == {"input-pkts": "12", "output-pkts": "3"}
    rows = {
        (row["direction-out-facing"], row["handle"]): (row["input-pkts"], row["output-pkts"])
        for row in counters["per-port-per-stream-counters"]
    }
    assert rows == {(True, 7): ("3", "0"), (False, 7): ("4", "3"), (False, 8): ("5", "0")}
    assert MECHANISM.operational(TALKER, context) == {}


@pytest.mark.parametrize("missing", ["pedit", "vlan", "skbedit", "gact"])
def test_a_kernel_without_an_action_is_refused_before_anything_is_made(monkeypatch, missing):
    def refused(_socket, messages):
        number = errno.ENOENT if missing.encode() in messages[0].payload else errno.EINVAL
        return [Refusal(messages[0], NetlinkError(number, "from the kernel"))]

    monkeypatch.setattr(NetlinkSocket, "send", refused)
    with closing(IdentificationAdapter(None)) as adapter:
        (problem,) = adapter.problems(asked(INCOMING))
        assert list(adapter.problems(asked())) == []
    assert problem == (
        f"this kernel has no act_{missing}: from the kernel (ENOENT); load the module or boot a "
        f"kernel with CONFIG_NET_ACT_{missing.upper()}"
    )
