"""Every script starts, and says what it is for."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPTS = sorted(
    file for file in (Path(__file__).parents[2] / "scripts").iterdir() if file.is_file()
)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_a_script_tells_its_usage(script):
    asked = subprocess.run([script, "--help"], capture_output=True, text=True, check=False)
    assert (asked.returncode, asked.stderr) == (0, "")
    assert script.name in asked.stdout


# Names an archive as soon as it has asked for its packages, as the real one does; or never.
APT_GET = """#!/bin/sh
case $1$2 in
    -qqupdate) touch "$0.updated" ;;
    indextargets*) [ ! -e "$0.updated" ] || printf '%s\\n' {addresses} ;;
esac
"""


@pytest.mark.parametrize(
    ("addresses", "told"),
    [
        ("http://a/debian-security/ http://b/debian/ http://c/debian/", (0, "http://b/debian/\n")),
        ("http://a/ubuntu/", (1, "")),
    ],
)
def test_the_archive_is_found_on_a_machine_without_lists_of_packages(tmp_path, addresses, told):
    fakes = {"apt-get": APT_GET.format(addresses=addresses), "sudo": '#!/bin/sh\nexec "$@"\n'}
    for name, text in fakes.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    script = SCRIPTS[0].parent / "setup.d" / "apt-mirror"
    environment = os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    asked = subprocess.run([script], env=environment, capture_output=True, text=True, check=False)
    assert (asked.returncode, asked.stdout) == told
    assert (asked.returncode == 0) != ("sources.list" in asked.stderr)
