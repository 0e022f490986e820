"""The first program of a node in a kernel of its own: `python -m cnc.testbed.lab.kernels.node NODE
CLOCKS`.

It makes the node out of the kernel's cards, starts what runs on it, and then runs commands. It ends
only when something is wrong: then the kernel ends, and with it the lab.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import termios
import threading
import time
import tty
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from pyroute2 import IPRoute

from cnc import intent as intents
from cnc.model import Intent
from cnc.testbed.intent.lab_model import LabClocks
from cnc.testbed.lab import inventory, namespaces, topology
from cnc.testbed.lab.addressing import management
from cnc.testbed.lab.kernels import beside, gptp, layout, steps
from cnc.testbed.lab.kernels.layout import CONTROLLER, SHARED, Kernel
from cnc.testbed.lab.lifecycle import STATE_ROOT
from cnc.testbed.lab.management import SWITCH_PORT
from cnc.testbed.lab.namespaces import bring_up, inside, sysctl
from cnc.testbed.lab.process import netns_argv, spawn
from cnc.testbed.lab.running import READY_TIMEOUT_S, Lab, management_of
from cnc.testbed.lab.switch import CLOCK_SERVICE, PROGRAMS_OF_A_KERNEL, Switch, executable
from cnc.testbed.lab.template import operators, template
from cnc.testbed.remote.frames import Frame, Kind
from cnc.testbed.remote.server import Server

CONSOLE = "/dev/hvc0"
POLL_INTERVAL_S = 0.05


def main(node: str, clocks: LabClocks) -> None:
    """Be this node until the kernel ends."""
    document = json.loads((SHARED / layout.INTENT_FILE).read_text())
    intent = intents.from_document(document, "the lab's intent")
    kernel = layout.kernels(intent)[node]
    directory = STATE_ROOT / intent.name
    directory.mkdir(parents=True, mode=0o700)
    if node == CONTROLLER:
        _be_controller(intent, kernel, directory, clocks)
    else:
        _be_node(intent, kernel, directory, clocks)


def _be_node(intent: Intent, kernel: Kernel, directory: Path, clocks: LabClocks) -> None:
    home = namespaces.of_node(intent.name, kernel.node)
    topology.make_node(intent, kernel.node)
    for card in (*kernel.ports, kernel.management):
        _take(card.mac, card.port, home)
    for card in kernel.ports:
        subprocess.run(
            netns_argv(home, ["ethtool", "-L", card.port, "combined", str(layout.QUEUES)]),
            check=True,
        )
    inside(home, partial(topology.configure_node, intent, kernel.node))
    addresses = management(intent).switches
    inside(home, partial(_bring_up_management, addresses.get(kernel.node)))
    switch = switch_of(intent, kernel.node)
    if kernel.node in intent.network.managed:
        host_key = switch.prepare(template(intent.name, operators(intent), directory))
        start_programs(intent, switch)
        (SHARED / f"{kernel.node}.host-key").write_text(host_key)
    else:
        _tell_tai(directory)
        if clocks is LabClocks.GPTP and kernel.ports:
            _follow(intent, kernel.node, home, directory)
    environment = switch.environment if switch.repository.exists() else {}
    listening = inside(home, partial(_listen, layout.COMMANDS_PORT))
    while True:
        connected, _ = listening.accept()
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_serve, args=(connected, home, environment), daemon=True).start()


def switch_of(intent: Intent, node: str) -> Switch:
    """A node with an agent, as it is in the node's own kernel."""
    home = namespaces.of_node(intent.name, node)
    return Switch(node, home, STATE_ROOT / intent.name / node, own_clock=True)


def start_programs(intent: Intent, switch: Switch) -> None:
    """Start all that runs on a node with an agent, in the node's own kernel.

    The agent refuses stored PTP instances while no clock service runs; so that is ready first, as
    systemd has it (tsn-clock.service).
    """
    authorized_keys = SHARED / f"{layout.CLIENT_KEY}.pub"
    for program in PROGRAMS_OF_A_KERNEL:
        switch.start(program, management_of(intent, switch.name), authorized_keys)
        if program == CLOCK_SERVICE:
            await_ready(switch, program)


def await_ready(switch: Switch, program: str) -> None:
    """Wait until a program says in its log that it is ready, as far as it ever does: else its node
    does not answer, and the controller shows the log."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    said = f"{program}: ready\n"
    while said not in switch.log(program).read_text() and time.monotonic() < deadline:
        time.sleep(POLL_INTERVAL_S)


def _tell_tai(directory: Path) -> None:
    """Give the kernel its TAI offset; on a switch its own clock service does."""
    argv = [executable(CLOCK_SERVICE), "--state-dir", str(directory / "clock")]
    subprocess.Popen(argv, stdin=subprocess.DEVNULL)


def _follow(intent: Intent, station: str, home: str, directory: Path) -> None:
    """Start the ptp4l of an end station without an agent."""
    file = directory / gptp.STATION_CONFIGURATION
    file.write_text(gptp.station_configuration(intent, station))
    argv = ["ptp4l", "-f", str(file), "-m", "-q"]
    spawn(home, argv, environment={}, log=gptp.station_log(directory))


def _be_controller(intent: Intent, kernel: Kernel, directory: Path, clocks: LabClocks) -> None:
    console = os.open(CONSOLE, os.O_RDWR | os.O_NOCTTY)
    tty.setraw(console, termios.TCSANOW)
    _take(kernel.management.mac, SWITCH_PORT, None)
    sysctl("net/ipv6/conf/default/accept_dad", 0)
    _bring_up_management(management(intent).controller)
    _tell_tai(directory)
    inventory.write(directory, inventory.of_intent(intent))
    beside.write(directory, layout.kernels(intent))
    lab = Lab(intent, directory)
    for source in (SHARED / layout.CLIENT_KEY, SHARED / f"{layout.CLIENT_KEY}.pub"):
        target = directory / source.name
        target.touch(mode=0o600)
        target.write_bytes(source.read_bytes())
    for node, other in layout.kernels(intent).items():
        if node != CONTROLLER:
            _await(str(other.link_local))
    lab.known_hosts.write_text(
        "".join(
            f"[{at.address}]:{at.port} {(SHARED / f'{node}.host-key').read_text()}\n"
            for node in intent.network.managed
            if (at := management_of(intent, node))
        )
    )
    lab.wait_ready()
    waiting = {}
    if clocks is LabClocks.GPTP:
        gptp.configure(lab)
        waiting = gptp.await_settled(lab)
    (SHARED / layout.UNSETTLED).write_text(json.dumps(waiting))
    steps.begin(lab)
    environment = {"CNC_IDENTITY": str(lab.identity), "CNC_KNOWN_HOSTS": str(lab.known_hosts)}
    server = Server(console, list, environment)
    server.send(Frame(Kind.READY, 0))
    server.serve()


def _serve(connected: socket.socket, home: str, environment: Mapping[str, str]) -> None:
    with connected:
        Server(connected.fileno(), partial(netns_argv, home), environment).serve()


def _take(mac: str, port: str, home: str | None) -> None:
    """Give the card with this address its name, and move it into a namespace."""
    with IPRoute() as ip:
        (link,) = ip.get_links(match=lambda each: each.get("address") == mac)
        ip.link("set", index=link["index"], state="down")
        ip.link("set", index=link["index"], ifname=port)
        if home:
            ip.link("set", index=link["index"], net_ns_fd=home)


def _bring_up_management(address: object) -> None:
    with IPRoute() as ip:
        bring_up(ip, SWITCH_PORT)
        if address is not None:
            index = ip.link_lookup(ifname=SWITCH_PORT)[0]
            own, _, length = str(address).partition("/")
            ip.addr("add", index=index, address=own, prefixlen=int(length))


def _listen(port: int) -> socket.socket:
    return socket.create_server(("::", port), family=socket.AF_INET6, backlog=64)


def _await(address: str) -> None:
    """Wait until a node runs commands.

    Raises OSError if it does not for too long: then this kernel ends, and with it the lab.
    """
    deadline = time.monotonic() + READY_TIMEOUT_S
    while True:
        try:
            socket.create_connection((f"{address}%{SWITCH_PORT}", layout.COMMANDS_PORT), 1).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_INTERVAL_S)
        else:
            return


if __name__ == "__main__":
    arguments: Sequence[str] = sys.argv[1:]
    main(arguments[0], LabClocks(arguments[1]))
