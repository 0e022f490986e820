"""A machine with the controller's package, beside it a switch whose ports are in memory.

`cnc serve` reaches agent and NETCONF server of the package tsn-switch at 127.0.0.1.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.boot.container import Container
from tests.boot.switch import until

CORE, PORT_UNIT = "tsn-cnc.service", "tsn-cnc-web.socket"
WORKERS = ("tsn-cnc-web@1.service", "tsn-cnc-web@2.service")
UNITS = (CORE, *WORKERS)
NEED = Path(__file__).parents[2] / "scripts" / "setup.d" / "apt-need"
BRIDGE, PORTS = "br0", ("p1", "p2")
URL = "https://localhost:8443"
# Where systemd-networkd has nothing to wait for, as the machine has no link.
FILES = {
    "/etc/systemd/system/systemd-networkd-wait-online.service.d/alone.conf": (
        "[Service]\nExecStart=\nExecStart=/bin/true\n"
    ),
    "/etc/systemd/system/tsn-agent.service.d/rehearsed.conf": (
        "[Service]\nEnvironmentFile=/etc/rehearsed\n"
    ),
    "/etc/rehearsed": (
        f"TSN_AGENT_OPTIONS=--rehearse {','.join(PORTS)} --rehearse-bridge {BRIDGE}"
        f" --emulate {','.join(f'{port}=1000000000' for port in PORTS)}\n"
    ),
}
INTENT = """
name: pair
forwarding: bridged
addresses: {macs: 03:54:53:4e:06:00 - 03:54:53:4e:06:ff, vlans: 10}
defaults: {rate: 1Gbps, propagation: 100ns, processing: {min: 1us, max: 5us}, clock-error: 1us,
           gate-margin: 50us, talker-interference: none, windows: exact, gates: software,
           user: operator}
classes:
  control:     {traffic-class: 7, priority: 7, role: control, max-frame: 128B}
  cyclic:      {traffic-class: 6, priority: 6, role: scheduled}
  best-effort: {traffic-class: 0, priority: 0, role: best-effort, max-frame: 1522B}
switches:
  s1: {management: 127.0.0.1, ports: [p1, p2]}
end-stations: {t1: {mac: 02:00:00:00:00:01}, l1: {mac: 02:00:00:00:00:02}}
links: [[t1/eth0, s1/p1], [s1/p2, l1/eth0]]
streams: {}
"""

MODULE = "ieee802-dot1q-cnc-config"
STREAM_ID = "02-00-00-00-00-01:00-01"
# What the CUC plc asks for, and where it puts that.
STREAM = f"/restconf/data/{MODULE}:cnc-config/domain=pair/cuc=plc/stream={quote(STREAM_ID)}"
CAPABLE = {"vlan-tag-capable": True, "cb-stream-iden-type-list": [8438275]}
ASKED = {
    f"{MODULE}:stream": [
        {
            "stream-id": STREAM_ID,
            "talker": {
                "end-station-interfaces": [
                    {"mac-address": "02-00-00-00-00-01", "interface-name": ""}
                ],
                "interface-capabilities": CAPABLE,
                "data-frame-specification": [
                    {"index": 0, "ieee802-vlan-tag": {"priority-code-point": 6, "vlan-id": 0}}
                ],
                "traffic-specification": {
                    "interval": {"numerator": 1, "denominator": 100},
                    "max-frames-per-interval": 1,
                    "max-frame-size": 100,
                    "time-aware": {},
                },
                "user-to-network-requirements": {"max-latency": 5_000_000},
            },
            "listener": [
                {
                    "index": 0,
                    "end-station-interfaces": [
                        {"mac-address": "02-00-00-00-00-02", "interface-name": ""}
                    ],
                    "interface-capabilities": CAPABLE,
                }
            ],
        }
    ]
}


@dataclass(frozen=True)
class Answer:
    """What came over HTTPS: status, and the document or none."""

    status: int
    document: Any


class Controller:
    """The machine, what systemd says of its units, and what the service answers to curl."""

    def __init__(self, machine: Container, directory: Path) -> None:
        self.machine = machine
        self._certificate = directory / "tls.crt"
        subprocess.run([NEED, "curl"], check=True)

    def install(self, package: Path) -> None:
        self.machine.put(package, f"/root/{package.name}")
        self.machine.run(f"DEBIAN_FRONTEND=noninteractive dpkg -i /root/{package.name}")

    def enrol(self) -> None:
        """Make the controller's key, admit it on the switch, take the switch's host key; write the
        intent."""
        self.machine.write("/etc/cnc/network.yaml", INTENT.encode())
        self.machine.run(
            "ssh-keygen -q -t ed25519 -N '' -f /etc/cnc/id_ed25519"
            " && chown cnc: /etc/cnc/id_ed25519"
            " && install -m 644 /etc/cnc/id_ed25519.pub /etc/tsn/authorized_keys/operator"
            " && (printf '[127.0.0.1]:830 '; cat /var/lib/tsn-netconfd/host_key.pub)"
            " > /etc/cnc/known_hosts"
        )

    # --- what systemd says ------------------------------------------------------------------------

    def property(self, unit: str, name: str) -> str:
        return self.machine.run(f"systemctl show --value -p {name} {unit}").stdout.strip()

    def states(self) -> dict[str, str]:
        """Each unit, and whether it is active. All are there."""
        missing = [each for each in UNITS if self.property(each, "LoadState") != "loaded"]
        assert missing == []
        return {unit: self.property(unit, "ActiveState") for unit in (*UNITS, PORT_UNIT)}

    def until_active(self) -> None:
        until(lambda: set(self.states().values()) == {"active"}, "all units")

    def processes(self) -> dict[str, str]:
        """The main process of each unit."""
        return {unit: self.property(unit, "MainPID") for unit in UNITS}

    def as_user(self, unit: str, command: str) -> int:
        """What becomes of a command in the place of a unit's process: its files, network, user."""
        pid, user = self.property(unit, "MainPID"), self.property(unit, "User")
        entered = f"nsenter -t {pid} -m -n setpriv --reuid {user} --regid {user} --clear-groups"
        return self.machine.run(f"{entered} {command}", check=False).code

    # --- what the service answers -----------------------------------------------------------------

    def trust(self) -> None:
        """Take the certificate that the service has made, as an operator copies it."""
        text = self.machine.run("cat /var/lib/tsn-cnc-web/tls.crt").stdout
        self._certificate.write_text(text, encoding="ascii")

    def token(self, *words: str) -> str:
        """What `cnc token` prints, as an operator of the machine uses it."""
        as_cnc = "sudo -u cnc env CNC_STATE_DIR=/var/lib/cnc"
        return self.machine.run(f"{as_cnc} cnc token {' '.join(words)}").stdout.strip()

    def first_token(self) -> str:
        """The admin's, as root reads it."""
        return self.machine.run("cat /var/lib/cnc/admin.token").stdout.strip()

    def curl(self, path: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Ask with curl, with nothing but the certificate trusted."""
        command = ["curl", "--silent", "--show-error", "--cacert", str(self._certificate)]
        return self.machine.in_network(*command, *options, f"{URL}{path}")

    def ask(self, token: str, path: str, document: Any = None, method: str | None = None) -> Answer:
        """Ask with a token; a document is put unless the method is another."""
        options = ["-H", f"Authorization: Bearer {token}", "-w", "\n%{http_code}"]
        if document is not None:
            options += ["-H", "Content-Type: application/yang-data+json"]
            options += ["--data", json.dumps(document)]
        if document is not None or method:
            options += ["-X", method or "PUT"]
        done = self.curl(path, *options)
        assert done.returncode == 0, done.stderr
        text, _, status = done.stdout.rpartition("\n")
        return Answer(int(status), json.loads(text) if text else None)

    def status_of(self, token: str, stream: str) -> str:
        """The `stream-status` of a stream at its path below /restconf/data."""
        (found,) = self.ask(token, stream).document.values()
        return found[0]["stream-status"]

    def running_ports(self) -> set[str]:
        """The ports of switches that run gate control lists as planned, as their agents say."""
        ports = self.ask(self.first_token(), "/api/v1/status").document
        assert all(port["agrees"] for port in ports), ports
        return {port["port"] for port in ports if port["running"]}
