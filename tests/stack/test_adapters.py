"""The adapters, each with its peer, before `cnc serve` whose switches are rehearsed: what is asked
for by one of them runs on the switches, and the others see it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml
from asyncua import Client as Hmi
from asyncua import ua
from asyncua.crypto.security_policies import SecurityPolicyBasic256Sha256
from mcp import Client as Program
from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client

from cnc.adapters.dds.requested import stream_id
from cnc.adapters.opcua.identity import Identity
from cnc.service.certificate import CERTIFICATE
from cnc.switch import ConnectOptions
from tests.served.process import Served, served
from tests.stack.lab_user import User
from tests.unit.dds_systems import system
from tests.unit.uni_bodies import network

CUC = "robot"
STREAM_ID = stream_id("02:00:00:00:01:01", "pose")
GIVE_UP_S = 300


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("home")
    file = home / "line3.yaml"
    file.write_text(yaml.safe_dump(dict(network("line3.yaml").document)))
    user = User(home)
    user.up(file)
    try:
        keys = (Path(user.keys[name]) for name in ("CNC_IDENTITY", "CNC_KNOWN_HOSTS"))
        with served(file, home / "cnc", ConnectOptions(*keys)) as its:
            yield its
    finally:
        user.does("lab", "down")


def command(service: Served, *words: object) -> list[str]:
    certificate = service.directory / CERTIFICATE
    named = ("--controller", service.url, "--controller-certificate", certificate)
    return [str(word) for word in (sys.executable, "-m", "cnc", *named, *words)]


def with_token(service: Served, role: str) -> dict[str, str]:
    """The environment of a program with a new token."""
    asked = {"name": role, "role": role, "cuc": CUC if role == "cuc" else None}
    with service.admin() as admin:
        token = admin.ask("POST", "/api/v1/tokens", asked)["token"]
    return {**os.environ, "CNC_TOKEN": token}


def read_by_mcp(service: Served, environment: Mapping[str, str], **tools: Any) -> dict[str, Any]:
    """The data that the tools answer, by their names."""
    program, *arguments = command(service, "mcp")
    parameters = StdioServerParameters(command=program, args=arguments, env=dict(environment))

    async def run() -> dict[str, Any]:
        found = {}
        async with Program(stdio_client(parameters)) as its:
            for tool, asked in tools.items():
                answer = await its.call_tool(tool, asked)
                found[tool] = answer.structured_content["data"]["part"]
        return found

    return anyio.run(run)


@contextmanager
def opcua(service: Served, environment: Mapping[str, str], pki: Path) -> Iterator[str]:
    """The URL of `cnc opcua`, which runs."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = command(service, "opcua", "--listen", f"127.0.0.1:{port}", "--pki", pki)
    with subprocess.Popen(words, env=environment) as process:
        try:
            yield f"opc.tcp://127.0.0.1:{port}/"
        finally:
            process.terminate()


async def state_seen(url: str, server: Identity, client: Identity) -> Any:
    """The state of the stream's talker, once the server answers and has it."""
    give_up_s = time.monotonic() + GIVE_UP_S
    while True:
        its = Hmi(url, GIVE_UP_S, watchdog_intervall=GIVE_UP_S)
        its.application_uri = client.uri
        try:
            await its.set_security(
                SecurityPolicyBasic256Sha256,
                client.certificate,
                client.key,
                server_certificate=server.certificate,
            )
            async with its:
                node = ua.NodeId(f"talker/{CUC}/{STREAM_ID}.State", 2)
                return await its.get_node(node).read_value()
        except (OSError, ua.uaerrors.BadNodeIdUnknown):
            assert time.monotonic() < give_up_s
            await asyncio.sleep(0.1)


def test_what_dds_asks_for_runs_on_switches_and_mcp_and_opcua_see_it(
    service: Served, tmp_path: Path
) -> None:
    robot, placed = tmp_path / "robot.xml", tmp_path / "placed.xml"
    robot.write_text(system())
    words = command(service, "dds", robot, "-o", placed)
    asked = with_token(service, "cuc")
    done = subprocess.run(words, env=asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"pose ({STREAM_ID}): planned" in done.stdout
    assert "earliest_transmit_offset" in placed.read_text()
    with service.admin() as admin:
        event = next(each for each in admin.events(after=0) if each["kind"] == "stream-configured")
    assert (event["cuc"], event["stream_id"]) == (CUC, STREAM_ID)

    viewer = with_token(service, "viewer")
    seen = read_by_mcp(
        service,
        viewer,
        read_stream={"cuc": CUC, "stream_id": STREAM_ID},
        read_document={"name": "status"},
    )
    assert seen["read_stream"]["stream-status"] == "configured"
    ports = seen["read_document"]
    assert all(port["agrees"] for port in ports), json.dumps(ports)
    assert any(port["running"] for port in ports)

    server, client = (Identity.ensure(tmp_path / name) for name in ("server", "hmi"))
    shutil.copy(client.certificate, server.trusted / "hmi.der")
    with opcua(service, viewer, tmp_path / "server") as url:
        state = asyncio.run(state_seen(url, server, client))
    assert state == ua.TsnStreamState.Ready
