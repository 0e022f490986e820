"""The sessions of a rollout: one for each switch, opened at once, replaced when they break."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from cnc.switch.device import ConnectOptions, Device, DeviceError, ManagedNode
from cnc.switch.parallel import answers, threads_for, unanimous

T = TypeVar("T")


class Sessions:
    """Sessions by switch name. `ask` and `attempt` must not be called concurrently."""

    def __init__(self, switches: Iterable[ManagedNode], connect: ConnectOptions) -> None:
        self._switches = {switch.name: switch for switch in switches}
        self._connect = connect
        self._open: dict[str, Device] = {}
        # Shared by all steps: starting a thread costs as much as a short request.
        self._pool = threads_for(len(self._switches))

    def __iter__(self) -> Iterator[str]:
        return iter(self._switches)

    def __getitem__(self, name: str) -> Device:
        return self._open[name]

    @property
    def timeout_s(self) -> float:
        """The operator's time-out of a reply."""
        return self._connect.timeout_s

    def open(self) -> None:
        """Connect to all at once. Raises RolloutError when a switch cannot be reached."""
        unanimous(self._connect_all())

    def reach(self) -> list[str]:
        """Connect to all at once; returns the names of those that can be reached."""
        return [name for name, d in self._connect_all().items() if not isinstance(d, DeviceError)]

    def ask(self, names: Iterable[str], request: Callable[[Device], T]) -> dict[str, T]:
        """The result of each of these. Raises RolloutError with the errors of all that fail."""
        return unanimous(self.attempt(names, request))

    def attempt(
        self, names: Iterable[str], request: Callable[[Device], T]
    ) -> dict[str, T | DeviceError]:
        """The result of each of these, or its DeviceError."""
        return answers([self._open[name] for name in names], request, self._pool)

    def renew(self, name: str, timeout_s: float) -> Device:
        """Replace a broken session by a new one.

        The switch may not have noticed yet that the old session is dead: it is ended explicitly,
        because its locks would exclude the new one.
        """
        broken = self._open[name]
        broken.abandon()
        options = ConnectOptions(
            self._connect.identity,
            self._connect.known_hosts,
            min(timeout_s, self._connect.timeout_s),
        )
        device = Device(self._switches[name], options)
        with suppress(DeviceError):  # it has ended already
            device.end_session(broken.session_id)
        self._open[name] = device
        return device

    def close(self) -> None:
        with self._pool as pool:
            list(pool.map(lambda device: device.close(), self._open.values()))

    def _connect_all(self) -> dict[str, Device | DeviceError]:
        return answers(list(self._switches.values()), self._connect_one, self._pool)

    def _connect_one(self, switch: ManagedNode) -> Device:
        device = Device(switch, self._connect)
        self._open[switch.name] = device
        if device.profile and (lacking := device.lacking()):
            raise lacking
        return device


@contextmanager
def sessions(switches: Iterable[ManagedNode], connect: ConnectOptions) -> Iterator[Sessions]:
    """Sessions for the time of a `with` block, none of them open yet."""
    result = Sessions(switches, connect)
    try:
        yield result
    finally:
        result.close()
