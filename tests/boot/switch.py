"""A booted switch with the product on it: two ports with eight transmit queues, and its login.

Port p2 is what is tested, p1 stays without gates; q1 and q2 are their far ends.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ncclient import manager

from cnc.rollout.timing import CONFIRM_MAX_S, SLOWER
from tests.boot.emulated import Emulated
from tests.boot.limits import patient
from tests.stack.front_end import FrontEnd

PORT = "p2"
AGENT, BROKER, SERVER = "tsn-agent.service", "tsn-netconf-broker.service", "tsn-netconfd.service"
DAEMONS = (AGENT, BROKER, SERVER)
UNITS = ("tsn-sysrepo.service", "tsn-clock.service", *DAEMONS)
LINK_EVENTS, QDISC_EVENTS = "/run/link-events", "/run/qdisc-events"
WAIT_LIMIT_S = patient(300)
# Kernel answers that change while nothing is changed; the lines are there once a list is in force.
PASSING = re.compile(r" refcnt \d+|\n[ \t]*(?:max-sdu|fp) [^\n]*")
# What a push says whose commit took a switch too long.
TOO_SLOW = (SLOWER, "reverts by itself")

_VETH = "/usr/sbin/ip link add {0} numtxqueues 8 numrxqueues 8 type veth peer name {1}"
_PORTS = f"""[Unit]
Description=Ports with eight transmit queues, and a record of what becomes of them
DefaultDependencies=no
Before=network-pre.target tsn-agent.service systemd-networkd.service
[Service]
Type=forking
ExecStart=/bin/sh -c 'ip -o monitor link > {LINK_EVENTS} & tc monitor > {QDISC_EVENTS} &'
ExecStartPost={_VETH.format("p1", "q1")}
ExecStartPost={_VETH.format("p2", "q2")}
"""
# What takes a second on a switch may take a minute under emulation beside other work.
_PATIENT = f"[Service]\nTimeoutStartSec={patient(600):.0f}\n"
PATIENCE = {f"/etc/systemd/system/{unit}.d/emulated.conf": _PATIENT for unit in UNITS}
FILES = {
    "/etc/systemd/system/ports.service": _PORTS,
    "/etc/systemd/system/sysinit.target.d/ports.conf": "[Unit]\nWants=ports.service\n",
    "/etc/systemd/network/20-ports.network": (
        "[Match]\nName=p1 p2 q1 q2\n[Network]\nLinkLocalAddressing=ipv6\n"
    ),
    **PATIENCE,
}

_INTENT = """name: booted
forwarding: {forwarding}
defaults:
  {{rate: 1Gbps, propagation: 100ns, processing: {{min: 1us, max: 5us}}, clock-error: 1us,
    gate-margin: 1ms, gates: software, user: operator, netconf-port: {port}}}
classes:
  control: {{traffic-class: 7, priority: 7, dscp: [48, 56], role: control, max-frame: 128B}}
  cyclic: {{traffic-class: 6, priority: 6, dscp: 46, role: scheduled}}
  best-effort: {{traffic-class: 0, priority: 0, dscp: 0, role: best-effort, max-frame: 1522B}}
switches:
  s1: {{management: 127.0.0.1, ports: [p1, p2]}}
end-stations: [talker, listener]
links: [[talker/eth0, s1/p1], [s1/p2, listener/eth0]]
streams:
  motion: {{talker: talker, listeners: [listener], class: cyclic, period: 100ms, payload: 200B,
    max-latency: 50ms, ip: 4}}
"""


@dataclass(frozen=True)
class Switch:
    """The machine, and what a controller keeps of it."""

    machine: Emulated
    directory: Path

    def install(self, package: Path) -> None:
        """Install a package file; back when the services it starts have started."""
        self.machine.put(package, f"/root/{package.name}")
        self.machine.run(f"DEBIAN_FRONTEND=noninteractive dpkg -i /root/{package.name}")

    def enrol(self) -> None:
        """Give the controller's key to the switch, and the switch's host key to the controller."""
        key = self.machine.identity.with_suffix(".pub").read_bytes()
        self.machine.write("/etc/tsn/authorized_keys/operator", key)
        self.machine.run("tsn-access-control")
        self.trust()

    def trust(self) -> None:
        """Give the switch's NETCONF host key to the controller."""
        host_key = self._host_key()
        self._known_hosts.write_text(f"[127.0.0.1]:{self.machine.port(830)} {host_key}")

    def connect(self) -> manager.Manager:
        """A NETCONF session of the operator."""
        front = FrontEnd(
            "127.0.0.1",
            self.machine.port(830),
            "operator",
            self.machine.identity,
            *self._host_key().split(),
        )
        return front.connect(timeout=WAIT_LIMIT_S)

    def push(self, forwarding: str = "routed", *options: str) -> None:
        """Bring the schedule to the switch, as an operator does; `bridged` needs a bridge br0, and
        counts there what the talker sends otherwise than planned."""
        intent = self.directory / "booted.yaml"
        text = _INTENT.format(port=self.machine.port(830), forwarding=forwarding)
        if forwarding == "bridged":
            text += "policing: count\n"
        intent.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "cnc", "push", intent, "--timeout", "120"]
        # How late gates of an emulated processor are is no matter of what these tests are about.
        command += ["--force-margin"]
        command += ["--identity", self.machine.identity, "--known-hosts", self._known_hosts]
        command += ["--state-dir", self.directory / "state", *options]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}

        def pushed() -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                command, capture_output=True, text=True, env=environment, check=False
            )

        done = pushed()
        if any(said in done.stderr for said in TOO_SLOW):
            # An emulated processor takes its first commit many times as long as the answers before
            # it say. As an operator does: once the switch has reverted by itself, push again.
            time.sleep(CONFIRM_MAX_S)
            done = pushed()
        assert done.returncode == 0, f"{done.stdout}{done.stderr}"

    def _host_key(self) -> str:
        return self.machine.run("cut -d' ' -f1,2 /var/lib/tsn-netconfd/host_key.pub").stdout

    @property
    def _known_hosts(self) -> Path:
        return self.directory / "known_hosts"

    def schedule(self) -> str:
        """What the kernel has on the port, as tc and iptables write it, without counters."""
        qdisc = self.machine.run(f"tc qdisc show dev {PORT} root").stdout
        return PASSING.sub("", qdisc) + self.rules()

    def rules(self) -> str:
        """The rules of the mangle table."""
        return self.machine.run("iptables -t mangle -S").stdout

    def link_events(self) -> list[str]:
        """What the kernel has said of the port since boot, a line each."""
        lines = self.machine.run(f"cat {LINK_EVENTS}").stdout.splitlines()
        return [line for line in lines if f" {PORT}@" in line]

    def gates_removed(self) -> int:
        """How often since boot the port's gates were taken away, if only to set them anew."""
        events = self.machine.run(f"cat {QDISC_EVENTS}").stdout
        return len(re.findall(rf"deleted qdisc taprio \S+ dev {PORT} ", events))

    def property(self, unit: str, name: str) -> str:
        """What systemd says of a unit."""
        return self.machine.run(f"systemctl show --value -p {name} {unit}").stdout.strip()

    def processes(self, unit: str) -> list[int]:
        """The processes of a unit."""
        group = self.property(unit, "ControlGroup")
        return list(
            map(int, self.machine.run(f"cat /sys/fs/cgroup{group}/cgroup.procs").stdout.split())
        )

    def messages(self, unit: str) -> list[str]:
        """What a unit has logged since boot."""
        return [entry["MESSAGE"] for entry in self.machine.journal("-b", f"-u{unit}")]

    def restart_delay_us(self, unit: str) -> int:
        """How long systemd waits before it starts a unit again."""
        delay = self.property(unit, "RestartUSec")
        told = self.machine.run(f"systemd-analyze timespan '{delay}'").stdout
        return int(re.findall(r"s: (\d+)", told)[0])


def until(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition, with a limit that only a dead machine meets."""
    deadline = time.monotonic() + WAIT_LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(1)
