"""A worker that strangers have taken over has the tokens that pass through it, and nothing else."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cnc.service import certificate
from cnc.service.calls import CALLS
from cnc.service.channel import REQUEST_MAX_OCTETS
from cnc.service.store import FILE_NAME
from cnc.service.web import confinement
from tests.unit.service_network import CUC, FILE
from tests.unit.web_worker import planning, served

Do = Callable[[str], Any]


def _landlock() -> int:
    try:
        return confinement.version()
    except confinement.Unavailable:
        return 0


confined = pytest.mark.skipif(_landlock() < 6, reason="a kernel whose Landlock scopes no signals")


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the core has, in a directory of the same user."""
    return tmp_path_factory.mktemp("core")


@pytest.fixture(scope="module")
def core(state: Path) -> Iterator[Path]:
    path = state / "core.sock"
    with served(path, planning(state, FILE)):
        yield path


@pytest.fixture(scope="module")
def port() -> Iterator[socket.socket]:
    """That which a worker is given."""
    with socket.create_server(("127.0.0.1", 0)) as its:
        yield its


@pytest.fixture(scope="module")
def do(state: Path, core: Path, port: socket.socket) -> Iterator[Do]:
    """Has a worker do what stands in a line of Python; its value, or the name of its error."""
    trusted, key = certificate.ensure(state, "127.0.0.1")
    command = [
        *(sys.executable, "-m", "tests.unit.taken_over_worker", "--core", str(core)),
        *("--fd", str(port.fileno()), "--certificate", str(trusted), "--key", str(key)),
    ]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=[port.fileno()],
    ) as process:

        def tell(line: str) -> Any:
            assert process.stdin
            assert process.stdout
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield tell
        process.terminate()


@pytest.fixture
def switch() -> Iterator[int]:
    """The port of a server that greets everybody, as a switch does."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def greet() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(b"SSH-2.0-switch")

        threading.Thread(target=greet, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


@confined
def test_it_reads_neither_the_database_nor_a_key(do: Do, state: Path, tmp_path: Path) -> None:
    key = tmp_path / "id_ed25519"
    key.write_text("secret")
    for secret in (state / FILE_NAME, state / certificate.KEY, state / "token-admin", key):
        assert secret.read_bytes()
        assert do(f"Path({str(secret)!r}).read_bytes()") == "PermissionError"
    assert do(f"os.listdir({str(state)!r})") == "PermissionError"
    assert do(f"Path({str(state / 'mine')!r}).touch()") == "PermissionError"
    assert do(f"os.unlink({str(state / FILE_NAME)!r})") == "PermissionError"


@confined
def test_it_reaches_no_switch_also_not_by_the_port_that_it_was_given(
    do: Do, port: socket.socket, switch: int
) -> None:
    assert do(f"connected('127.0.0.1', {switch})") == "PermissionError"
    assert do(f"connected_by_port({port.fileno()}, '127.0.0.1', {switch})") == "PermissionError"


@confined
def test_it_starts_no_program_and_signals_no_other_process(do: Do) -> None:
    assert do("os.execv('/bin/true', ['true'])") == "PermissionError"
    with subprocess.Popen(["sleep", "60"]) as other:
        assert do(f"os.kill({other.pid}, signal.SIGTERM)") == "PermissionError"
        assert do(f"Path('/proc/{other.pid}/environ').read_bytes()") == "PermissionError"
        other.kill()


def said(call: str, token: str = "", **more: Any) -> str:
    """A frame, as a line of Python."""
    message = {"id": 1, "token": token, "call": call, "arguments": {}, **more}
    return f"frame(**{message!r})"


def test_without_a_token_the_core_does_nothing_for_it(do: Do, core: Path) -> None:
    for call in CALLS:
        for token in ("", "guessed", "cnc_guessed"):
            (answer,) = do(f"sent({str(core)!r}, {said(call, token)})")
            assert answer["error"]["code"] == "unauthenticated", call


def test_a_name_that_it_claims_counts_for_nothing(do: Do, core: Path) -> None:
    claims = {"name": "admin", "role": "admin", "cuc": None, "asker": "admin", "who": "admin"}
    (who,) = do(f"sent({str(core)!r}, {said('who', CUC, source='127.0.0.1', **claims)})")
    assert (who["result"]["name"], who["result"]["role"]) == (CUC, "cuc")
    (refused,) = do(f"sent({str(core)!r}, {said('token.list', CUC, **claims)})")
    assert refused["error"]["code"] == "forbidden"
    (refused,) = do(f"sent({str(core)!r}, {said('who', CUC, arguments=claims)})")
    assert refused["error"]["code"] == "invalid"


def test_what_is_no_message_ends_its_connection_alone(do: Do, core: Path) -> None:
    huge = f"({REQUEST_MAX_OCTETS + 1}).to_bytes(4, 'big')"
    deep = "(200_000).to_bytes(4, 'big') + b'[' * 200_000"
    for octets in (huge, deep, "frame(id=1)", "frame(id='1', call='who')", "b'GET / HTTP/1.1'"):
        assert do(f"sent({str(core)!r}, {octets}, {said('who')})") == []
    (answer,) = do(f"sent({str(core)!r}, {said('who', CUC)})")
    assert answer["result"]["cuc"] == CUC
