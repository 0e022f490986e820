"""Checks on every switch at once what could prevent a change, and changes nothing.

A rollout makes the same checks (`preflight`) but stops at the first step that a switch refuses.
Here each switch is checked as far as it answers, also for what a rollout does not check: the YANG
modules, and this user's right to log in, lock and write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from lxml import etree

from cnc.data_tree.state import SwitchState
from cnc.data_tree.tree import NETCONF
from cnc.mechanisms.registry import MEASURED
from cnc.mechanisms.second_look import second_look
from cnc.model import Bridge, EndStation, Intent, Plan
from cnc.rollout.preflight import Check, Finding, Verdict, examine
from cnc.rollout.preflight.cabling import examine_cabling
from cnc.support.wording import named
from cnc.switch import startup
from cnc.switch.device import (
    ConnectOptions,
    Device,
    DeviceError,
    HostKeyRefused,
    LoginRefused,
    Managed,
)
from cnc.switch.monitoring import ServerReport
from cnc.switch.offered import CAPABILITY, needed_modules
from cnc.switch.parallel import answers
from cnc.switch.payload import desired_nodes
from cnc.switch.rollout_id import RolloutId, rollout_id_element
from cnc.switch.topology import TopologyReport

T = TypeVar("T")

_DAMAGED = (
    "push the plan, or copy running to startup (copy-config) if the switch is to boot with what it "
    "runs: either ends this warning; the unreadable file is on the switch beside startup, as "
    "MODULE.startup.damaged: look for a full or failing disk"
)
NEEDED_BY_END_STATIONS: Mapping[str, frozenset[str]] = dict.fromkeys(
    ("ietf-interfaces", "iana-if-type", "tsn-linux", "tsn-end-station"), frozenset()
)


@dataclass(frozen=True, slots=True)
class Visit:
    """Findings of one switch, its state and who its neighbours are; None where that could not be
    read."""

    findings: tuple[Finding, ...]
    state: SwitchState | None
    topology: TopologyReport | None = None


def visit(intent: Intent, *, connect: ConnectOptions) -> dict[str, Visit]:
    """Check every node that is managed. One that does not answer is a finding, not an error."""
    network = intent.network
    settings = desired_nodes(Plan(intent, {}, {}, algorithm="none"))

    def check(node: Bridge | EndStation) -> Visit:
        ports = settings[node.name]
        try:
            with Device(Managed.of(node, ports), connect) as device:
                return _Visit(device, intent).make(set(ports))
        except DeviceError as error:
            return Visit((_no_session(error),), None)

    visits = answers(list(network.managed.values()), check)
    return {name: result for name, result in visits.items() if isinstance(result, Visit)}


def states(visits: Mapping[str, Visit]) -> dict[str, SwitchState]:
    """The states that could be read, by switch."""
    return {name: visit.state for name, visit in visits.items() if visit.state}


def diagnose(plan: Plan, visits: Mapping[str, Visit]) -> list[Finding]:
    """All findings, including those about `plan`, which may be one without any list."""
    findings = [finding for visit in visits.values() for finding in visit.findings]
    findings += [
        finding
        for name, state in states(visits).items()
        for each in MEASURED
        for finding in each.unmeasured(plan, name, state)
    ]
    topologies = {name: its.topology for name, its in visits.items() if its.topology}
    findings += examine_cabling(plan.intent.network, topologies)
    return findings + examine(
        desired_nodes(plan),
        states(visits),
        clock_error_ns=plan.intent.network.clock_error_ns,
        plan=plan,
    )


def _no_session(error: DeviceError) -> Finding:
    check = Check.REACHABLE
    if isinstance(error, HostKeyRefused):
        check = Check.HOST_KEY
    if isinstance(error, LoginRefused):
        check = Check.LOGIN
    return Finding(error.switch, None, check, Verdict.FAILED, error.reason, error.hint)


class _Visit:
    """The checks of one switch, in an open session."""

    def __init__(self, device: Device, intent: Intent) -> None:
        self._device = device
        self._intent = intent
        self._findings: list[Finding] = []

    def make(self, ports: set[str]) -> Visit:
        device = self._device
        for check in (Check.REACHABLE, Check.HOST_KEY, Check.LOGIN):
            self._add(check, Verdict.OK, "yes")
        self._capabilities()
        server = self._attempt(Check.MODULES, device.server)
        if server:
            self._modules(server)
            self._locks(server)
            if startup.MODULE in server.modules:
                self._startup()
        state = self._attempt(Check.AGENT, lambda: device.state(ports))
        if state and state.agent:
            self._second_look(state)
        stored = self._attempt(Check.ROLLOUT, lambda: device.stored(ports))
        rollout_id = stored.rollout_id if stored else None
        if stored:
            text = (
                f"{rollout_id.id} of {rollout_id.controller}, {rollout_id.time}"
                if rollout_id
                else "none yet"
            )
            if state and state.agent and state.agent.kept_term:
                text += f"; {state.agent.kept_term}"
            self._add(Check.ROLLOUT, Verdict.OK, text)
        if not (server and server.locks):
            self._try_edit(rollout_id or RolloutId.of_this_controller())
        topology = None if self._device.is_end_station else self._topology()
        return Visit(tuple(self._findings), state, topology)

    def _topology(self) -> TopologyReport | None:
        """Neighbours are nice to know: a switch that does not tell them is none to refuse."""
        try:
            return self._device.topology()
        except DeviceError:
            return None

    def _capabilities(self) -> None:
        lacking = self._device.lacking()
        if lacking:
            self._add(Check.CAPABILITIES, Verdict.FAILED, lacking.reason, lacking.hint)
        else:
            self._add(Check.CAPABILITIES, Verdict.OK, "all that are needed")

    def _modules(self, server: ServerReport) -> None:
        modules = server.modules or {n: m.features for n, m in self._device.modules.items()}
        if not modules:
            text = "the server reports no YANG library"
            self._add(Check.MODULES, Verdict.UNKNOWN, text, "check that this user may read it")
            return
        needed = NEEDED_BY_END_STATIONS if self._device.is_end_station else {}
        if self._intent.network.gate_mode(self._device.name) is not None:
            needed = {**needed, **needed_modules(self._device.profile)}
        missing = list(_missing(needed, modules))
        if missing:
            text = f"not installed: {', '.join(missing)}"
            self._add(Check.MODULES, Verdict.FAILED, text, self._how_to_install())
        else:
            self._add(Check.MODULES, Verdict.OK, f"{len(needed)} of them")

    def _how_to_install(self) -> str:
        if self._device.profile:
            return f"is its profile {self._device.profile.name} right? `cnc discover` drafts one"
        return (
            "run yang/install on the switch; if it does not run tsn-agent, state its `profile`, "
            "which `cnc discover` drafts"
        )

    def _locks(self, server: ServerReport) -> None:
        for lock in server.locks:
            self._add(
                Check.LOCKS,
                Verdict.FAILED,
                f"{lock.datastore} is locked by session {lock.session_id}: {lock.holder}",
                "another operator or tool holds the lock; try again later",
            )

    def _startup(self) -> None:
        """A startup that was lost. Servers of the first versions have the module, not this
        state."""
        try:
            damaged = self._device.damaged_startup()
        except DeviceError:
            return
        if damaged:
            text = (
                f"its startup configuration was unreadable in {named(damaged)}: all of startup was "
                "replaced by its last good copy, which may be older"
            )
            self._add(Check.STORED, Verdict.WARNING, text, _DAMAGED)

    def _second_look(self, state: SwitchState) -> None:
        """Such as starved frames. They do not prevent a push, which may correct the schedule."""
        found = self._attempt(
            Check.STARVATION,
            lambda: second_look(self._device.name, self._device.state, state, self._intent),
        )
        for port, troubles in (found or {}).items():
            for followed, text in troubles:
                self._add(followed.check, Verdict.WARNING, text, followed.hint, port=port)

    def _try_edit(self, rollout_id: RolloutId) -> None:
        """Lock, and let the server test an edit; both end with the session.

        Only a lock request reveals a confirmed commit that is not confirmed yet, and a candidate
        with uncommitted edits of another client (RFC 6241 7.5).
        """
        config = etree.Element(f"{{{NETCONF}}}config")
        config.append(rollout_id_element(rollout_id))
        try:
            self._device.lock("running")
            self._device.lock("candidate")
        except DeviceError as error:
            self._add(Check.LOCKS, Verdict.FAILED, error.reason, error.hint)
            return
        self._add(Check.LOCKS, Verdict.OK, "free")
        # Of that edit nothing is left for a switch with a profile.
        if self._device.profile or f"{CAPABILITY}validate:1.1" not in self._device.capabilities:
            return
        try:
            self._device.try_edit(config)
        except DeviceError as error:
            self._add(Check.RIGHTS, Verdict.FAILED, error.reason, error.hint)
        else:
            self._add(Check.RIGHTS, Verdict.OK, "the server accepts an edit")

    def _attempt(self, check: Check, request: Callable[[], T]) -> T | None:
        """The reply; None where the switch refuses, which becomes a finding."""
        try:
            return request()
        except DeviceError as error:
            self._add(check, Verdict.FAILED, error.reason, error.hint)
            return None

    def _add(
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


def _missing(
    needed: Mapping[str, frozenset[str]], modules: Mapping[str, frozenset[str]]
) -> Iterator[str]:
    for name, features in needed.items():
        if name not in modules:
            yield name
        elif lacking := features - modules[name]:
            yield f"{name} with the feature {', '.join(sorted(lacking))}"
