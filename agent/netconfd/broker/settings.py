"""The current configuration of this server (module tsn-netconf-server)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agent.netconfd.limits import Client, Limits
from agent.sysrepo import SysrepoConnection, SysrepoError
from agent.sysrepo.changes import follow
from agent.sysrepo.data import module_names

MODULE = "tsn-netconf-server"
CONTAINER = f"/{MODULE}:netconf-server"


class NotInstalled(Exception):
    """The module of the server's configuration is not installed."""


@dataclass(frozen=True)
class Configuration:
    """One state of the container. `keys` are lines as in an authorized_keys file, by user."""

    limits: Limits
    # As RFC 7951 JSON, which the other processes take.
    limits_json: Mapping[str, Any]
    clients: frozenset[Client]
    keys: Mapping[str, str]

    @classmethod
    def from_json(cls, container: Mapping[str, Any]) -> Configuration:
        """From the container as RFC 7951 JSON with its defaults.

        Raises KeyError if it is of an earlier revision of the module, which lacks leaves.
        """
        return cls(
            limits=Limits.from_json(container["limits"]).on_a_machine_of(_memory_octets()),
            limits_json=container["limits"],
            clients=frozenset(
                Client(each["address"], each["port"])
                for each in container.get("call-home", {}).get("client", ())
            ),
            keys={
                user["name"]: "".join(
                    f"{key['algorithm']} {key['key-data']}\n"
                    for key in user.get("authorized-key", ())
                )
                for user in container.get("users", {}).get("user", ())
            },
        )


class Settings:
    """The configuration in force. Construction and `close` block."""

    def __init__(self, connection: SysrepoConnection) -> None:
        """Raises NotInstalled or SysrepoError."""
        with connection.get_ly_ctx() as context:
            if MODULE not in module_names(context).values():
                raise NotInstalled(f"sysrepo has no module {MODULE}: run yang/install")
        self._current: Configuration
        self._on_change: Callable[[], object] = lambda: None
        self._session = connection.start_session("running")
        try:
            follow(self._session, CONTAINER, self._use)
        except SysrepoError:
            self._session.stop()
            raise
        except KeyError as missing:
            self._session.stop()
            raise NotInstalled(
                f"sysrepo has an earlier revision of module {MODULE}, without {missing}: "
                "run yang/install"
            ) from None

    @property
    def limits(self) -> Limits:
        """The limits for clients."""
        return self._current.limits

    @property
    def limits_json(self) -> Mapping[str, Any]:
        """The limits for clients, for `Limits.from_json`."""
        return self._current.limits_json

    @property
    def clients(self) -> frozenset[Client]:
        """The clients to call."""
        return self._current.clients

    def keys_of(self, user: str) -> str:
        """The configured keys of a user, as lines of an authorized_keys file."""
        return self._current.keys.get(user, "")

    def call_on_change(self, function: Callable[[], object]) -> None:
        """Call this after each change, in sysrepo's thread."""
        self._on_change = function

    def close(self) -> None:
        """Stop following changes."""
        self._session.stop()

    def _use(self, container: dict[str, Any]) -> None:
        self._current = Configuration.from_json(container)
        self._on_change()


def _memory_octets() -> int:
    """The machine's memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
