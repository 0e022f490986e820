"""Parts of mechanisms, as hypothesis makes them: one strategy for each of `MECHANISMS`.

All are about the streams `CAMERA` and `VALVE` of VLAN 10, at the ports `PORTS`.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    FilteredStream,
    FixedGate,
    Policing,
    Strangers,
    StreamFilter,
    StreamFilters,
    WindowGate,
)
from cnc.model import NullIdentification, StreamAddress

VLAN_ID = 10
PORTS = ("s2", "s4", "t1")
CAMERA, VALVE = (StreamAddress(f"03:00:00:00:00:{each:02x}", VLAN_ID) for each in (1, 2))
ADDRESSES = (CAMERA, VALVE)
NAMES = {CAMERA: "camera", VALVE: "valve"}

_ports = st.sampled_from(PORTS)
_macs = st.integers(0, 255).map(lambda number: f"02:00:00:00:00:{number:02x}")


def _by_stream(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[StreamAddress, Any]]:
    return st.dictionaries(st.sampled_from(ADDRESSES), values, min_size=1)


_inwards = st.builds(Inward, _ports, st.builds(NullIdentification, _macs), st.integers(0, 7))
_outwards = st.builds(Outward, _ports, _macs)
_translations = (
    st.builds(Translation, _inwards)
    | st.builds(Translation, st.none(), _outwards)
    | st.builds(Translation, _inwards, _outwards)
)

_recoveries = st.builds(
    Recovery,
    st.sets(_ports, min_size=1).map(lambda its: tuple(sorted(its))),
    st.integers(2, 64),
    st.integers(1, 10_000),
    st.none() | st.builds(LatentErrorDetection, st.integers(0, 64), st.integers(2, 8)),
)

# The window begins in its period: which one that is cannot be read back.
_windows = st.sampled_from([125_000, 1_000_000]).flatmap(
    lambda period_ns: st.builds(
        WindowGate,
        st.just(period_ns),
        st.integers(0, period_ns - 1),
        st.integers(1, period_ns),
        st.integers(1, 2**32 - 1),
    )
)
_policings = st.sampled_from([Policing.COUNT, Policing.DROP])
_of_streams = st.lists(
    st.builds(
        StreamFilter,
        st.builds(
            lambda address, port: FilteredStream(address.destination_mac, address.vlan_id, port),
            st.sampled_from(ADDRESSES),
            _ports,
        ),
        st.just(5),
        st.integers(1, 9_000),
        _windows,
        _policings,
    ),
    # A talker has one link, so that its frames come in by one port.
    unique_by=lambda its: its.of.destination_mac,
    min_size=1,
)
_of_strangers = st.lists(
    st.builds(
        StreamFilter,
        st.builds(Strangers, _ports),
        st.integers(0, 7),
        st.just(0),
        st.just(FixedGate.CLOSED),
        _policings,
    ),
    unique_by=lambda its: (its.of, its.priority),
    max_size=2,
)

EXAMPLES: Mapping[type, st.SearchStrategy[Any]] = {
    Translations: st.builds(Translations, _by_stream(_translations)),
    SequenceFunctions: st.builds(
        SequenceFunctions, _by_stream(st.builds(Generation, _ports) | _recoveries)
    ),
    StreamFilters: st.builds(
        lambda streams, strangers: StreamFilters((*streams, *strangers)),
        _of_streams,
        _of_strangers,
    ),
}
