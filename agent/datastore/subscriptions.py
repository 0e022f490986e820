"""The agent's sysrepo subscriptions: seven for configuration, eight for operational data. And what
it says of its own accord.

Configuration is under the roots of six modules. A commit that changes several is as many events;
each sees its own module as it is to be and the others as they were. The callback reads the whole
tree, which is several times faster than walking the changes. The id of a rollout is one more: a
controller that sends what is configured already, for a kernel that does something else, changes
nothing but that. Of it sysrepo asks once more, before it announces a commit for any module
("update"): one that is late, or of another controller than the one that acts for the network, is
refused before the agent has touched a port.
"""

from __future__ import annotations

import json
import logging
import os
import platform
from collections.abc import Collection
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from typing import Any

from agent import lldp, operational
from agent.datastore.changes import SETTLE_TIMEOUT_S, Changes
from agent.datastore.counter_starts import CounterStarts
from agent.datastore.memory import MemoryFile
from agent.datastore.notifications import send
from agent.datastore.observer import Observer
from agent.datastore.open_change import Request
from agent.datastore.requested import requested_ports
from agent.datastore.rollout import ROLLOUT_MODULE
from agent.datastore.rollouts import AppliedRollouts
from agent.datastore.watch import Watch
from agent.events import AgentStarted
from agent.mechanism import FRER, MULTIPATH, PTP, STREAM_IDENTITY, Tree
from agent.model import AgentError, Refusal
from agent.switch import Switch
from agent.sysrepo import (
    SysrepoConnection,
    SysrepoError,
    SysrepoTimeOutError,
)
from agent.sysrepo.data import get_json, module_names
from agent.sysrepo.errors import NetconfError, refuse
from agent.sysrepo.operational import provide
from agent.sysrepo.startup import mend

LOG = logging.getLogger(__name__)

# The xpaths are needed: without one the bindings drop the text of a refusal.
INTERFACES = "/ietf-interfaces:interfaces"
BRIDGES = "/ieee802-dot1q-bridge:bridges"
STREAM_IDENTITIES = "/ieee802-dot1cb-stream-identification:stream-identity"
FRER_TABLES = "/ieee802-dot1cb-frer:frer"
PTP_INSTANCES = "/ieee1588-ptp-tt:ptp"
PATHS = "/tsn-multipath:multipath"
ROLLOUT = "/tsn-linux:rollout"
CONFIGURATION = " | ".join(
    (INTERFACES, BRIDGES, STREAM_IDENTITIES, FRER_TABLES, PTP_INSTANCES, PATHS, ROLLOUT)
)
AGENT = "/tsn-linux:agent"
LLDP = "/tsn-linux:lldp"

MODULES = (
    "ietf-interfaces",
    "iana-if-type",
    "ieee802-dot1q-bridge",
    "ieee802-dot1cb-stream-identification",
    "ieee802-dot1cb-frer",
    "ieee802-dot1q-psfp-bridge",
    "ieee802-dot1q-sched",
    "ieee802-dot1q-sched-bridge",
    "ieee802-dot1q-cbsa-bridge",
    "ieee802-dot1q-preemption-bridge",
    "ieee1588-ptp-tt",
    "ieee802-dot1as-gptp",
    "tsn-linux",
    "tsn-end-station",
    "tsn-multipath",
)
# Nobody can subscribe while a commit waits for an agent that was killed. A commit of our NETCONF
# server waits 20 s, and sysrepo gives up a subscription after 15 s.
SUBSCRIBE_ATTEMPTS = 4
# Served where it is installed: a bridge can do without.
GATES_ON_INTERFACES = "ieee802-dot1dc-sched-if"


class DatastoreError(Exception):
    """The agent cannot serve this datastore; the message says why and what to do next."""


class Datastore:
    """Serves one sysrepo repository with one switch, from construction until `close`."""

    def __init__(
        self,
        switch: Switch,
        *,
        settle_timeout_s: float = SETTLE_TIMEOUT_S,
        memory_file: MemoryFile | None = None,
        rollouts: AppliedRollouts | None = None,
    ) -> None:
        """Reconcile the ports with the running datastore, then follow it.

        Raises `DatastoreError`.
        """
        self._switch = switch
        self._started = datetime.now(UTC)
        self._counter_starts = CounterStarts(self._started)
        self._open = ExitStack()
        try:
            self._connection = self._open.enter_context(SysrepoConnection())
            present = self._modules()
            _refuse_missing_modules(present)
            self._on_interfaces = GATES_ON_INTERFACES in present
            self._refuse_second_agent()
            mend(self._connection)
            self._changes = Changes(
                switch, self._read_running, settle_timeout_s, memory_file, rollouts
            )
            self._open.callback(self._changes.close)
            self._follow_configuration()
            self._watch()
            self._publish_state()
        except SysrepoError as error:
            self._open.close()
            raise DatastoreError(f"sysrepo: {error}") from error
        except DatastoreError:
            self._open.close()
            raise

    def close(self) -> None:
        """Unsubscribe. What the kernel runs goes on."""
        self._open.close()

    def answers(self) -> bool:
        """Whether a client that asks for the agent's state now hears from this process.

        Waits as long as sysrepo lets a subscriber take, 5 s.
        """
        try:
            return self._serving_pid() == os.getpid()
        except SysrepoError as error:
            LOG.warning("sysrepo: %s", error)
            return False

    def _serving_pid(self) -> int | None:
        with self._connection.start_session("operational") as session:
            serving = get_json(session, f"{AGENT}/pid").get("tsn-linux:agent", {})
        pid: int | None = serving.get("pid")
        return pid

    def _modules(self) -> set[str]:
        with self._connection.get_ly_ctx() as context:
            return set(module_names(context).values())

    def _refuse_second_agent(self) -> None:
        if pid := self._serving_pid():
            raise DatastoreError(f"process {pid} already serves this datastore; stop it first")

    # A session each: each has its thread, and none waits for another.

    def _follow_configuration(self) -> None:
        configuration = self._open.enter_context(self._connection.start_session())
        self._subscribe(configuration, ROLLOUT_MODULE, ROLLOUT, update=True)
        self._subscribe(configuration, "ieee802-dot1q-bridge", BRIDGES)
        self._subscribe(configuration, "ieee802-dot1cb-stream-identification", STREAM_IDENTITIES)
        self._subscribe(configuration, "ieee802-dot1cb-frer", FRER_TABLES)
        self._subscribe(configuration, "ieee1588-ptp-tt", PTP_INSTANCES)
        self._subscribe(configuration, "tsn-multipath", PATHS)
        # `enabled` delivers the running datastore first, an empty one too: that is the reconcile.
        self._subscribe(configuration, "ietf-interfaces", INTERFACES, enabled=True)

    def _subscribe(
        self,
        session: Any,
        module: str,
        xpath: str,
        *,
        enabled: bool = False,
        update: bool = False,
    ) -> None:
        """`update`: also before a commit that changes this module is announced for any."""
        for attempts_left in reversed(range(SUBSCRIBE_ATTEMPTS)):
            try:
                session.subscribe_module_change_unsafe(
                    module,
                    xpath,
                    self._on_change,
                    enabled=enabled,
                    update=update,
                    private_data=module,
                )
            except SysrepoTimeOutError as error:
                if not attempts_left:
                    raise
                LOG.warning("a client still waits for an agent that has ended: %s", error)
            else:
                return

    def _watch(self) -> None:
        session = self._open.enter_context(self._connection.start_session("operational"))
        watch = Watch(self._switch, self._changes, partial(send, session))
        self._open.callback(watch.close)
        # A session is not to be used by two threads.
        found = self._open.enter_context(self._connection.start_session("operational"))
        observer = Observer(self._switch, self._changes, partial(send, found))
        self._open.callback(observer.close)
        send(session, AgentStarted(os.getpid()))

    def _publish_state(self) -> None:
        state = self._open.enter_context(self._connection.start_session("operational"))
        # Merged: otherwise sysrepo would drop the configuration from what a client reads.
        self._open.enter_context(
            provide(state, "ietf-interfaces", INTERFACES, self._interfaces_json, merge=True)
        )
        # Not merged: an entry that the kernel has lost is none, whatever is configured.
        self._open.enter_context(
            provide(state, "ieee802-dot1q-bridge", BRIDGES, self._bridges_json, merge=False)
        )
        for module, xpath, node in (
            ("ieee802-dot1cb-stream-identification", STREAM_IDENTITIES, STREAM_IDENTITY),
            ("ieee802-dot1cb-frer", FRER_TABLES, FRER),
            ("ieee1588-ptp-tt", PTP_INSTANCES, PTP),
            ("tsn-multipath", PATHS, MULTIPATH),
        ):
            read = partial(self._of_switch_json, node)
            self._open.enter_context(provide(state, module, xpath, read, merge=False))
        # Apart from the agent's own, which is asked for often: the daemon is asked each time.
        self._open.enter_context(provide(state, "tsn-linux", LLDP, self._lldp_json, merge=False))
        # Last, because a client that sees it may rely on everything else.
        self._open.enter_context(provide(state, "tsn-linux", AGENT, self._agent_json, merge=False))

    def _read_running(self) -> Tree:
        with self._connection.start_session() as session:
            return get_json(session, CONFIGURATION)

    def _on_change(self, session: Any, event: str, number: int, module: str) -> None:
        request = Request(module, number)
        if event == "abort":
            self._changes.abort(request)
            return
        if event == "done" and number == 0:
            return  # the end of "enabled", which cannot be refused
        if event == "done":
            self._changes.done(request, lambda: get_json(session, CONFIGURATION))
            return
        if event == "enabled":
            self._changes.start(get_json(session, CONFIGURATION))
            return
        try:
            if event == "update":
                self._changes.refuse(get_json(session, ROLLOUT))
            else:
                self._changes.change(request, get_json(session, CONFIGURATION))
        except AgentError as error:
            LOG.warning("change %d of %s refused:\n%s", number, module, error)
            refuse(session, [_netconf_error(each) for each in error.refusals])

    def _interfaces_json(self, xpath: str | None) -> str:
        ports = requested_ports(xpath)
        with self._changes.lock:
            states = self._switch.read()
            history = self._changes.memory.history
            counting_since = self._counter_starts.of(states, datetime.now(UTC))
        tree = operational.interfaces(
            self._switch.ports.mechanisms,
            {name: state for name, state in states.items() if ports is None or name in ports},
            history,
            self._switch.ports.now_ns,
            counting_since=counting_since,
            on_interfaces=self._on_interfaces,
            wake_ups=self._switch.ports.wake_ups(),
        )
        return json.dumps(tree)

    def _bridges_json(self, _xpath: str | None) -> str:
        with self._changes.lock:
            states = self._switch.read()
        tree = operational.bridges(self._switch.ports.mechanisms, states)
        return json.dumps(tree) if tree else ""

    def _of_switch_json(self, node: str, _xpath: str | None) -> str:
        """One of the top-level nodes that mechanisms fill from all ports."""
        with self._changes.lock:
            states = self._switch.read()
        tree = operational.of_switch(self._switch.ports.mechanisms, states)
        return json.dumps({node: tree[node]}) if node in tree else ""

    def _lldp_json(self, _xpath: str | None) -> str:
        tree = operational.lldp(lldp.read())
        return json.dumps(tree) if tree else ""

    def _agent_json(self, _xpath: str | None) -> str:
        with self._changes.lock:
            of_mechanisms = self._switch.ports.leaves()
            gates_wait = self._changes.gates_wait()
            not_applied = self._changes.not_applied()
            kept_term = self._changes.kept_term
        tree = operational.agent(
            version=_version(),
            pid=os.getpid(),
            started=self._started,
            kernel_release=platform.release(),
            of_mechanisms=of_mechanisms,
            tai_offset_s=self._switch.ports.tai_offset_s(),
            ptp=self._switch.ports.ptp_status(),
            last_change=self._changes.memory.last_change,
            gates_wait=gates_wait,
            not_applied=not_applied,
            kept_term=kept_term,
        )
        return json.dumps(tree)


def _netconf_error(refusal: Refusal) -> NetconfError:
    """With the path of the port, whatever names it in the configuration."""
    name, path = refusal.port, None
    # XPath 1.0 has no literal with both kinds of quotes.
    quote = next((each for each in "'\"" if name and each not in name), None)
    if quote is not None:
        path = f"{INTERFACES}/interface[name={quote}{name}{quote}]"
    return NetconfError(refusal.tag, refusal.text, path)


def _refuse_missing_modules(present: Collection[str]) -> None:
    missing = [name for name in MODULES if name not in present]
    if missing:
        raise DatastoreError(
            f"sysrepo lacks the modules {', '.join(missing)}; run yang/install first"
        )


def _version() -> str:
    try:
        return metadata.version("tsn-control-plane-agent")
    except metadata.PackageNotFoundError:  # run from a checkout
        return "unknown"
