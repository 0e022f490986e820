"""The way to a switch behind other hosts, as ssh_config(5) has it.

Of the operator's file HostName and ProxyJump count: who logs in to the switch, with which key and
at which port, is said by the intent and the options of `cnc`. The ssh(1) of the system, which asks
nothing, logs in to the hosts on the way, with that file's users and keys.
"""

from __future__ import annotations

import socket
import subprocess
import threading
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import paramiko

_TEXT_MAX = 500  # characters of what ssh says


class JumpError(OSError):
    """ssh has not come to the last host before the switch, or no further."""


@dataclass(frozen=True, slots=True)
class Way:
    """The host to connect to, and through which others, in order; none where it is in reach."""

    host: str
    jumps: tuple[str, ...] = ()
    ssh_config: Path | None = None


def way_to(address: str, ssh_config: Path | None) -> Way:
    """The way that a file leads to an address; straight where there is no file.

    Raises JumpError where the file cannot be read.
    """
    if ssh_config is None:
        return Way(address)
    try:
        changed_ns = ssh_config.stat().st_mtime_ns
    except (FileNotFoundError, NotADirectoryError):
        return Way(address)
    try:
        found = _read(ssh_config, changed_ns).lookup(address)
    except (OSError, ValueError, paramiko.ConfigParseError, paramiko.CouldNotCanonicalize) as error:
        raise JumpError(f"{ssh_config} cannot be read: {error}") from error
    jump = found.get("proxyjump", "none")
    jumps = () if jump == "none" else tuple(each.strip() for each in jump.split(","))
    return Way(found.get("hostname", address), jumps, ssh_config)


@lru_cache(maxsize=1)
def _read(ssh_config: Path, _changed_ns: int) -> paramiko.SSHConfig:
    """The file, read once for all switches and again when it has changed."""
    return paramiko.SSHConfig.from_path(str(ssh_config))


class Tunnel:
    """A connection by way of other hosts: `connected` is one end, ssh has the other."""

    def __init__(self, way: Way, port: int, timeout_s: float) -> None:
        """Raises JumpError without an ssh."""
        *before, last = way.jumps
        self.last = last
        self.connected, its_end = socket.socketpair()
        command = ["ssh", "-F", str(way.ssh_config), "-o", "BatchMode=yes"]
        command += ["-o", f"ConnectTimeout={max(1, round(timeout_s))}"]
        command += ["-J", ",".join(before)] if before else []
        command += ["-W", f"[{way.host}]:{port}", "--"]
        command.append(last if last.startswith("ssh://") else f"ssh://{last}")
        try:
            its = its_end.fileno()
            self._process = subprocess.Popen(command, stdin=its, stdout=its, stderr=subprocess.PIPE)
        except OSError as error:
            self.connected.close()
            raise JumpError(
                f"the way leads through {last}, and ssh cannot be run: {error}"
            ) from error
        finally:
            its_end.close()
        self._said = ""
        # Waits for its end, which follows that of the connection.
        self._waiting = threading.Thread(target=self._wait, daemon=True, name=f"ssh to {last}")
        self._waiting.start()

    def _wait(self) -> None:
        _, said = self._process.communicate()
        self._said = "; ".join(said.decode(errors="replace").splitlines())[-_TEXT_MAX:]

    def reason(self) -> str | None:
        """What ssh said at its end, of a connection that failed; None while it runs."""
        self._waiting.join(1)
        return None if self._waiting.is_alive() else self._said or "ssh has ended without a word"
