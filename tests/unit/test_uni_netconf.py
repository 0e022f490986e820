"""<edit-config> of the UNI: what each operation does, what is refused. The core is in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cnc.service.channel import Request
from cnc.service.netconf import edits, reads
from cnc.service.netconf.errors import RpcRefused, error_of
from cnc.service.refused import CallRefused, Code
from cnc.service.web.errors import RestconfError
from tests.unit.service_fixture import FixtureCore
from tests.unit.uni_bodies import STREAM_ID, body

ROOT = "ieee802-dot1q-cnc-config:cnc-config"
AUTO = "tsn-cnc:auto-compute"
OTHER_ID = "02-00-00-00-01-01:00-02"


class Asked:
    """The user of a session, and the core that its calls reach; `calls` are their names."""

    def __init__(self, token: str = "plc") -> None:  # noqa: S107  a fixture's
        self.core, self._token = FixtureCore(), token
        self.calls: list[str] = []

    async def call(self, call: str, **arguments: Any) -> Any:
        self.calls.append(call)
        given = {name: value for name, value in arguments.items() if value is not None}
        return await self.core.answer(Request(call, given, self._token, ""))

    def edits(self, *cucs: dict[str, Any], default: str = "merge", **domain: Any) -> None:
        entry = {"domain-id": "cell", **domain, **({"cuc": list(cucs)} if cucs else {})}
        asyncio.run(edits.apply(self, {ROOT: {"domain": [entry]}}, default))

    def reads(self, *instances: Any, config_only: bool = False) -> dict[str, Any]:
        paths = instances or None
        return asyncio.run(reads.read(self, paths, config_only=config_only))

    @property
    def latencies(self) -> dict[str, int]:
        """What is stored, by stream-id."""
        return {
            stream_id: its["body"]["talker"]["user-to-network-requirements"]["max-latency"]
            for (_, stream_id), its in self.core.streams.items()
        }


@pytest.fixture
def asked() -> Asked:
    return Asked()


def stream(
    operation: str | None = None, stream_id: str = STREAM_ID, max_latency: int = 200_000
) -> dict[str, Any]:
    whole = body(1, [3], [{"ipv4-tuple": {"dscp": 46}}], max_latency=max_latency)
    return marked({**whole, "stream-id": stream_id}, operation)


def marked(entry: dict[str, Any], operation: str | None) -> dict[str, Any]:
    return {"@": {"ietf-netconf:operation": operation}, **entry} if operation else entry


def cuc(*streams: dict[str, Any], operation: str | None = None, name: str = "plc") -> Any:
    entry = {"cuc-id": name, **({"stream": list(streams)} if streams else {})}
    return marked(entry, operation)


def key(operation: str, stream_id: str = STREAM_ID) -> dict[str, Any]:
    return marked({"stream-id": stream_id}, operation)


@pytest.mark.parametrize("operation", [None, "merge", "replace", "create"])
def test_a_stream_that_is_not_there_is_put(asked: Asked, operation: str | None) -> None:
    asked.edits(cuc(stream(operation)))
    assert asked.latencies == {STREAM_ID: 200_000}


def test_a_stream_that_is_there_is_merged_or_replaced_and_not_created(asked: Asked) -> None:
    asked.edits(cuc(stream()))
    talker = {"user-to-network-requirements": {"max-latency": 300_000}}
    asked.edits(cuc({"stream-id": STREAM_ID, "talker": talker}))
    assert asked.latencies == {STREAM_ID: 300_000}
    asked.edits(cuc(stream("replace", max_latency=400_000)))
    assert asked.latencies == {STREAM_ID: 400_000}
    with pytest.raises(RpcRefused) as refused:
        asked.edits(cuc(stream("create")))
    assert refused.value.tag == "data-exists"
    assert asked.latencies == {STREAM_ID: 400_000}


@pytest.mark.parametrize("of_cuc", [True, False])
def test_what_is_not_there_can_be_removed_and_not_deleted(asked: Asked, of_cuc: bool) -> None:
    def gone(operation: str) -> Any:
        return cuc(operation=operation) if of_cuc else cuc(key(operation))

    asked.edits(cuc(stream()))
    asked.edits(gone("delete"))
    assert asked.core.streams == {}
    if not of_cuc:  # the fixture's core removes no streams as well as some
        asked.edits(gone("remove"))
        with pytest.raises(RpcRefused) as refused:
            asked.edits(gone("delete"))
        assert refused.value.tag == "data-missing"


def test_auto_compute_is_set_and_is_true_again_when_it_is_deleted() -> None:
    operator = Asked("operator")
    operator.edits(**{AUTO: False})
    assert not operator.core.auto_compute
    operator.edits(**{AUTO: False, f"@{AUTO}": {"ietf-netconf:operation": "delete"}})
    assert operator.core.auto_compute


@pytest.mark.parametrize(
    ("cucs", "domain", "default", "why"),
    [
        ([cuc(stream(), stream(stream_id=OTHER_ID))], {}, "merge", "and this one 2"),
        ([cuc(stream())], {AUTO: True}, "merge", "and this one 2"),
        ([], {}, "merge", "and this one 0"),
        ([cuc(key("none"))], {}, "merge", "and this one 0"),
        ([cuc()], {}, "merge", "there as long as it has streams"),
        ([cuc(stream(), operation="replace")], {}, "merge", "replace of a CUC"),
        ([cuc(stream())], {"@": {"ietf-netconf:operation": "delete"}}, "merge", "of a domain"),
        ([cuc(stream())], {}, "replace", "replace of cnc-config"),
        ([cuc({**stream(), "talker": marked({}, "delete")})], {}, "merge", "within a stream"),
        ([cuc(stream())], {}, "none", "with the operation none"),
        ([], {"cnc-enabled": False}, "merge", "stop the service"),
        ([cuc(stream())], {"tsn-cnc:unknown": 1}, "merge", "tsn-cnc:unknown"),
    ],
)
def test_an_edit_that_is_not_one_change_of_the_uni_changes_nothing(
    asked: Asked, cucs: Any, domain: Any, default: str, why: str
) -> None:
    with pytest.raises(RpcRefused, match=why) as refused:
        asked.edits(*cucs, default=default, **domain)
    assert refused.value.tag == "operation-not-supported"
    assert asked.calls == []


def test_an_edit_of_another_domain_changes_nothing(asked: Asked) -> None:
    entry = {"domain-id": "other", "cuc": [cuc(stream())]}
    with pytest.raises(RpcRefused, match="there is no domain other, but cell"):
        asyncio.run(edits.apply(asked, {ROOT: {"domain": [entry]}}, "merge"))
    assert asked.core.streams == {}


def test_a_stream_that_its_yang_does_not_allow_is_not_put(asked: Asked) -> None:
    wrong = stream()
    wrong["talker"]["traffic-specification"]["max-frame-size"] = 100_000
    with pytest.raises(RestconfError, match="max-frame-size"):
        asked.edits(cuc(wrong))
    assert "stream.put" not in asked.calls


def test_a_stream_without_a_place_has_its_code_in_the_error(asked: Asked) -> None:
    with pytest.raises(CallRefused) as refused:
        asked.edits(cuc(stream(max_latency=1)))
    error = error_of(refused.value)
    assert error["tag"] == "operation-failed"
    assert error["app_tag"] == "failure-code-3"
    assert error["message"].startswith(str(refused.value))


def test_the_stream_of_another_cuc_is_not_for_a_cuc_to_put(asked: Asked) -> None:
    with pytest.raises(CallRefused) as refused:
        asked.edits(cuc(stream(), name="hmi"))
    assert refused.value.code is Code.FORBIDDEN
    assert error_of(refused.value)["tag"] == "access-denied"


def test_only_what_a_filter_names_is_read(asked: Asked) -> None:
    for each in (STREAM_ID, OTHER_ID):
        asked.edits(cuc(stream(stream_id=each)))
    asked.calls.clear()
    steps = [(ROOT, []), ("domain", []), ("cuc", [("cuc-id", "plc")])]
    found = asked.reads([*steps, ("stream", [("stream-id", OTHER_ID)])])
    (domain,) = found[ROOT]["domain"]
    assert [each["stream-id"] for each in domain["cuc"][0]["stream"]] == [OTHER_ID]
    assert asked.calls == ["domain.get", "stream.get"]
    assert "cuc" not in asked.reads([*steps[:2], ("cuc", [("cuc-id", "none")])])[ROOT]["domain"][0]
    assert asked.reads([("ietf-yang-library:modules-state", [])]).keys() == {
        "ietf-yang-library:modules-state"
    }


def test_configuration_alone_has_no_state(asked: Asked) -> None:
    asked.edits(cuc(stream()))
    found = asked.reads(config_only=True)
    assert found.keys() == {ROOT}
    its = found[ROOT]["domain"][0]["cuc"][0]["stream"][0]
    assert "status-info" not in its
    assert "status-info" in asked.reads()[ROOT]["domain"][0]["cuc"][0]["stream"][0]
