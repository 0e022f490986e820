"""The file of the host keys that an operator trusts, in the format of OpenSSH (sshd(8)).

A line that cannot be read is skipped, as OpenSSH does, so that the other hosts stay reachable; the
error about a host without a key names the line. A key that is revoked for any host is refused for
all. Certificate authorities are not supported: they match no host.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Self

import paramiko
from paramiko.hostkeys import HostKeyEntry, InvalidHostKey

from cnc.support import whole_file


@dataclass(slots=True)
class KnownHosts:
    """The keys of a file; `unreadable` and `revoked` hold line numbers."""

    _entries: list[HostKeyEntry] = field(default_factory=list)
    revoked: dict[bytes, int] = field(default_factory=dict)
    unreadable: list[int] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Raises OSError."""
        known_hosts = cls()
        whole_file.refuse_special(path)
        text = path.read_text(encoding="utf-8", errors="replace")
        for number, line in enumerate(text.splitlines(), start=1):
            known_hosts._add(number, line.strip())
        return known_hosts

    def _add(self, number: int, line: str) -> None:
        marker, _, rest = line.partition(" ") if line.startswith("@") else ("", "", line)
        if not line or line.startswith("#") or marker == "@cert-authority":
            return
        try:
            entry = HostKeyEntry.from_line(" ".join(rest.split()), number)
        except (InvalidHostKey, paramiko.SSHException, ValueError):
            entry = None
        if entry is None or entry.key is None or marker not in {"", "@revoked"}:
            self.unreadable.append(number)
        elif marker:
            self.revoked[entry.key.asbytes()] = number
        else:
            self._entries.append(entry)

    def keys_of(self, host: str) -> list[paramiko.PKey]:
        """All keys of a host, in the order of the file, including the revoked ones."""
        return list(self._keys_of(host))

    def _keys_of(self, host: str) -> Iterator[paramiko.PKey]:
        for entry in self._entries:
            if _matches(entry.hostnames or (), host.lower()) and entry.key:
                yield entry.key


def _matches(names: Iterable[str], host: str) -> bool:
    """Whether one of the names is the host's, and none of those behind a `!`."""
    is_known = False
    for name in names:
        if _is(name.removeprefix("!"), host):
            if name.startswith("!"):
                return False
            is_known = True
    return is_known


def _is(name: str, host: str) -> bool:
    """Whether a name in the file, which may be hashed or have the wildcards * and ?, matches the
    host. Brackets are those around an address with a port."""
    if not name.startswith("|1|"):
        return fnmatchcase(host, name.lower().replace("[", "[[]"))
    try:
        return paramiko.HostKeys.hash_host(host, name) == name
    except (ValueError, AssertionError, IndexError):  # the salt is invalid
        return False
