"""What stands in the way of a change, asked of every switch at once, and nothing is changed.

A rollout looks at the same things (`preflight`) but stops at the first step that some switch
refuses. Here each switch is asked as far as it answers, and more than a rollout asks: which modules
it has, and whether it would let this user in, lock it and write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from lxml import etree

from cnc import margin
from cnc.model import Bridge, Intent, Plan
from cnc.rollout import starvation
from cnc.rollout.parallel import answers
from cnc.rollout.preflight import Check, Finding, Verdict, examine
from cnc.switch.device import (
    ConnectOptions,
    Device,
    DeviceError,
    HostKeyRefused,
    LoginRefused,
    SwitchState,
)
from cnc.switch.monitoring import ServerReport
from cnc.switch.payload import desired_ports
from cnc.switch.rollout_id import RolloutId, rollout_id_element
from cnc.switch.tree import NETCONF

T = TypeVar("T")

_CAPABILITY = "urn:ietf:params:netconf:capability:"
# RFC 6241 8.3, 8.4, 8.6, 8.7; of these versions, since 1.0 knows neither <persist> nor test-only.
NEEDED_CAPABILITIES = ("candidate:1.0", "confirmed-commit:1.1", "validate:1.1", "startup:1.0")
# What an edit-config of a rollout speaks of, and the features it needs.
NEEDED_MODULES: Mapping[str, frozenset[str]] = {
    "ietf-interfaces": frozenset(),
    "iana-if-type": frozenset(),
    "ieee802-dot1q-bridge": frozenset(),
    "ieee802-dot1q-sched": frozenset({"scheduled-traffic"}),
    "ieee802-dot1q-sched-bridge": frozenset(),
    "tsn-linux": frozenset(),
}


@dataclass(frozen=True, slots=True)
class Visit:
    """What one switch answered; `state` is None where it could not be read."""

    findings: tuple[Finding, ...]
    state: SwitchState | None


def visit(intent: Intent, *, connect: ConnectOptions) -> dict[str, Visit]:
    """Ask every switch of the intent. One that does not answer raises nothing: it is a finding."""
    network = intent.network
    ports = {
        name: {link.port for link in network.links if link.node == name} for name in network.bridges
    }

    def ask(bridge: Bridge) -> Visit:
        try:
            with Device(bridge, connect) as device:
                return _Visit(device, intent).make(ports[bridge.name])
        except DeviceError as error:
            return Visit((_no_session(error),), None)

    visits = answers(list(network.bridges.values()), ask)
    return {name: made for name, made in visits.items() if isinstance(made, Visit)}


def states(visits: Mapping[str, Visit]) -> dict[str, SwitchState]:
    """The states of the switches that told theirs."""
    return {name: visit.state for name, visit in visits.items() if visit.state}


def diagnose(plan: Plan, visits: Mapping[str, Visit]) -> list[Finding]:
    """Everything found, with what `plan` asks of the switches. It may be one without any list."""
    network = plan.intent.network
    findings = [finding for visit in visits.values() for finding in visit.findings]
    findings += [
        Finding(name, None, Check.MARGIN, Verdict.WARNING, text, margin.HINT)
        for name in states(visits)
        if (text := margin.warning(plan, name))
    ]
    return findings + examine(
        {name: desired_ports(plan, name) for name in network.bridges},
        states(visits),
        clock_error_ns=network.clock_error_ns,
        network=network,
    )


def _no_session(error: DeviceError) -> Finding:
    check = Check.REACHABLE
    if isinstance(error, HostKeyRefused):
        check = Check.HOST_KEY
    if isinstance(error, LoginRefused):
        check = Check.LOGIN
    return Finding(error.switch, None, check, Verdict.FAILED, error.reason, error.hint)


class _Visit:
    """The questions to one switch, in a session that is open."""

    def __init__(self, device: Device, intent: Intent) -> None:
        self._device = device
        self._intent = intent
        self._findings: list[Finding] = []

    def make(self, ports: set[str]) -> Visit:
        device = self._device
        for check in (Check.REACHABLE, Check.HOST_KEY, Check.LOGIN):
            self._found(check, Verdict.OK, "yes")
        self._capabilities()
        server = self._asked(Check.MODULES, device.server)
        if server:
            self._modules(server)
            self._locks(server)
        state = self._asked(Check.AGENT, lambda: device.state(ports))
        if state and state.agent:
            self._starvation(state)
        stored = self._asked(Check.ROLLOUT, lambda: device.stored(ports))
        rollout_id = stored.rollout_id if stored else None
        if stored:
            text = (
                f"{rollout_id.id} of {rollout_id.controller}, {rollout_id.time}"
                if rollout_id
                else "none yet"
            )
            self._found(Check.ROLLOUT, Verdict.OK, text)
        if not (server and server.locks):
            self._rehearse(rollout_id or RolloutId.of_this_controller())
        return Visit(tuple(self._findings), state)

    def _capabilities(self) -> None:
        present = self._device.capabilities
        missing = [name for name in NEEDED_CAPABILITIES if _CAPABILITY + name not in present]
        if missing:
            self._found(
                Check.CAPABILITIES,
                Verdict.FAILED,
                f"its NETCONF server has not {', '.join(f':{name}' for name in missing)}",
                "a change of all switches or none needs them: use tsn-netconfd or netopeer2",
            )
        else:
            self._found(Check.CAPABILITIES, Verdict.OK, "all that are needed")

    def _modules(self, server: ServerReport) -> None:
        if not server.modules:
            text = "the server shows no YANG library"
            self._found(Check.MODULES, Verdict.UNKNOWN, text, "may this user read it?")
            return
        missing = list(_missing(server.modules))
        if missing:
            text = f"not installed: {', '.join(missing)}"
            self._found(Check.MODULES, Verdict.FAILED, text, "run yang/install on the switch")
        else:
            self._found(Check.MODULES, Verdict.OK, f"{len(NEEDED_MODULES)} of them")

    def _locks(self, server: ServerReport) -> None:
        for lock in server.locks:
            self._found(
                Check.LOCKS,
                Verdict.FAILED,
                f"{lock.datastore} is locked by session {lock.session_id}: {lock.holder}",
                "another operator or tool is at work; try again when it is done",
            )

    def _starvation(self, state: SwitchState) -> None:
        """Frames that wait for ever now. A push is not refused for it: one may be the cure."""
        starved = self._asked(
            Check.STARVATION,
            lambda: starvation.starved_ports(self._device, state, self._intent),
        )
        for port, words in (starved or {}).items():
            text = f"starved: {words}"
            self._found(Check.STARVATION, Verdict.WARNING, text, starvation.HINT, port=port)

    def _rehearse(self, rollout_id: RolloutId) -> None:
        """Lock, and let the server test an edit; both end with the session.

        Only a lock tells of a confirmed commit that nobody has confirmed yet, and of a candidate
        with somebody's work in it (RFC 6241 7.5).
        """
        config = etree.Element(f"{{{NETCONF}}}config")
        config.append(rollout_id_element(rollout_id))
        try:
            self._device.lock("running")
            self._device.lock("candidate")
        except DeviceError as error:
            self._found(Check.LOCKS, Verdict.FAILED, error.reason, error.hint)
            return
        self._found(Check.LOCKS, Verdict.OK, "free")
        if f"{_CAPABILITY}validate:1.1" not in self._device.capabilities:
            return
        try:
            self._device.try_edit(config)
        except DeviceError as error:
            self._found(Check.RIGHTS, Verdict.FAILED, error.reason, error.hint)
        else:
            self._found(Check.RIGHTS, Verdict.OK, "the server takes an edit")

    def _asked(self, check: Check, question: Callable[[], T]) -> T | None:
        """The answer; None where the switch refuses, which is a finding."""
        try:
            return question()
        except DeviceError as error:
            self._found(check, Verdict.FAILED, error.reason, error.hint)
            return None

    def _found(
        self,
        check: Check,
        verdict: Verdict,
        text: str,
        hint: str | None = None,
        *,
        port: str | None = None,
    ) -> None:
        finding = Finding(self._device.name, port, check, verdict, text, hint)
        self._findings.append(finding)


def _missing(modules: Mapping[str, frozenset[str]]) -> Iterator[str]:
    for name, features in NEEDED_MODULES.items():
        if name not in modules:
            yield name
        elif lacking := features - modules[name]:
            yield f"{name} with the feature {', '.join(sorted(lacking))}"
