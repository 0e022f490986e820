"""What a session process has: two sockets, what all sessions share, and its limits."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from agent.netconfd import confinement
from agent.netconfd.system_calls import SystemCallFilter

Shared = TypeVar("Shared")


@dataclass(frozen=True)
class ProcessLimits:
    """What one session may cost.

    Memory counts from what the process has at its start, `nice` from the nice value of the server
    (setpriority(2)).
    """

    memory_octets: int
    request_cpu_s: int
    nice: int


@dataclass(frozen=True)
class SessionProcess(Generic[Shared]):
    """Handed to the function that serves one session, in the process forked for it.

    `start` is what the broker has answered to the opening of the session, `shared` what was loaded
    before the fork. Both sockets are blocking. Text on stderr reaches the log of the server.
    """

    number: int
    start: Mapping[str, Any]
    limits: ProcessLimits
    shared: Shared
    client: socket.socket
    broker: socket.socket
    # None where the machine has none.
    system_calls: SystemCallFilter | None

    def confine(self) -> None:
        """No new descriptor, no more memory than the limit, no other system calls from now on.

        To be called once the event loop exists, which needs descriptors, and before the first octet
        of the client is read. Raises OSError.
        """
        confinement.limit_memory(self.limits.memory_octets)
        confinement.forbid_descriptors()
        if self.system_calls is not None:
            self.system_calls.load()

    def begin_request(self) -> None:
        """The CPU time of the next request counts from now on. Raises OSError."""
        confinement.limit_cpu(self.limits.request_cpu_s)


Serve = Callable[[SessionProcess[Shared]], None]
# Loads from the YANG modules what sessions share.
Prepare = Callable[[bytes], Shared]
