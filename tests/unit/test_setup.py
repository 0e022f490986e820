"""`scripts/setup` says at its start what it will install."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

SCRIPTS = Path(__file__).parents[2] / "scripts"
STUBS = {
    # Two of the packages are installed; of the others it knows nothing.
    "bin/dpkg-query": "#!/bin/sh\nprintf 'installed\\ninstalled\\n'; exit 1\n",
    "scripts/setup.d/apt-need": "#!/bin/sh\nexit 1\n",
}


def test_a_bare_machine_is_told_of_everything_before_anything_is_installed(tmp_path):
    for folder in ("bin", "scripts/setup.d", "scripts/locks"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("setup", "setup.d/build-sysrepo"):
        shutil.copy(SCRIPTS / name, tmp_path / "scripts" / name)
    (tmp_path / "scripts/locks/all.txt").write_text("one==1 \\\n    --hash=x\ntwo==2\n")
    for name, text in STUBS.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        [tmp_path / "scripts" / "setup"],
        env={
            "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
            "TSN_CACHE": str(tmp_path / "cache"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1  # the first installation fails here
    announced, _, _ = done.stderr.partition("setup: installing")
    assert announced.startswith("setup: this installs\n")
    assert "missing Debian packages (" in announced
    assert "2 Python packages" in announced
    assert announced.count("minute") == len(announced.splitlines()) - 1
