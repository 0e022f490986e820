"""libyang takes and refuses the same streams of the UNI as yangson, by which workers validate."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import libyang
import pytest
from hypothesis import HealthCheck, given, settings

from cnc.service.web import schema
from cnc.service.web.errors import RestconfError
from tests.stack.yang_modules import empty_context
from tests.unit.test_uni_totality import STREAMS
from tests.unit.uni_bodies import body

MODULE = "ieee802-dot1q-cnc-config"


@pytest.fixture(scope="module")
def context() -> Iterator[libyang.Context]:
    with empty_context() as its:
        its.load_module(MODULE)
        its.load_module("tsn-cnc")
        yield its


def accepts(context: libyang.Context, stream: Any) -> bool:
    cuc = {"cuc-id": "plc", "stream": [stream]}
    tree = {f"{MODULE}:cnc-config": {"domain": [{"domain-id": "cell", "cuc": [cuc]}]}}
    try:
        found = context.parse_data_mem(
            json.dumps(tree), "json", strict=True, no_state=True, validate_present=True
        )
    except libyang.LibyangError:
        return False
    found.free()
    return True


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(stream=STREAMS)
def test_both_take_what_the_modules_allow(context: libyang.Context, stream: Any) -> None:
    schema.stream(stream, "plc")
    assert accepts(context, stream)


def changed(path: str, value: Any) -> dict[str, Any]:
    """A stream with another value at a place."""
    stream: dict[str, Any] = body(1, [3], [{"ipv4-tuple": {"dscp": 46}}])
    part: Any = stream
    *above, last = path.split("/")
    for step in above:
        part = part[int(step)] if isinstance(part, list) else part[step]
    part[int(last) if isinstance(part, list) else last] = value
    return stream


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("stream-id", "1"),
        ("stream-status", "planned"),
        ("status-info", {"tsn-cnc:reason": "x"}),
        ("nothing", 1),
        ("talker/accumulated-latency", 1),
        ("talker/end-station-interfaces", []),
        ("talker/end-station-interfaces/0/mac-address", "02:00:00:00:00:01"),
        ("talker/data-frame-specification", []),
        ("talker/data-frame-specification/0/ipv4-tuple/source-ip-address", "256.0.0.1"),
        ("talker/data-frame-specification/0/ieee802-vlan-tag", {"vlan-id": 4096}),
        ("talker/traffic-specification/max-frame-size", 65536),
        ("talker/traffic-specification/max-frame-size", "100"),
        ("talker/traffic-specification/max-frame-size", -1),
        ("talker/traffic-specification/time-aware", True),
        ("talker/interface-capabilities", {"vlan-tag-capable": "yes"}),
        ("listener/0/index", 1 << 32),
        ("listener", {"index": 0}),
    ],
)
def test_both_refuse_what_they_do_not(context: libyang.Context, path: str, value: Any) -> None:
    stream = changed(path, value)
    with pytest.raises(RestconfError):
        schema.stream(stream, "plc")
    assert not accepts(context, stream)
