"""Debian's NetworkManager, mptcpd and systemd-networkd at the station with two uplinks."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

from tests.kernel.two_uplinks import STATION, UPLINKS, ip

PROGRAMS = Path(__file__).parents[2] / "scripts" / "network-managers"
NETWORKD = "/lib/systemd/systemd-networkd"
WITHIN_S = 60.0
_BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
  "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path={socket}</listen>
  <policy context="default">
    <allow user="*"/><allow own="*"/><allow send_destination="*"/><allow receive_sender="*"/>
  </policy>
</busconfig>
"""
_NM = """[main]
plugins=keyfile
dns=none
auth-polkit=false
[keyfile]
path={directory}/connections
"""
_CONNECTION = """[connection]
id={uplink}
uuid=0000000{number}-0000-4000-8000-000000000000
type=ethernet
interface-name={uplink}
{more}
[ipv4]
method=manual
address1=10.{number}.0.2/24
gateway=10.{number}.0.1
route-metric={number}00
[ipv6]
method=disabled
"""
_NETWORK = """[Match]
Name={uplink}
[Network]
Address=10.{number}.0.2/24
LinkLocalAddressing=no
IPv6AcceptRA=no
[Route]
Gateway=10.{number}.0.1
Metric={number}00
"""


@cache
def _programs() -> Path:
    run = subprocess.run([PROGRAMS], check=True, capture_output=True, text=True)
    return Path(run.stdout.strip())


def until(condition: Callable[[], object]) -> None:
    give_up = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.1)


def addresses() -> list[str]:
    return [line.split()[3] for line in ip("-4", "-o", "addr", "show", "scope", "global")]


def without_addresses() -> None:
    """The station as it is before anything has configured it."""
    for uplink in UPLINKS:
        ip("addr", "flush", "dev", uplink)


@contextmanager
def mptcpd() -> Iterator[None]:
    """With an endpoint for each address, those included that are there already."""
    root = _programs()
    (plugins,) = root.glob("usr/lib/*/mptcpd")
    options = [
        *("--plugin-dir", str(plugins), "--path-manager", "addr_adv", "--addr-flags", "subflow"),
        *("--notify-flags", "existing,skip_link_local,skip_loopback"),
    ]
    with _running([str(_of(root, "usr/libexec/mptcpd")), *options], _libraries(root)):
        yield


@contextmanager
def network_manager(directory: Path, *more: str) -> Iterator[None]:
    """It gives both uplinks their addresses; `more` are further lines of each connection."""
    root = _programs()
    connections = directory / "connections"
    connections.mkdir(exist_ok=True)
    for number, uplink in enumerate(UPLINKS, start=1):
        file = connections / f"{uplink}.nmconnection"
        text = _CONNECTION.format(number=number, uplink=uplink, more="\n".join(more))
        file.write_text(text)
        file.chmod(0o600)
    (directory / "nm.conf").write_text(_NM.format(directory=directory))
    socket = directory / "bus"
    (directory / "bus.conf").write_text(_BUS.format(socket=socket))
    bus = [
        str(_of(root, "usr/bin/dbus-daemon")),
        "--nofork",
        "--config-file",
        str(directory / "bus.conf"),
    ]
    options = [
        *("--debug", "--config", str(directory / "nm.conf")),
        *("--config-dir", str(directory / "none"), "--state-file", str(directory / "state")),
        *("--pid-file", str(directory / "pid")),
    ]
    environment = {**_libraries(root), "DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={socket}"}
    with ExitStack() as stack:
        stack.enter_context(_running(bus, _libraries(root)))
        until(socket.exists)
        command = [str(_of(root, "usr/sbin/NetworkManager")), *options]
        stack.enter_context(_running(command, environment))
        until(lambda: len(addresses()) == len(UPLINKS))
        yield


@contextmanager
def networkd() -> Iterator[None]:
    """It gives both uplinks their addresses."""
    files, state = Path("/run/systemd/network"), Path("/run/systemd/netif")
    files.mkdir(parents=True, exist_ok=True)
    for number, uplink in enumerate(UPLINKS, start=1):
        text = _NETWORK.format(number=number, uplink=uplink)
        (files / f"{uplink}.network").write_text(text)
    shutil.rmtree(state, ignore_errors=True)
    for name in ("links", "leases", "lldp"):
        (state / name).mkdir(parents=True)
    subprocess.run(["chown", "-R", "systemd-network:", state], check=True)

    def configured() -> int:
        known = (each.read_text().split() for each in (state / "links").iterdir())
        return sum("ADMIN_STATE=configured" in words for words in known)

    with _running([NETWORKD], {}):
        until(lambda: configured() == len(UPLINKS))
        yield


def _of(root: Path, program: str) -> Path:
    """Those that this machine has are not among those that were unpacked."""
    return found if (found := root / program).exists() else Path("/", program)


def _libraries(root: Path) -> Mapping[str, str]:
    (found,) = {file.parent for file in root.glob("usr/lib/*/libmptcpd.so.*")}
    return {"LD_LIBRARY_PATH": str(found)}


@contextmanager
def _running(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[Path]:
    """A program of the station; yields its log. Where sysfs is read-only, as in a container, it
    does not wait for udev to say that a link is complete."""
    log = Path("/run", f"{Path(command[0]).name}.log")
    read_only = ["sh", "-c", 'mount -o remount,ro /sys && exec "$@"', "sh"]
    with log.open("w") as file:
        process = subprocess.Popen(
            ["ip", "netns", "exec", STATION, *read_only, *command],
            env={**os.environ, **environment},
            stdout=file,
            stderr=file,
        )
    try:
        yield log
        assert process.poll() is None, log.read_text()
    finally:
        process.terminate()
        process.wait()
