"""A lab for all tests of a module, as new for each that asks: a tenth of what another lab costs."""

from __future__ import annotations

import difflib
import subprocess

from lxml.etree import _Element as Element
from ncclient.xml_ import to_ele

from cnc.testbed.lab import Lab
from cnc.testbed.lab.switch import PROGRAMS
from tests.stack.front_end import BASE, FrontEnd

DATASTORES = ("running", "startup", "candidate")
# What an agent, a push or a test may change in a switch's kernel.
SHOW_KERNEL = (
    "tc qdisc show | grep -v tsn-wake-ups; iptables-save -t mangle; ip6tables-save -t mangle; "
    "{ ip -oneline link show; ip -oneline address show; ip route show table all; "
    "ip neighbour show nud permanent; } | "
    "grep -v -e mgmt -e tsn-wake-ups"  # that comes up when it likes, this with each agent
)
# In a listing of rules: when it was made, and each chain's policy with its counters.
VARYING = ("# ", ":")
# Lines of a difference worth reading.
FEW = 20


class SharedLab:
    """Wraps a lab that has just come up."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._bridges = lab.intent.network.bridges
        self._configuration = {name: self._configured(name) for name in self._bridges}
        self._kernels = {name: self._kernel(name) for name in self._bridges}

    def reset(self) -> None:
        """Start programs that were killed, take all plans off the switches, and prove it.

        Raises AssertionError with the difference if a switch is not as new.
        """
        self._revive()
        for name in self._bridges:
            if self._configured(name) != self._configuration[name]:
                self._restore(name)
            assert self._configured(name) == self._configuration[name], name
            kernel = self._kernel(name)
            assert kernel == self._kernels[name], _difference(name, self._kernels[name], kernel)

    def _revive(self) -> None:
        gone = [
            (name, program)
            for name in self._bridges
            for program in PROGRAMS
            if self.lab.switch(name).pid(program) is None
        ]
        for name, program in gone:
            self.lab.start(name, program)
        if gone:
            self.lab.wait_ready()

    def _kernel(self, name: str) -> str:
        shown = subprocess.run(
            self.lab.command(name, ["sh", "-c", SHOW_KERNEL]),
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout
        # The kernel lists neighbours in no order.
        lines = sorted(line for line in shown.splitlines() if not line.startswith(VARYING))
        return "\n".join(lines)

    def _configured(self, name: str) -> list[str]:
        with self._server(name).connect() as client:
            return [client.get_config(datastore).data_xml for datastore in DATASTORES]

    def _restore(self, name: str) -> None:
        running, startup, _ = map(_source, self._configuration[name])
        with self._server(name).connect() as client:
            client.discard_changes()
            client.copy_config(source=running, target="candidate")
            client.commit()
            client.copy_config(source=startup, target="startup")

    def _server(self, name: str) -> FrontEnd:
        reached = self._bridges[name].management
        assert reached is not None
        prefix = f"[{reached.address}]:{reached.port} "
        (line,) = (
            line
            for line in self.lab.known_hosts.read_text().splitlines()
            if line.startswith(prefix)
        )
        _, key_type, key = line.split()[:3]
        return FrontEnd(
            reached.address, reached.port, reached.user or "", self.lab.identity, key_type, key
        )


def _source(data_xml: str) -> Element:
    """A <data> as ncclient takes what is to be copied: a <source> that holds a <config>."""
    source = to_ele(f'<source xmlns="{BASE}"><config/></source>')
    source[0].extend(to_ele(data_xml))
    return source


def _difference(name: str, before: str, after: str) -> str:
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), f"{name} when new", name, n=0, lineterm=""
    )
    return "\n".join(list(lines)[:FEW])
