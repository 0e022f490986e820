"""What is set once in a network namespace, and what the agent has made of it.

Limits are the path manager's, the rest are sysctls. None of them says who has set it: a file has
what the agent found and what it set, and when nothing is asked any more it restores what it found,
unless another program has set it since.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Protocol

from pyroute2.netlink.exceptions import NetlinkError

from agent import whole_file
from agent.boot import boot_id
from agent.kernel.mptcp_pm import MptcpPm
from agent.kernel.refusal import reason
from agent.mechanisms.multipath.model import Values
from agent.model import AgentError

LOG = logging.getLogger(__name__)

SYSCTLS = Path("/proc/sys/net")
MAX_FILE_OCTETS = 1 << 16


class _Setting(Protocol):
    """One value of the namespace, as text. Both raise OSError or NetlinkError."""

    def get(self, path_manager: MptcpPm, sysctls: Path) -> str: ...
    def set(self, path_manager: MptcpPm, sysctls: Path, value: str) -> None: ...


@dataclass(frozen=True, slots=True)
class _Limit:
    """A field of `agent.kernel.mptcp_pm.Limits`."""

    name: str

    def get(self, path_manager: MptcpPm, _sysctls: Path) -> str:
        return str(getattr(path_manager.limits(), self.name))

    def set(self, path_manager: MptcpPm, _sysctls: Path, value: str) -> None:
        path_manager.set_limits(replace(path_manager.limits(), **{self.name: int(value)}))


@dataclass(frozen=True, slots=True)
class _Sysctl:
    """A sysctl of the network, or the number of this index in one that has several."""

    path: str
    index: int | None = None

    def get(self, _path_manager: MptcpPm, sysctls: Path) -> str:
        words = self._words(sysctls)
        return " ".join(words) if self.index is None else words[self.index]

    def set(self, _path_manager: MptcpPm, sysctls: Path, value: str) -> None:
        words = [value]
        if self.index is not None:
            words = self._words(sysctls)
            words[self.index] = value
        (sysctls / self.path).write_text(" ".join(words) + "\n", encoding="ascii")

    def _words(self, sysctls: Path) -> list[str]:
        return (sysctls / self.path).read_text(encoding="ascii").split()


# tcp_rmem and tcp_wmem: minimum, default and maximum of a socket's buffer (tcp(7)).
_MAXIMUM = 2
SETTINGS: Mapping[str, _Setting] = {
    "enabled": _Sysctl("mptcp/enabled"),
    # 0: the kernel opens subflows by itself, 1: a program does
    # (Documentation/networking/mptcp-sysctl.rst).
    "path-manager": _Sysctl("mptcp/pm_type"),
    "subflows": _Limit("subflows"),
    "add-addr-accepted": _Limit("add_addr_accepted"),
    "scheduler": _Sysctl("mptcp/scheduler"),
    "congestion-control": _Sysctl("ipv4/tcp_congestion_control"),
    "no-metrics-save": _Sysctl("ipv4/tcp_no_metrics_save"),
    "maximum-receive-buffer": _Sysctl("ipv4/tcp_rmem", _MAXIMUM),
    "maximum-send-buffer": _Sysctl("ipv4/tcp_wmem", _MAXIMUM),
}


class _Record(NamedTuple):
    """What the agent found of a setting, and what it set."""

    found: str
    set: str


class NamespaceSettings:
    """Of the network namespace of the thread. Needs CAP_NET_ADMIN to set anything."""

    def __init__(self, record: Path, path_manager: MptcpPm, sysctls: Path = SYSCTLS) -> None:
        self._file = record
        self._pm = path_manager
        self._sysctls = sysctls
        self._ignored = ""

    def read(self) -> Values:
        """All that this kernel has, as they are now."""
        found = ((name, self._value(name)) for name in SETTINGS)
        return tuple(sorted((name, value) for name, value in found if value is not None))

    def set_by_agent(self) -> Values:
        """Those that the agent has set, as they are now."""
        found = ((name, self._value(name)) for name in sorted(self._record()))
        return tuple((name, value) for name, value in found if value is not None)

    @property
    def has_record(self) -> bool:
        """Whether an agent may have set something, and not restored what it found."""
        return self._file.exists()

    def set(self, values: Values) -> None:
        """Let these be so, and restore what else the agent has set. Raises `AgentError` naming the
        setting; what was set before that one stays set.

        The record is written first, and removed last: whenever the agent is killed, the next one
        knows what to restore.
        """
        wanted, record = dict(values), self._record()
        kept = {name: _Record(self._found(name, record), wanted[name]) for name in sorted(wanted)}
        self._write(record | kept)
        for name, each in kept.items():
            if self._value(name) != each.set:
                self._set(name, each.set)
        for name in record.keys() - kept.keys():
            if self._value(name) == record[name].set:
                self._set(name, record[name].found)
        self._write(kept)

    def _found(self, name: str, record: Mapping[str, _Record]) -> str:
        """What another program has set meanwhile is what it finds again."""
        value = self._value(name)
        if value is None:
            raise AgentError(f"multipath TCP: this kernel has no {name}")
        before = record.get(name)
        return before.found if before and before.set == value else value

    def _value(self, name: str) -> str | None:
        """None where the kernel does not have it."""
        try:
            return SETTINGS[name].get(self._pm, self._sysctls)
        except (OSError, NetlinkError):
            return None

    def _set(self, name: str, value: str) -> None:
        try:
            SETTINGS[name].set(self._pm, self._sysctls, value)
        except (OSError, NetlinkError) as refusal:
            raise AgentError(f"multipath TCP: {name} {value}: {reason(refusal)}") from refusal

    def _write(self, record: Mapping[str, _Record]) -> None:
        if not record:
            self._file.unlink(missing_ok=True)
            return
        content = {"boot-id": boot_id(), "settings": record}
        self._file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        # A power cut takes the settings, too.
        whole_file.replace(self._file, json.dumps(content).encode(), durable=False)

    def _record(self) -> dict[str, _Record]:
        """Nothing where there is no record of this boot."""
        try:
            with self._file.open("rb") as file:
                kept = json.loads(file.read(MAX_FILE_OCTETS))
            return dict(_decoded(kept["settings"])) if kept["boot-id"] == boot_id() else {}
        except FileNotFoundError:
            return {}
        # RecursionError: brackets nested a thousand deep.
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if self._ignored != repr(error):
                LOG.warning("%s is ignored and will be replaced: %r", self._file, error)
            self._ignored = repr(error)
            return {}


def _decoded(kept: Mapping[str, list[str]]) -> Iterator[tuple[str, _Record]]:
    for name, (found, was_set) in kept.items():
        if name not in SETTINGS or not (isinstance(found, str) and isinstance(was_set, str)):
            raise ValueError(f"{name!r} is no setting")
        yield name, _Record(found, was_set)
