"""The playbooks, run as docs/operate/ansible.md says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
ANSIBLE = CHECKOUT / "scripts/ansible"
TOOLS = Path(sys.executable).parent
RECAP = re.compile(
    r"^(\w+)\s+: ok=\d+\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.MULTILINE
)


@dataclass(frozen=True)
class Run:
    """The result of a playbook: exit code, output, and how much it changed on which machine."""

    code: int
    output: str

    @property
    def changed(self) -> dict[str, int]:
        return {host: int(changed) for host, changed, *_ in RECAP.findall(self.output)}


def play(directory: Path, playbook: str, *options: str) -> Run:
    """Run a playbook with `directory`/inventory.yml; other files of the run stay there, too."""
    done = subprocess.run(
        [
            *(TOOLS / "ansible-playbook", "-i", directory / "inventory.yml"),
            *(playbook, *options),
        ],
        cwd=ANSIBLE,
        env={
            **os.environ,
            "PATH": f"{TOOLS}:{os.environ['PATH']}",
            "ANSIBLE_HOME": str(directory / "home"),
            # Connections are kept by the names of machines, and other runs have the same names.
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(directory / "cp"),
            "ANSIBLE_NOCOLOR": "1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(done.stdout)
    return Run(done.returncode, done.stdout)
