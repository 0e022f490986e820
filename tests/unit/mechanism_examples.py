"""Parts of mechanisms, as hypothesis makes them: one strategy for each of `MECHANISMS`.

All are about given streams, at the ports `PORTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from cnc.mechanisms.frer.model import (
    Generation,
    LatentErrorDetection,
    Recovery,
    SequenceFunctions,
)
from cnc.mechanisms.identification.model import Inward, Outward, Translation, Translations
from cnc.mechanisms.stream_filters.model import (
    CyclicGate,
    FilteredStream,
    FixedGate,
    Policing,
    Strangers,
    StreamFilter,
    StreamFilters,
    WindowGate,
)
from cnc.model import (
    IpIdentification,
    NextProtocol,
    NullIdentification,
    SourceMacIdentification,
    StreamAddress,
)

VLAN_ID, OTHER_VLAN_ID = 10, 99
PORTS = ("s2", "s4", "t1")
CAMERA, VALVE = (StreamAddress(f"03:00:00:00:00:{each:02x}", VLAN_ID) for each in (1, 2))
ADDRESSES = (CAMERA, VALVE)
NAMES = {CAMERA: "camera", VALVE: "valve"}
FOREIGN = StreamAddress("03:00:00:00:00:63", OTHER_VLAN_ID)

Streams = Sequence[StreamAddress]

_ports = st.sampled_from(PORTS)
_macs = st.binary(min_size=6, max_size=6).map(lambda octets: octets.hex(":"))
_ips = st.ip_addresses().map(str)
_tcp_ports = st.none() | st.integers(1, 65535)
_identifications = st.one_of(
    st.builds(SourceMacIdentification, _macs),
    st.builds(NullIdentification, _macs),
    st.builds(IpIdentification, _ips, st.none() | _ips, dscp=st.none() | st.integers(0, 63)),
    st.builds(
        IpIdentification,
        _ips,
        protocol=st.sampled_from([NextProtocol.UDP, NextProtocol.TCP]),
        source_port=_tcp_ports,
        destination_port=_tcp_ports,
    ),
)
_inwards = st.builds(Inward, _ports, _identifications, st.integers(0, 7))
_outwards = st.builds(Outward, _ports, _macs)
_translations = st.one_of(
    st.builds(Translation, _inwards),
    st.builds(Translation, st.none(), _outwards),
    st.builds(Translation, _inwards, _outwards),
)

_functions = st.builds(Generation, _ports) | st.builds(
    Recovery,
    st.sets(_ports, min_size=1).map(lambda its: tuple(sorted(its))),
    st.integers(2, 64),
    st.integers(1, 10_000),
    st.none()
    | st.builds(LatentErrorDetection, *(st.integers(least, 2**31) for least in (0, 2, 1, 2))),
)

# The window begins in its period: which one that is cannot be read back.
_windows = st.sampled_from([1_000, 125_000, 1_000_000, 4_000_000]).flatmap(
    lambda period_ns: st.builds(
        WindowGate,
        st.just(period_ns),
        st.integers(0, period_ns - 1),
        st.integers(1, period_ns),
        st.integers(1, 2**32 - 1),
    )
)
_intervals = st.builds(
    CyclicGate,
    st.sampled_from([1_000, 125_000, 1_000_000]),
    *(st.integers(0, 7) for _ in ("even", "odd")),
)
_policings = st.sampled_from([Policing.COUNT, Policing.DROP])


def _by_stream(
    values: st.SearchStrategy[Any], streams: Streams
) -> st.SearchStrategy[dict[StreamAddress, Any]]:
    return st.dictionaries(st.sampled_from(streams), values, min_size=1)


def _filters(streams: Streams) -> st.SearchStrategy[StreamFilters]:
    of = st.builds(
        lambda address, port: FilteredStream(address.destination_mac, address.vlan_id, port),
        st.sampled_from(streams),
        _ports,
    )
    of_streams = st.lists(
        st.builds(StreamFilter, of, st.just(5), st.integers(1, 9_000), _windows, _policings)
        | st.builds(
            StreamFilter, of, st.just(5), st.just(0), st.just(FixedGate.OPEN), st.just(Policing.OFF)
        ),
        # A talker has one link, so that its frames come in by one port.
        unique_by=lambda its: its.of.destination_mac,
        min_size=1,
    )
    of_none = st.builds(Strangers, _ports)
    of_strangers = st.lists(
        st.builds(
            StreamFilter,
            of_none,
            st.integers(0, 7),
            st.just(0),
            st.just(FixedGate.CLOSED),
            _policings,
        )
        | st.builds(
            StreamFilter, of_none, st.integers(0, 7), st.just(0), _intervals, st.just(Policing.OFF)
        ),
        unique_by=lambda its: (its.of, its.priority),
        max_size=3,
    )
    # In one order, since that of streams, and that of strangers, means nothing.
    return st.builds(
        lambda *its: StreamFilters(tuple(each for of in its for each in sorted(of, key=str))),
        of_streams,
        of_strangers,
    )


EXAMPLES: Mapping[type, Callable[[Streams], st.SearchStrategy[Any]]] = {
    Translations: lambda streams: st.builds(Translations, _by_stream(_translations, streams)),
    SequenceFunctions: lambda streams: st.builds(
        SequenceFunctions, _by_stream(_functions, streams)
    ),
    StreamFilters: _filters,
}
