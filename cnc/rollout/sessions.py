"""The sessions of a rollout: one for each switch, opened at once, made anew when they break."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from cnc.model import Bridge
from cnc.rollout.parallel import answers, threads_for, unanimous
from cnc.switch.device import ConnectOptions, Device, DeviceError, Managed

T = TypeVar("T")


class Sessions:
    """Sessions by switch name. `ask` and `attempt` may be called while nobody else does."""

    def __init__(self, switches: Iterable[Bridge | Managed], connect: ConnectOptions) -> None:
        self._switches = {switch.name: switch for switch in switches}
        self._connect = connect
        self._open: dict[str, Device] = {}
        # Kept from step to step: to start a thread costs as much as a short question.
        self._pool = threads_for(len(self._switches))

    def __iter__(self) -> Iterator[str]:
        return iter(self._switches)

    def __getitem__(self, name: str) -> Device:
        return self._open[name]

    @property
    def timeout_s(self) -> float:
        """How long an operator wants to wait for a reply."""
        return self._connect.timeout_s

    def open(self) -> None:
        """Connect to all at once. Raises RolloutError when a switch cannot be reached."""
        unanimous(self._connect_all())

    def reach(self) -> list[str]:
        """Connect to all at once, to as many as can be; returns which these are."""
        return [name for name, d in self._connect_all().items() if not isinstance(d, DeviceError)]

    def ask(self, names: Iterable[str], what: Callable[[Device], T]) -> dict[str, T]:
        """The answer of each of these; raises RolloutError with the words of all that have none."""
        return unanimous(self.attempt(names, what))

    def attempt(
        self, names: Iterable[str], what: Callable[[Device], T]
    ) -> dict[str, T | DeviceError]:
        """What each of these answers, or why it does not."""
        return answers([self._open[name] for name in names], what, self._pool)

    def renew(self, name: str, timeout_s: float) -> Device:
        """A new session in the place of one that is of no use any more.

        The switch may not have noticed yet that the old one is dead; it is told, because the locks
        of the old one would keep the new one out.
        """
        former = self._open[name]
        former.abandon()
        options = ConnectOptions(
            self._connect.identity,
            self._connect.known_hosts,
            min(timeout_s, self._connect.timeout_s),
        )
        device = Device(self._switches[name], options)
        with suppress(DeviceError):  # it has ended by itself, as it should
            device.end_session(former.session_id)
        self._open[name] = device
        return device

    def close(self) -> None:
        with self._pool as pool:
            list(pool.map(lambda device: device.close(), self._open.values()))

    def _connect_all(self) -> dict[str, Device | DeviceError]:
        return answers(list(self._switches.values()), self._connected, self._pool)

    def _connected(self, switch: Bridge | Managed) -> Device:
        device = Device(switch, self._connect)
        self._open[switch.name] = device
        return device


@contextmanager
def sessions(switches: Iterable[Bridge | Managed], connect: ConnectOptions) -> Iterator[Sessions]:
    """Sessions for the time of a `with` block, none of them open yet."""
    made = Sessions(switches, connect)
    try:
        yield made
    finally:
        made.close()
