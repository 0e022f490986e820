"""What a simulated switch is made of before anything runs: files, a sysrepo, an address."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from cnc.model import Management
from cnc.testbed.lab.switch import write_key_pair
from tests.stack.repository import Repository


@dataclass(frozen=True)
class Chassis:
    """One switch's place on this machine. Its server ends a session whose client has not been
    heard for `peer_timeout_s`."""

    name: str
    directory: Path
    shm_prefix: str
    management: Management
    peer_timeout_s: int

    @property
    def repository(self) -> Repository:
        # The closing full stop keeps the prefix of s1 from matching the segments of s10.
        return Repository(self.directory / "sysrepo", f"{self.shm_prefix}{self.name}.")

    @property
    def host_key(self) -> Path:
        return self.directory / "host_key"

    @property
    def kernel(self) -> Path:
        """The file that `KernelOnDisk` keeps."""
        return self.directory / "kernel.pickle"

    def log(self, program: str) -> Path:
        return self.directory / f"{program}.log"

    def build(self, template: Path) -> str:
        """Make the files; returns the line that known_hosts has of this switch."""
        self.directory.mkdir(parents=True)
        shutil.copytree(template, self.repository.path, copy_function=shutil.copy)
        public_key = write_key_pair(self.host_key)
        return f"[{self.management.address}]:{self.management.port} {public_key}\n"
