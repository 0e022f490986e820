"""One switch, one NETCONF session (RFC 6241 over SSH), with ncclient.

Every failure becomes a `DeviceError` that carries the switch's own error messages.
"""

from __future__ import annotations

import getpass
import logging
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import paramiko
from ncclient import NCClientError
from ncclient.operations import RPCError
from ncclient.operations.errors import TimeoutExpiredError
from ncclient.xml_ import new_ele

from cnc.data_tree.counters import PortCounters
from cnc.data_tree.reply import Element
from cnc.data_tree.state import SwitchState
from cnc.model import EndStation, StoredPort
from cnc.support.format import duration
from cnc.switch import readback
from cnc.switch.connection import (
    DeviceError,
    HostKeyRefused,
    LoginRefused,
    open_to,
    shortened,
)
from cnc.switch.counters import port_counters
from cnc.switch.dialect import Asked, Dialect, Ours
from cnc.switch.foreign import Foreign
from cnc.switch.foreign.drafted import OUR_MODULE, DraftProfile, drafted, ports_filter
from cnc.switch.monitoring import ServerReport, server_filter, server_report
from cnc.switch.node import Managed, ManagedNode, bridges_in
from cnc.switch.offered import CAPABILITY, Module, modules_in, needed_capabilities
from cnc.switch.options import ConnectOptions
from cnc.switch.rollout_id import RolloutId, rollout_id_filter, rollout_id_in
from cnc.switch.startup import damaged_modules, startup_filter
from cnc.switch.topology import TopologyReport, topology_filter, topology_report
from cnc.switch.transport import ERRORS_MAX, PromptSession

__all__ = [
    "ADMISSION",
    "CLOSE_TIMEOUT_S",
    "ConnectOptions",
    "Device",
    "DeviceError",
    "HostKeyRefused",
    "LoginRefused",
    "Managed",
    "ManagedNode",
    "StoredSwitch",
    "SwitchState",
    "bridges_in",
    "of_ports",
]

LOG = logging.getLogger(__name__)
T = TypeVar("T")

_SLOW = "the switch may be overloaded or down; raise --timeout or check its journal"
_GONE = "`cnc doctor` shows which switches answer; the switch's journal has the reason"
_STRANGE = "`cnc -vv` shows the messages"
# How sysrepo, below tsn-netconfd and netopeer2, refuses the lock of a candidate with uncommitted
# edits (RFC 6241 7.5); their error-tags differ, and none is specific to this.
_UNCOMMITTED = "have already been modified"
ADMISSION = "add it to the group tsn-operator in the switch's NACM configuration"

# How servers without RFC 8526 refuse its operation (RFC 6241 appendix A).
_NO_GET_DATA = {"operation-not-supported", "unknown-namespace", "unknown-element"}
# ncclient may wait for the reply of a server that has ended: the reply to <close-session> carries
# no data, so that a short wait is enough.
CLOSE_TIMEOUT_S = 2.0

# Errors of ncclient and paramiko after which a session cannot be used, or was never established.
_BROKEN = (NCClientError, paramiko.SSHException, EOFError, OSError)


@dataclass(frozen=True, slots=True)
class StoredSwitch:
    """A switch's running datastore: its ports, and the rollout that configured them."""

    ports: Mapping[str, StoredPort]
    rollout_id: RolloutId | None


class Device:
    """A session with one switch. Use as a context manager; methods raise DeviceError."""

    def __init__(self, switch: ManagedNode, options: ConnectOptions) -> None:
        if switch.management is None:
            raise DeviceError(
                switch.name,
                "has no management address",
                hint="give the switch `management: ADDRESS` in the intent file",
            )
        self.name = switch.name
        self.is_end_station = isinstance(switch, EndStation) or (
            isinstance(switch, Managed) and switch.is_end_station
        )
        self._bridges = switch.bridges if isinstance(switch, Managed) else frozenset()
        self._needs_modules = isinstance(switch, Managed) and switch.needs_modules
        self._user = switch.management.user or getpass.getuser()  # as ncclient does
        self.profile = switch.management.profile
        self._dialect: Dialect = Foreign(self.profile) if self.profile else Ours()
        self._has_get_data = True  # until the server refuses it
        self._locked: list[str] = []
        with _logged(self.name, "connect"):
            self._session = open_to(switch.name, switch.management, options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the session; a server that has ended is not an error."""
        self.wait_at_most(min(CLOSE_TIMEOUT_S, self._session.timeout))
        try:
            # ncclient's close_session() would reset the connection as if it were given up.
            self._session.dispatch(new_ele("close-session"))
            self._transport.end()
        except Exception:  # noqa: BLE001  the session's error may be that of any listener
            self._transport.close()

    @property
    def session_id(self) -> str:
        """The session's number at the switch (RFC 6241 8.1)."""
        return str(self._session.session_id)

    def abandon(self) -> None:
        """Drop a session that does not answer: each further request fails at once."""
        self._transport.close()

    @property
    def _transport(self) -> PromptSession:
        """The session, which transports the messages."""
        # ncclient's own session() is not implemented.
        transport: PromptSession = self._session._session  # noqa: SLF001
        return transport

    def wait_at_most(self, timeout_s: float) -> None:
        """Set the time-out of sending each further request, and of its reply."""
        self._session.timeout = timeout_s
        self._transport.timeout_s = timeout_s

    def stored(self, ports: Collection[str]) -> StoredSwitch:
        """The running configuration of these ports, and the id of its rollout."""
        wanted = self._dialect.configuration(self._asked(ports))
        with self._request("get-config"):
            data = self._dialect.stored(_data(self._session.get_config("running", filter=wanted)))
            stored = readback.stored_ports(data, self._bridges)
            return StoredSwitch(of_ports(ports, stored), rollout_id_in(data))

    def rollout_id(self) -> RolloutId | None:
        """The id of the rollout that made the running configuration; None if none did, and of a
        switch with a profile, which keeps none."""
        if self.profile:
            return None
        with self._request("get-config"):
            return rollout_id_in(
                _data(self._session.get_config("running", filter=[rollout_id_filter()]))
            )

    def state(self, ports: Collection[str]) -> SwitchState:
        """The present state of the agent and of the kernel on these ports."""
        return self._state(self._dialect.state(self._asked(ports)), ports)

    def counters(self, ports: Collection[str]) -> dict[str, PortCounters]:
        """The counters of these ports."""
        wanted = self._dialect.counters(self._asked(ports))
        with self._request("get"):
            data = self._dialect.reported(self._operational(wanted))
            return of_ports(ports, port_counters(data))

    def clock(self, port: str) -> SwitchState:
        """The present time on a port, and of all its other state the least: for the shortest
        request."""
        return self._state(self._dialect.clock(port), [port])

    def _asked(self, ports: Collection[str]) -> Asked:
        """What a filter has to select for these ports, of which some may be bridges."""
        return Asked(
            ports=[port for port in ports if port not in self._bridges],
            bridges=self._bridges.intersection(ports),
            talker=self.is_end_station,
            modules=self._needs_modules,
        )

    def _state(self, wanted: list[Element], ports: Collection[str]) -> SwitchState:
        asked_ns = time.monotonic_ns()
        with self._request("get"):
            data = self._operational(wanted)
            answered_ns = time.monotonic_ns()
            ours = self._dialect.reported(data)
            reports = of_ports(ports, readback.port_reports(ours, self._bridges))
            return SwitchState(
                agent=self._dialect.agent(data),
                ports={n: replace(its, profile=self.profile) for n, its in reports.items()},
                asked_ns=asked_ns,
                answered_ns=answered_ns,
            )

    def lock(self, datastore: str) -> None:
        """Lock `running` or `candidate`: no other session can change it until `unlock`."""
        if datastore == "candidate" and self.profile and not self._has("candidate:1.0"):
            return
        with self._request(f"lock {datastore}"):
            self._session.lock(datastore)
        self._locked.append(datastore)

    def unlock(self) -> None:
        """Release every lock of this session, the newest first."""
        while self._locked:
            self.release(self._locked[-1])

    def release(self, datastore: str) -> None:
        """Release the lock of a datastore, if this session has it."""
        if datastore in self._locked:
            self._locked.remove(datastore)
            with self._request(f"unlock {datastore}"):
                self._session.unlock(datastore)

    def take_candidate(self) -> None:
        """Have candidate for edits of this session alone, without what it has staged before."""
        if "candidate" in self._locked:
            self.discard_changes()
        else:
            self.lock("candidate")

    def end_session(self, session_id: str) -> None:
        """End another session, which releases its locks and discards its changes (RFC 6241 7.9)."""
        with self._request("kill-session"):
            self._session.kill_session(session_id)

    def end_other_sessions(self) -> None:
        """End the other sessions of this login that hold a lock, of a controller that stands still
        or is gone."""
        its = (lock for lock in self.server().locks if lock.user == self._user)
        for number in {lock.session_id for lock in its} - {self.session_id}:
            with suppress(DeviceError):  # it has ended since
                self.end_session(number)

    def edit(self, config: Element) -> None:
        """Write a `<config>` to the candidate datastore and let the server validate it."""
        its = self._edit_of(config)
        with self._request("edit-config"):
            self._session.edit_config(target="candidate", config=its)
        if self._validates:
            with self._request("validate"):
                self._session.validate("candidate")

    def _edit_of(self, config: Element) -> Element:
        try:
            return self._dialect.edit(config)
        except ValueError as error:
            raise DeviceError(self.name, str(error)) from error

    def edit_running(self, config: Element) -> None:
        """Write a `<config>` to the running datastore: it acts at once, all of it or, where the
        server can do that, nothing (RFC 6241 8.5)."""
        option = "rollback-on-error" if self._has("rollback-on-error:1.0") else None
        its = self._edit_of(config)
        with self._request("edit-config"):
            self._session.edit_config(target="running", config=its, error_option=option)

    def commit(self) -> None:
        """Commit candidate, at once and to stay."""
        with self._request("commit"):
            self._session.commit()

    def commit_confirmed(self, timeout_s: int, persist: str) -> None:
        """Commit; the switch reverts by itself unless `confirm` follows in time.

        With a `persist` token any session may confirm or cancel, also after this one has been lost
        (RFC 6241 8.4.1).
        """
        with self._request("commit"):
            self._session.commit(confirmed=True, timeout=str(timeout_s), persist=persist)

    def confirm(self, persist: str) -> None:
        """Send the confirming commit."""
        with self._request("commit (confirm)"):
            self._session.commit(persist_id=persist)

    def cancel_commit(self, persist: str) -> None:
        """Revert the confirmed commit."""
        with self._request("cancel-commit"):
            self._session.cancel_commit(persist_id=persist)

    def discard_changes(self) -> None:
        with self._request("discard-changes"):
            self._session.discard_changes()

    def save_startup(self) -> None:
        """Copy running to startup, the configuration of the next boot."""
        with self._request("copy-config to startup"):
            self._session.copy_config(source="running", target="startup")

    @property
    def capabilities(self) -> frozenset[str]:
        """The capability URIs of the server's hello (RFC 6241 8.1) without their parameters."""
        return frozenset(uri.partition("?")[0] for uri in self._session.server_capabilities)

    @property
    def modules(self) -> Mapping[str, Module]:
        """The YANG modules of the server's hello; those of a YANG library need not be there."""
        return modules_in(self._session.server_capabilities)

    def drafted_profile(self) -> DraftProfile | None:
        """The profile of a switch that runs no agent, as far as its server tells; None: it does, or
        names no module at all."""
        modules = self.modules
        names = self.server().modules.keys() | modules.keys()
        if not names or OUR_MODULE in names:
            return None
        unnamed = dict.fromkeys(names - modules.keys(), Module("", frozenset(), ()))
        with self._request("get"):
            reported = self._operational(ports_filter())
            stored = _data(self._session.get_config("running", filter=ports_filter()))
        return drafted(self.capabilities, {**unnamed, **modules}, reported, stored)

    def lacking(self) -> DeviceError | None:
        """What the server lacks of how a rollout changes such a switch."""
        lacking = [f":{each}" for each in needed_capabilities(self.profile) if not self._has(each)]
        if not lacking:
            return None
        hint = "an atomic rollout needs them: use tsn-netconfd or netopeer2"
        if self.profile:
            hint = f"is its profile {self.profile.name} right? `cnc discover` drafts one"
        return DeviceError(self.name, f"its NETCONF server lacks {', '.join(lacking)}", hint=hint)

    def _has(self, capability: str) -> bool:
        return f"{CAPABILITY}{capability}" in self.capabilities

    @property
    def _validates(self) -> bool:
        return self.profile is None or (
            self.profile.validates and (self._has("validate:1.0") or self._has("validate:1.1"))
        )

    def server(self) -> ServerReport:
        """State of the NETCONF server: the holders of its locks, and its modules."""
        with self._request("get"):
            return server_report(self._operational(server_filter()))

    def damaged_startup(self) -> tuple[str, ...]:
        """The modules whose part of startup was unreadable and is an older copy now. A server
        without `tsn-netconf-server` may refuse the request."""
        with self._request("get"):
            return damaged_modules(self._operational(startup_filter()))

    def topology(self) -> TopologyReport:
        """The switch's interfaces, and the neighbours that its LLDP daemon has heard there."""
        with self._request("get"):
            return topology_report(self._operational(topology_filter()))

    def try_edit(self, config: Element) -> None:
        """Let the server test an edit of the candidate datastore without applying it."""
        its = self._edit_of(config)
        with self._request("edit-config"):
            self._session.edit_config(target="candidate", config=its, test_option="test-only")

    def _operational(self, wanted: list[Element]) -> Element:
        """The operational state; a server without RFC 8526 leaves out nodes that are
        configurable."""
        if self._has_get_data:
            try:
                reply = self._session.dispatch(readback.get_operational(wanted))
                return readback.operational_data(reply.xml)
            except RPCError as error:
                if not _NO_GET_DATA.intersection(_tags(error)):
                    raise
                self._has_get_data = False
        return _data(self._session.get(filter=wanted))

    @contextmanager
    def _request(self, what: str) -> Iterator[None]:
        try:
            with _logged(self.name, what):
                yield
        except RPCError as error:
            raise self._refusal(what, error) from error
        except TimeoutExpiredError as error:
            self.abandon()  # each further request would wait as long
            raise DeviceError(self.name, f"no answer to {what} in time", hint=_SLOW) from error
        except _BROKEN as error:
            reason = str(error) or "the session ended"
            raise DeviceError(self.name, f"{what} failed: {reason}", hint=_GONE) from error
        except Exception as error:
            # What a library raises at a reply that nobody foresaw is not documented.
            LOG.debug("%s: the reply to %s cannot be read", self.name, what, exc_info=True)
            reason = shortened(str(error) or type(error).__name__)
            raise DeviceError(
                self.name, f"unexpected reply to {what}: {reason}", hint=_STRANGE
            ) from error

    def _refusal(self, what: str, refused: RPCError) -> DeviceError:
        """All errors of a reply as the switch words them, each once."""
        messages = [
            shortened((e.message or e.tag or "refused without a reason").strip())
            for e in _errors(refused)[:ERRORS_MAX]
        ]
        if len(_errors(refused)) > ERRORS_MAX:
            messages.append(f"and more errors than these {ERRORS_MAX}")
        hint, tags = None, _tags(refused)
        if "access-denied" in tags:
            hint = f"user {self._user} may not {what} on {self.name}: {ADMISSION}"
        elif what == "lock candidate" and any(_UNCOMMITTED in message for message in messages):
            hint = (
                f"no lock is held: candidate on {self.name} has uncommitted edits of another "
                "client; commit them there, or discard them with discard-changes"
            )
        return DeviceError(self.name, "\n".join(dict.fromkeys(messages)), hint=hint, tags=tags)


@contextmanager
def _logged(switch: str, what: str) -> Iterator[None]:
    """Log one request to one switch, and how long it took."""
    begun_ns, result = time.monotonic_ns(), "failed after"
    try:
        yield
        result = "took"
    finally:
        LOG.info("%s: %s %s %s", switch, what, result, duration(time.monotonic_ns() - begun_ns))


def _errors(refused: RPCError) -> list[RPCError]:
    """All errors of a reply: with several ncclient raises one without a tag that holds them."""
    return getattr(refused, "errors", None) or [refused]


def _data(reply: Any) -> Element:
    """The <data> of a reply. Raises ValueError if it has none."""
    data: Element | None = reply.data_ele
    if data is None:
        raise ValueError("it has no <data>")
    return data


def of_ports(ports: Iterable[str], reported: Mapping[str, T]) -> dict[str, T]:
    """What is reported of these ports: a switch may report others, without being asked."""
    return {port: reported[port] for port in ports if port in reported}


def _tags(refused: RPCError) -> set[str]:
    """The error-tags of a reply (RFC 6241 appendix A)."""
    return {(error.tag or "").strip() for error in _errors(refused)}
