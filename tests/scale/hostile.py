"""How long a CUC waits for its answers beside somebody who means harm, against without.

`cnc serve` with one worker, which reaches no switch: what it decides is on the disk, and no rollout
takes time. Run as `python -m tests.scale.hostile KIND PORT CERTIFICATE TOKEN` it is that
somebody, until it is ended.
"""

from __future__ import annotations

import json
import os
import resource
import selectors
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from urllib.parse import quote

import yaml

from cnc import app
from cnc import intent as intents
from cnc.service.certificate import CERTIFICATE
from cnc.switch import ConnectOptions
from tests.scale.stored import keep
from tests.served import cell
from tests.served.cell import Asked
from tests.served.process import Served, served

_GOOD, _BAD = "plc", "other"
_PERIOD_NS = 100_000_000
_OCTETS = (100, 120)  # in turn, so that each PUT is another stream
_QUOTA = 1_000_000
_TURNS = 4  # of alone and beside, so that what else runs is beside both
_BEGUN_S = 1.0
_CONNECTIONS, _A_HOST = 1000, 60
_AT_ONCE = 8
_HEAD_OCTETS = 48 << 10  # of a body that is as deep as it is long
_NICE = 10


@dataclass(frozen=True)
class Waits:
    """Seconds by request of the CUC: a stream is read, put, and read over a new connection."""

    read_s: list[float] = field(default_factory=list)
    put_s: list[float] = field(default_factory=list)
    connected_s: list[float] = field(default_factory=list)


SORTS = {
    "read_s": "a GET of a stream",
    "put_s": "a PUT of a stream",
    "connected_s": "TLS and a GET",
}


@dataclass(frozen=True)
class Beside:
    """Alone, and beside somebody of that kind."""

    kind: str
    alone: Waits = field(default_factory=Waits)
    beside: Waits = field(default_factory=Waits)


def measure(requests: int, directory: Path) -> Iterator[Beside]:
    """At least so many requests of each sort, alone and beside each kind."""
    file = _without_switches_to_reach(directory)
    state = directory / "cnc"
    state.mkdir(mode=0o700)
    intent = intents.load(file)
    keep(state, app.plan(intent), intent.document, {})
    connect = ConnectOptions(directory / "no-key", directory / "no-hosts")
    with served(file, state, connect) as service:
        token, bad = service.token(_GOOD), service.token(_BAD)
        with service.admin() as admin:
            admin.ask("PUT", f"/api/v1/quotas/{_GOOD}", {"requests_per_minute": _QUOTA})
        a_turn = -(-requests // _TURNS)
        for kind in KINDS:
            found = Beside(kind)
            for _ in range(_TURNS):
                _ask(service, token, a_turn, found.alone)
                with _somebody(service, kind, bad):
                    _ask(service, token, a_turn, found.beside)
            yield found


def _without_switches_to_reach(directory: Path) -> Path:
    """The intent file of the cell, none of whose switches a rollout goes to."""
    document = yaml.safe_load(cell.CELL.read_text())
    for its in document["switches"].values():
        its.pop("management", None)
    file = directory / "cell.json"
    file.write_text(json.dumps(document))  # which is YAML, too
    return file


def _ask(service: Served, token: str, requests: int, found: Waits) -> None:
    asked = Asked(1, 1, (cell.SWITCHES * cell.STATIONS_A_SWITCH,), _PERIOD_NS, _OCTETS[0])
    with service.client(token) as client:
        client.put_stream(_GOOD, asked.body())
        for number in range(1, requests + 1):
            octets = _OCTETS[number % len(_OCTETS)]
            body = replace(asked, octets=octets).body()
            found.put_s.append(_took(partial(client.put_stream, _GOOD, body)))
            found.read_s.append(_took(partial(client.stream, _GOOD, asked.stream_id)))
            found.connected_s.append(_took(partial(_connect_and_read, service, token)))


def _connect_and_read(service: Served, token: str) -> None:
    with service.client(token) as client:
        client.ask("GET", "/api/v1/who")


def _took(work: Callable[[], object]) -> float:
    begun_s = time.perf_counter()
    work()
    return time.perf_counter() - begun_s


@contextmanager
def _somebody(service: Served, kind: str, token: str) -> Iterator[None]:
    port = service.url.rpartition(":")[2]
    command = [sys.executable, "-m", __name__, kind, port, service.directory / CERTIFICATE, token]
    words = [str(word) for word in command]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            process.stdout.readline()  # it has begun
            time.sleep(_BEGUN_S)
            yield
        finally:
            process.kill()


# --- somebody who means harm ---------------------------------------------------------------------


@dataclass(frozen=True)
class _Target:
    port: int
    context: ssl.SSLContext
    token: str

    def plain(self, host: int = 1) -> socket.socket:
        """A connection from one of many hosts."""
        server, source = ("127.0.0.1", self.port), (f"127.0.1.{host}", 0)
        return socket.create_connection(server, timeout=60, source_address=source)

    def secure(self) -> ssl.SSLSocket:
        return self.context.wrap_socket(self.plain(), server_hostname="localhost")

    def head(self, octets: int, kind: str = "application/yang-data+json") -> bytes:
        """Of a PUT with a body."""
        stream = quote(Asked(2, 1, (2,), _PERIOD_NS, 100).stream_id, safe="")
        path = "/restconf/data/ieee802-dot1q-cnc-config:cnc-config/domain=cell"
        lines = (
            f"PUT {path}/cuc={_BAD}/stream={stream} HTTP/1.1",
            *("Host: localhost", f"Authorization: Bearer {self.token}"),
            *(f"Content-Type: {kind}", f"Content-Length: {octets}"),
        )
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _connections(target: _Target) -> None:
    """A thousand of them, on which nothing is said; for each that is closed there is another."""
    waiting = selectors.DefaultSelector()
    for number in range(_CONNECTIONS):
        _one_more(target, waiting, 1 + number // _A_HOST)
    while True:
        for key, _ in waiting.select():
            waiting.unregister(key.fileobj)
            key.fileobj.close()  # type: ignore[union-attr]
            _one_more(target, waiting, key.data)


def _one_more(target: _Target, waiting: selectors.BaseSelector, host: int) -> None:
    with suppress(OSError):
        waiting.register(target.plain(host), selectors.EVENT_READ, host)


def _again_and_again(octets: Callable[[_Target], bytes]) -> Callable[[_Target], None]:
    """A request over several connections, each as soon as the former was answered."""

    def one(target: _Target, request: bytes) -> None:
        while True:
            with suppress(OSError), target.secure() as connection:
                while True:
                    connection.sendall(request)
                    if not connection.recv(65536):
                        break

    def all_(target: _Target) -> None:
        request = octets(target)
        threads = [threading.Thread(target=one, args=(target, request)) for _ in range(_AT_ONCE)]
        for thread in threads:
            thread.start()

    return all_


def _body(octets: bytes, kind: str = "application/yang-data+json") -> Callable[[_Target], bytes]:
    return lambda target: target.head(len(octets), kind) + octets


def _slow(target: _Target) -> None:
    """Heads and bodies of which an octet comes now and then."""
    held = [target.secure() for _ in range(_A_HOST)]
    for number, each in enumerate(held):
        each.sendall(target.head(1000) if number % 2 else b"GET / HTTP/1.1\r\nX: ")
    while True:
        time.sleep(0.5)
        for number, each in enumerate(held):
            try:
                each.sendall(b" ")
            except OSError:
                with suppress(OSError):
                    held[number] = target.secure()


def _stream(target: _Target) -> bytes:
    body = json.dumps(
        {"ieee802-dot1q-cnc-config:stream": [Asked(2, 1, (2,), _PERIOD_NS, 100).body()]}
    ).encode()
    return target.head(len(body)) + body


def _nothing(_: _Target) -> None:
    time.sleep(3600)


KINDS: Mapping[str, Callable[[_Target], None]] = {
    "nobody": _nothing,  # how far the figures of one run differ by themselves
    "1,000 silent connections": _connections,
    "slow heads and bodies": _slow,
    "bodies of 1 MB": _again_and_again(_body(b" " * 1_000_000)),
    "deep JSON": _again_and_again(_body(b"[" * _HEAD_OCTETS)),
    "deep XML": _again_and_again(_body(b"<a>" * (_HEAD_OCTETS // 3), "application/yang-data+xml")),
    "guesses": _again_and_again(lambda its: replace(its, token="guess").head(0)),  # noqa: S106
    "a CUC that asks without a pause": _again_and_again(_stream),
}


def _main(kind: str, port: str, certificate: str, token: str) -> None:
    os.nice(_NICE)  # as if it had a machine of its own
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    print(flush=True)
    KINDS[kind](_Target(int(port), ssl.create_default_context(cafile=certificate), token))


if __name__ == "__main__":
    _main(*sys.argv[1:])
