"""Whatever a CUC writes that its YANG allows becomes keys of a stream, or is refused by code."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cnc.errors import InputError
from cnc.intent.beside import Beside
from cnc.service import uni
from cnc.service.uni import Failure, Refused
from cnc.service.web import schema
from tests.unit.uni_bodies import ACTIVE, STREAM_ID, mac, network

NETWORKS = {file: network(file) for file in ("line3.yaml", "bridged5.yaml")}
UINT8, UINT16, UINT32 = (st.integers(0, 2**bits - 1) for bits in (8, 16, 32))
MACS = st.sampled_from([*map(mac, range(1, 8)), "91-E0-F0-00-FE-07", "01-80-C2-00-00-0e"])
NAMES = st.sampled_from(["", "eth0", "other"])
INTERFACES = st.lists(
    st.fixed_dictionaries({"mac-address": MACS, "interface-name": NAMES}),
    min_size=1,
    max_size=3,
    unique_by=lambda its: (its["mac-address"], its["interface-name"]),
)
PORT = st.sampled_from([0, 1, 5004, 65535])


def packet(addresses: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    address = st.sampled_from(addresses)
    return st.fixed_dictionaries(
        {},
        optional={
            "source-ip-address": address,
            "destination-ip-address": address,
            "dscp": st.sampled_from([0, 46, 63, 64, 65]) | UINT8,
            "protocol": st.sampled_from([6, 17, 65535]) | UINT16,
            "source-port": PORT,
            "destination-port": PORT,
        },
    )


FIELDS = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {},
        optional={"destination-mac-address": MACS, "source-mac-address": MACS},
    ).map(lambda its: {"ieee802-mac-addresses": its}),
    st.fixed_dictionaries(
        {},
        optional={
            "priority-code-point": st.integers(0, 7),
            "vlan-id": st.sampled_from([0, 1, 2, 20, 4094, 4095]),
        },
    ).map(lambda its: {"ieee802-vlan-tag": its}),
    packet(["192.0.2.1", "224.0.0.1", "192.0.2.1%eth0", "255.255.255.255"]).map(
        lambda its: {"ipv4-tuple": its}
    ),
    packet(["2001:db8::1", "ff02::1", "::", "fe80::1%eth0"]).map(lambda its: {"ipv6-tuple": its}),
)
OFFSET = st.sampled_from([0, 1, 1_000, 999_999, 1_000_000]) | UINT32
TRAFFIC = st.fixed_dictionaries(
    {},
    optional={
        "interval": st.fixed_dictionaries(
            {},
            optional={
                "numerator": st.sampled_from([0, 1, 2]) | UINT32,
                "denominator": st.sampled_from([0, 3, 1_000, 2_000]) | UINT32,
            },
        ),
        "max-frames-per-interval": st.sampled_from([1, 3]) | UINT16,
        "max-frame-size": st.sampled_from([1, 100, 1500, 9000]) | UINT16,
        "transmission-selection": st.sampled_from([0, 1]) | UINT8,
        "time-aware": st.fixed_dictionaries(
            {},
            optional={
                "earliest-transmit-offset": OFFSET,
                "latest-transmit-offset": OFFSET,
                "jitter": st.sampled_from([0, 1_000]) | UINT32,
            },
        ),
    },
)
REQUIREMENTS = st.fixed_dictionaries(
    {},
    optional={
        "num-seamless-trees": st.sampled_from([1, 2]) | UINT8,
        "max-latency": st.sampled_from([0, 100_000, 900_000]) | UINT32,
    },
)
CAPABILITIES = st.fixed_dictionaries(
    {},
    optional={
        "vlan-tag-capable": st.booleans(),
        "cb-stream-iden-type-list": st.lists(st.sampled_from([ACTIVE, 1]), unique=True),
        "cb-sequence-type-list": st.lists(UINT32, unique=True, max_size=2),
    },
)


def mostly(good: st.SearchStrategy[Any], any_: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Three of four times what leads further."""
    return st.sampled_from([good, good, good, any_]).flatmap(lambda chosen: chosen)


def at(*numbers: int) -> st.SearchStrategy[Any]:
    """The interfaces of one of these stations."""
    interface = st.sampled_from(numbers).map(
        lambda n: {"mac-address": mac(n), "interface-name": ""}
    )
    return interface.map(lambda its: [its])


GOOD_TRAFFIC = st.fixed_dictionaries(
    {
        "interval": st.just({"numerator": 1, "denominator": 1000}),
        "max-frames-per-interval": st.integers(1, 3),
        "max-frame-size": st.integers(1, 1500),
        "time-aware": st.just({}),
    }
)
GOOD_REQUIREMENTS = st.fixed_dictionaries(
    {}, optional={"max-latency": st.integers(0, 2_000_000), "num-seamless-trees": st.just(1)}
)
GOOD_FIELDS = st.sampled_from(
    [
        [{"ipv4-tuple": {"destination-ip-address": "192.0.2.4"}}],
        [{"ipv6-tuple": {"destination-ip-address": "2001:db8::1", "dscp": 46}}],
        [
            {"ieee802-mac-addresses": {"destination-mac-address": "91-E0-F0-00-FE-07"}},
            {"ieee802-vlan-tag": {"vlan-id": 20, "priority-code-point": 5}},
        ],
        [{"ieee802-mac-addresses": {"destination-mac-address": "91-E0-F0-00-FE-07"}}],
    ]
)
END: dict[str, st.SearchStrategy[Any]] = {
    "user-to-network-requirements": mostly(GOOD_REQUIREMENTS, REQUIREMENTS),
    "interface-capabilities": CAPABILITIES,
}
LISTENER = st.fixed_dictionaries(
    {"end-station-interfaces": mostly(at(3, 4, 5), INTERFACES)}, optional=END
)
STREAMS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "stream-id": st.just(STREAM_ID),
        "talker": st.fixed_dictionaries(
            {
                "end-station-interfaces": mostly(at(1, 2), INTERFACES),
                "data-frame-specification": mostly(
                    GOOD_FIELDS, st.lists(FIELDS, min_size=1, max_size=3)
                ).map(lambda found: [{"index": n, **its} for n, its in enumerate(found)]),
                "traffic-specification": mostly(GOOD_TRAFFIC, TRAFFIC),
            },
            optional={
                "stream-rank": st.fixed_dictionaries({"rank": mostly(st.integers(0, 1), UINT8)}),
                **END,
            },
        ),
        "listener": mostly(
            st.lists(LISTENER, min_size=1, max_size=1), st.lists(LISTENER, max_size=3)
        ).map(lambda found: [{"index": n, **its} for n, its in enumerate(found)]),
    }
)


@pytest.mark.parametrize("file", NETWORKS)
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(asked=STREAMS)
def test_what_the_yang_accepts_is_mapped_or_refused(file: str, asked: dict[str, Any]) -> None:
    intent = NETWORKS[file]
    body = schema.stream(asked, "plc")
    try:
        keys = uni.wanted(body, "plc__1", intent)
    except Refused as refused:
        code, words = refused.failure_code, [str(refused), refused.hint]
    else:
        code, words = Failure.NONE, []
    assert code in {*Failure}
    assert (code == Failure.NONE) == (not words)
    assert all(words)
    if code:
        return
    try:
        found = Beside(intent).having(intent, {"plc__1": keys}, "a CUC")
    except InputError:
        return  # what an intent as a whole refuses: an address that another stream has
    stream = found.streams["plc__1"]
    assert stream.period_ns * body["talker"]["traffic-specification"]["interval"][
        "denominator"
    ] == (body["talker"]["traffic-specification"]["interval"]["numerator"] * 10**9)
