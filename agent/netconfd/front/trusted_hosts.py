"""Hosts from which a user who may commit has logged in lately.

They are kept in a file: a front that was killed must not refuse an operator, before the next login,
for what a neighbour did meanwhile.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path

from agent import whole_file

LOG = logging.getLogger(__name__)

TRUST_S = 24 * 3600
MAX_TRUSTED_HOSTS = 1024
# A host that logs in again and again is written down this often.
WRITE_EVERY_S = 3600


class TrustedHosts:
    """Each is trusted for `TRUST_S` after its last login; of too many the longest away goes first.

    The file holds, by host, the UTC time in s since 1970 at which the trust ends.
    """

    def __init__(self, file: Path, utc_s: Callable[[], float] = time.time) -> None:
        """Read what an earlier process has written, and log why if that fails."""
        self._file = file
        self._utc_s = utc_s
        # The one that was trusted last is the last.
        self._until_s: dict[str, float] = {}
        self._written_s: dict[str, float] = {}
        try:
            self._until_s = _read(file, utc_s() + TRUST_S)
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            LOG.warning("trusted hosts are not known, %s cannot be read: %s", file, error)
        self._written_s = dict(self._until_s)

    def __contains__(self, host: str) -> bool:
        left_s = self._until_s.get(host, 0) - self._utc_s()
        # A clock that was set back must not make it longer.
        return 0 < left_s <= TRUST_S

    def add(self, host: str) -> None:
        """Trust this host from now on."""
        until_s = self._utc_s() + TRUST_S
        self._until_s.pop(host, None)
        if len(self._until_s) >= MAX_TRUSTED_HOSTS:
            del self._until_s[next(iter(self._until_s))]
        self._until_s[host] = until_s
        if abs(until_s - self._written_s.get(host, 0)) >= WRITE_EVERY_S:
            self._write()

    def _write(self) -> None:
        try:
            whole_file.replace(self._file, json.dumps(self._until_s).encode(), durable=False)
        except OSError as error:
            LOG.warning("trusted hosts are not written to %s: %s", self._file, error)
            return
        self._written_s = dict(self._until_s)


def _read(file: Path, latest_s: float) -> dict[str, float]:
    """What the file holds, no host trusted longer than `latest_s`. Raises OSError or ValueError."""
    hosts = json.loads(file.read_bytes())
    if not isinstance(hosts, dict) or len(hosts) > MAX_TRUSTED_HOSTS:
        raise ValueError(f"expected an object of at most {MAX_TRUSTED_HOSTS} hosts")
    if not all(isinstance(until_s, int | float) for until_s in hosts.values()):
        raise ValueError("expected a time for each host")
    return {host: min(until_s, latest_s) for host, until_s in hosts.items()}
