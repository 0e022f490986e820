"""Every script starts, and says what it is for."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
SCRIPTS = sorted(file for file in (CHECKOUT / "scripts").iterdir() if file.is_file())


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_a_script_tells_its_usage(script):
    asked = subprocess.run([script, "--help"], capture_output=True, text=True, check=False)
    assert (asked.returncode, asked.stderr) == (0, "")
    assert script.name in asked.stdout


def test_the_linters_read_every_script_in_python():
    in_python = [file for file in SCRIPTS if "python" in file.read_text().partition("\n")[0]]
    patterns = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["ruff"]
    names = {f"scripts/{file.name}" for file in in_python}
    listed = {n for n in names if any(fnmatch(n, p) for p in patterns["extend-include"])}
    assert listed == names != set()


@pytest.fixture
def bare(tmp_path):
    """Runs a Python script in a checkout without .venv."""
    scripts = tmp_path / "check out" / "scripts"
    (scripts / "probe.d").mkdir(parents=True)
    shutil.copy(CHECKOUT / "scripts" / "python", scripts)
    (scripts / "probe.d" / "part_of_probe.py").write_text("NAME = 'part'")
    (scripts.parent / "room.py").write_text("NAME = 'room'")

    def run(program: str, *arguments: str, start: str = "probe"):
        probe = scripts / "probe"
        first_line = (CHECKOUT / "scripts" / "sbom").read_text().partition("\n")[0]
        probe.write_text(f"{first_line}\n{program}")
        probe.chmod(0o755)
        return subprocess.run(
            [start, *arguments],
            env={"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"},
            cwd=scripts.parent,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.parametrize("start", ["probe", "scripts/probe"])
def test_a_python_script_imports_the_checkout_and_its_own_parts(bare, start):
    done = bare(
        "import os, sys, room, part_of_probe\n"
        "print(room.NAME, part_of_probe.NAME, sys.argv[1:], os.environ.get('PYTHONPATH'))\n"
        "sys.exit(3)",
        "two words",
        "",
        start=start,
    )
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout == "room part ['two words', ''] None\n"


def test_a_python_script_without_its_packages_names_the_setup(bare):
    done = bare("import no_such_package")
    assert done.returncode == 1
    assert done.stderr.endswith(
        "/scripts/probe: No module named 'no_such_package'\nhint: run scripts/setup\n"
    )


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
    script = CHECKOUT / "scripts" / "setup.d" / "apt-mirror"
    environment = os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    asked = subprocess.run([script], env=environment, capture_output=True, text=True, check=False)
    assert (asked.returncode, asked.stdout) == told
    assert (asked.returncode == 0) != ("sources.list" in asked.stderr)


APT_GET_BEHIND_ANOTHER = """#!/bin/sh
[ -e "$0.second" ] && exit 0
touch "$0.second"
echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1 (apt-get)" >&2
exit 100
"""


def test_lists_of_packages_are_read_when_another_apt_has_done_so(tmp_path):
    (tmp_path / "apt-get").write_text(APT_GET_BEHIND_ANOTHER)
    (tmp_path / "apt-get").chmod(0o755)
    script = CHECKOUT / "scripts" / "setup.d" / "apt-update"
    environment = os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run([script], env=environment, check=True, timeout=60)


APT_GET_THAT_FINDS_NOTHING_WHILE_LISTS_ARE_READ = """#!/bin/sh
case "$*" in
    *update*) touch "$0.reading"; sleep 0.2; rm "$0.reading" ;;
    *install*)
        [ ! -e "$0.reading" ] || { echo "E: Unable to locate package" >&2; exit 100; }
        [ ! -e "$0.fails-once" ] || { rm "$0.fails-once"; exit 100; }
        echo "$*" >>"$0.installed" ;;
esac
"""


def test_no_lists_of_packages_are_read_while_another_script_installs(tmp_path):
    apt_get = tmp_path / "apt-get"
    apt_get.write_text(APT_GET_THAT_FINDS_NOTHING_WHILE_LISTS_ARE_READ)
    apt_get.chmod(0o755)
    (tmp_path / "apt-get.fails-once").touch()
    script = CHECKOUT / "scripts" / "setup.d" / "apt-install"
    environment = os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    at_once = [
        subprocess.Popen([script, package], env=environment, stderr=subprocess.PIPE, text=True)
        for package in ("first", "second", "third")
    ]
    told = "".join(each.communicate(timeout=60)[1] for each in at_once)
    assert [each.returncode for each in at_once] == [0, 0, 0]
    assert told == "apt-install: apt-get failed; a second attempt follows\n"
    installed = (tmp_path / "apt-get.installed").read_text().split()
    assert {"first", "second", "third"} <= set(installed)


def test_lists_of_packages_that_cannot_be_read_are_an_error_at_once(tmp_path):
    (tmp_path / "apt-get").write_text("#!/bin/sh\necho 'E: no archive' >&2\nexit 100\n")
    (tmp_path / "apt-get").chmod(0o755)
    script = CHECKOUT / "scripts" / "setup.d" / "apt-update"
    environment = os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    asked = subprocess.run(
        [script], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert (asked.returncode, asked.stderr) == (1, "E: no archive\n")
