"""`cnc opcua`, read by a client of asyncua, before a real worker and a real core."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from asyncua import Client as Application
from asyncua import ua
from asyncua.crypto.security_policies import SecurityPolicyBasic256Sha256
from click.testing import CliRunner

from cnc.adapters.opcua.followed import All, Away, followed
from cnc.adapters.opcua.identity import Identity
from cnc.adapters.opcua.nodes import ends
from cnc.adapters.opcua.server import Address, serving
from cnc.cli import cnc, controller
from cnc.errors import InputError
from cnc.service import uni
from cnc.service.client import Client
from cnc.service.uni.shown import stream as shown
from tests.unit.service_network import CUC
from tests.unit.uni_bodies import ACTIVE, STREAM_ID, body, network, planned, with_stream
from tests.unit.web_worker import Worker, planning, worker

PACKET = {"ipv4-tuple": {"destination-ip-address": "192.0.2.4"}}
STREAM = body(1, [3], [PACKET])
TALKER, LISTENER = f"talker/{CUC}/{STREAM_ID}", f"listener/{CUC}/{STREAM_ID}/0"
START_S = 300  # of what hangs; a busy machine takes a minute for a server


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    directory = tmp_path_factory.mktemp("core")
    file = directory / "line3.yaml"
    file.write_text(yaml.safe_dump(dict(network("line3.yaml").document)))
    with worker(directory, planning(directory, file)) as its:
        yield its


class Hmi:
    """What reads the adapter's server, which runs in a thread of its own."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = Address("127.0.0.1", free.getsockname()[1])
        self.server, self.folder = Identity.ensure(folder / "server"), folder

    def trust(self, name: str) -> None:
        its = Identity.ensure(self.folder / name)
        shutil.copy(its.certificate, self.server.trusted / f"{name}.der")

    def run(self, what: Callable[[Application], Awaitable[Any]], *, name: str = "hmi") -> Any:
        """What `what` returns of a connection, whose certificate is that of `name`."""
        its = Identity.ensure(self.folder / name)

        async def connected() -> Any:
            application = Application(self.address.url, START_S, watchdog_intervall=START_S)
            application.application_uri = its.uri
            await application.set_security(
                SecurityPolicyBasic256Sha256,
                its.certificate,
                its.key,
                server_certificate=self.server.certificate,
            )
            async with application, asyncio.timeout(START_S):
                return await what(application)

        return asyncio.run(connected())


@pytest.fixture(scope="module")
def hmi(web: Worker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hmi]:
    its = Hmi(tmp_path_factory.mktemp("pki"))
    its.trust("hmi")
    loop, ready, stop = asyncio.new_event_loop(), threading.Event(), asyncio.Event()

    async def run(service: Client) -> None:
        async with serving(followed(service), its.address, its.server):
            ready.set()
            await stop.wait()

    with Client(web.url, "viewer", certificate=web.trusted) as service:
        thread = threading.Thread(target=lambda: loop.run_until_complete(run(service)), daemon=True)
        thread.start()
        assert ready.wait(START_S)
        yield its
        loop.call_soon_threadsafe(stop.set)
        thread.join(START_S)


@pytest.fixture
def service(web: Worker) -> Iterator[Client]:
    with Client(web.url, "operator", certificate=web.trusted) as its:
        yield its
        web.ask(
            "DELETE", f"/restconf/data/ieee802-dot1q-cnc-config:cnc-config/domain=line3/cuc={CUC}"
        )


def node(application: Application, name: str) -> Any:
    return application.get_node(ua.NodeId(name, 2))


async def until(application: Application, name: str, wanted: Any) -> None:
    """Once a variable has this value, or is not there (None)."""
    while True:
        try:
            found = await node(application, name).read_value()
        except ua.uaerrors.BadNodeIdUnknown:
            found = None
        if found == wanted:
            return
        await asyncio.sleep(0.05)


def test_a_stream_appears_as_the_base_network_model_has_it(hmi: Hmi, service: Client) -> None:
    placed = service.put_stream(CUC, STREAM)

    async def read(application: Application) -> Any:
        await until(application, f"{TALKER}.State", ua.TsnStreamState.Ready)
        folder = application.get_node(ua.ObjectIds.TalkerStreams)
        found = {}
        for each in await folder.get_children():
            its = await each.get_referenced_nodes(ua.ObjectIds.HasInterface)
            found["interfaces"] = {(await i.read_browse_name()).Name for i in its}
            for member in await each.get_children():
                found[(await member.read_browse_name()).Name] = await member.read_value()
        latency = await node(application, f"{LISTENER}.AccumulatedLatency").read_value()
        return found, latency, await node(application, f"{LISTENER}.ListenerStatus").read_value()

    found, latency_ns, listener = hmi.run(read)
    assert found.pop("interfaces") == {
        "IIeeeBaseTsnStreamType",
        "IIeeeBaseTsnStatusStreamType",
        "IIeeeBaseTsnTrafficSpecificationType",
        "IIeeeTsnInterfaceConfigurationTalkerType",
    }
    interval = found.pop("Interval")
    assert (interval.Numerator, interval.Denominator) == (1_000_000, 1)
    (its,) = placed["talker"]["interface-configuration"]["interface-list"]
    assert found == {
        "StreamId": [2, 0, 0, 0, 1, 1, 0, 1],
        "StreamName": f"{CUC}/{STREAM_ID}",
        "State": ua.TsnStreamState.Ready,
        "TalkerStatus": ua.TsnTalkerStatus.Ready,
        "FailureCode": ua.TsnFailureCode.NoFailure,
        "FailureSystemIdentifier": [],
        "AccumulatedLatency": placed["talker"]["accumulated-latency"],
        "MaxIntervalFrames": 1,
        "MaxFrameSize": 100,
        "TimeAwareOffset": its["config-list"][-1]["time-aware-offset"],
    }
    assert latency_ns == placed["listener"][0]["accumulated-latency"]
    assert listener == ua.TsnListenerStatus.Ready


def test_a_stream_that_changes_or_goes_does_so_here(hmi: Hmi, service: Client) -> None:
    async def read(application: Application) -> None:
        await asyncio.to_thread(service.put_stream, CUC, STREAM)
        await until(application, f"{TALKER}.MaxFrameSize", 100)
        longer = body(1, [3], [PACKET], max_frame_size=120)
        await asyncio.to_thread(service.put_stream, CUC, longer)
        await until(application, f"{TALKER}.MaxFrameSize", 120)
        await asyncio.to_thread(service.remove_stream, CUC, STREAM_ID)
        await until(application, f"{TALKER}.MaxFrameSize", None)
        await until(application, f"{LISTENER}.State", None)

    hmi.run(read)


def test_nothing_is_written_called_or_added(hmi: Hmi, service: Client) -> None:
    service.put_stream(CUC, STREAM)

    async def write(application: Application) -> None:
        await until(application, f"{TALKER}.MaxFrameSize", 100)
        its = node(application, f"{TALKER}.MaxFrameSize")
        with pytest.raises(ua.uaerrors.BadUserAccessDenied):
            await its.write_value(ua.Variant(1, ua.VariantType.UInt32))
        with pytest.raises(ua.uaerrors.BadUserAccessDenied):
            await application.nodes.server.call_method("0:GetMonitoredItems", ua.Variant(1))
        with pytest.raises(ua.uaerrors.BadUserAccessDenied):
            await application.nodes.objects.add_object(2, "mine")
        await until(application, f"{TALKER}.MaxFrameSize", 100)

    hmi.run(write)


def test_a_client_is_let_in_when_its_certificate_is_trusted(hmi: Hmi) -> None:
    async def look(application: Application) -> str:
        return str((await application.nodes.objects.read_browse_name()).Name)

    with pytest.raises((ua.UaError, ConnectionError, TimeoutError)):
        hmi.run(look, name="stranger")
    hmi.trust("stranger")
    assert hmi.run(look, name="stranger") == "Objects"


def test_a_client_without_security_is_refused(hmi: Hmi) -> None:
    async def connect() -> None:
        async with Application(hmi.address.url, timeout=5):
            pass

    with pytest.raises((ua.UaError, ConnectionError, TimeoutError)):
        asyncio.run(connect())


def test_values_are_bad_while_the_service_is_away(tmp_path: Path) -> None:
    """And good again, in the same objects, once it is back."""
    its, go = Hmi(tmp_path), threading.Event()
    its.trust("hmi")
    key, stream = (CUC, STREAM_ID), {**STREAM, "stream-status": "configured"}

    def updates() -> Iterator[Any]:
        yield All({key: stream})
        yield Away("it does not answer")
        go.wait(START_S)
        yield All({key: stream})

    async def until_it_is(application: Application, *, good: bool) -> None:
        its = node(application, f"{TALKER}.State")
        while True:
            found = await its.read_data_value(raise_on_bad_status=False)
            if found.StatusCode.is_good() is good:
                return
            await asyncio.sleep(0.05)

    async def read(application: Application) -> None:
        await until_it_is(application, good=False)
        go.set()
        await until_it_is(application, good=True)

    async def run() -> None:
        async with serving(updates(), its.address, its.server):
            await asyncio.to_thread(its.run, read)

    asyncio.run(run())


def test_a_server_that_follows_no_more_ends(tmp_path: Path) -> None:
    def updates() -> Iterator[Any]:
        yield All({})
        raise ValueError("no document")

    async def run() -> None:
        its = Hmi(tmp_path)
        async with serving(updates(), its.address, its.server):
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as ended:
        asyncio.run(run())
    assert ended.group_contains(ValueError, match="no document")


@pytest.mark.parametrize(
    "traffic",
    [
        {},
        {"interval": {"numerator": 1, "denominator": 0}},
        {"interval": {"numerator": 1 << 31, "denominator": 1}},
    ],
)
def test_a_stream_that_is_stored_is_shown_as_far_as_it_goes(traffic: dict[str, Any]) -> None:
    its = {**STREAM, "talker": {**STREAM["talker"], "traffic-specification": traffic}}
    assert members(its)["State"] == ua.TsnStreamState.Configuring
    assert "Interval" not in members(its)
    assert members({"stream-id": STREAM_ID, "talker": {"traffic-specification": traffic}})


def members(stream: Mapping[str, Any]) -> dict[str, Any]:
    talker, *_ = ends(CUC, stream)
    return {each.name: each.variant.Value for each in talker.members}


def test_a_bridged_stream_has_its_address_and_its_vlan() -> None:
    capable = {"vlan-tag-capable": True, "cb-stream-iden-type-list": [ACTIVE]}
    intent = network("bridged5.yaml")
    pcp = next(its.priority for its in intent.classes.values() if its.role.value == "scheduled")
    asked = body(1, [3], [{"ieee802-vlan-tag": {"priority-code-point": pcp, "vlan-id": 0}}])
    asked["talker"]["interface-capabilities"] = capable
    asked["listener"][0]["interface-capabilities"] = capable
    plan = planned(intent)
    plan = with_stream(plan, "plc__1", uni.wanted(asked, "plc__1", plan.intent))
    status = uni.answer(plan, "plc__1", asked)
    stored = {"body": asked, "stream_id": STREAM_ID, "status": status, "state": "planned"}

    found = members(shown({**stored, "failure_code": 0, "placed": True, "reason": None}))

    address = plan.addresses["plc__1"]
    octets = [int(each, 16) for each in address.destination_mac.split(":")]
    assert found["DestinationAddress"] == octets
    assert (found["VlanId"], found["PriorityCodePoint"]) == (address.vlan_id, pcp)
    assert found["State"] == ua.TsnStreamState.Configuring


def test_a_stream_without_a_place_has_the_code_of_its_failure() -> None:
    stored = {"body": STREAM, "stream_id": STREAM_ID, "status": None, "state": "planned"}
    found = members(shown({**stored, "failure_code": 21, "placed": False, "reason": "too late"}))
    assert found["FailureCode"] == ua.TsnFailureCode.MaxLatencyExceeded
    assert found["State"] == ua.TsnStreamState.Error
    assert found["TalkerStatus"] == ua.TsnTalkerStatus.Failed


def test_the_key_is_its_owners_alone(tmp_path: Path) -> None:
    its = Identity.ensure(tmp_path / "pki")
    assert stat.S_IMODE(its.key.stat().st_mode) == 0o600
    before = its.certificate.read_bytes()
    assert Identity.ensure(tmp_path / "pki").certificate.read_bytes() == before


def test_the_command_serves_until_it_is_ended(web: Worker, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    its = ["--controller", web.url, "--controller-certificate", str(web.trusted)]
    command = [sys.executable, "-m", "cnc", *its, "opcua", "--listen", listen]
    with subprocess.Popen(
        [*command, "--pki", str(tmp_path / "pki")],
        env={**os.environ, controller.TOKEN: "viewer"},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr
        assert next(line for line in process.stderr if "opc.tcp" in line).startswith(
            f"opc.tcp://{listen}/, as "
        )
        process.terminate()
        assert process.wait(START_S) == 0


def test_the_token_of_a_cuc_does_not_follow_streams(web: Worker, tmp_path: Path) -> None:
    its = ["--controller", web.url, "--controller-certificate", str(web.trusted)]
    command = [*its, "opcua", "--pki", str(tmp_path / "pki")]
    result = CliRunner().invoke(cnc, command, env={controller.TOKEN: CUC})
    assert isinstance(result.exception, InputError)
    assert "role cuc" in str(result.exception)
