"""Where command blocks run: each place takes a directory of steps, and leaves their results there.

host     this machine, in a throw-away directory that looks like the checkout
lab      the same directory in a kernel with taprio (scripts/vm), in virtual time
switch   a booted Debian (tests/boot/emulated.py), the package for switches in its working directory
"""

from __future__ import annotations

import base64
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cnc.support.directories import cache_dir

CHECKOUT = Path(__file__).resolve().parents[2]
SESSION = Path(__file__).with_name("session.sh")
TIME_LIMIT_S = 600
TIME_TO_END_S = 10
# Written to by commands of a page, so not the checkout's own.
_COPIED = ("schedules",)
_CACHE = str(cache_dir().expanduser())
_COLUMNS = "152"  # the widest table of a command fits

Place = Callable[[Path, Path], str]
"""Runs the steps in the first directory, working in the second; returns what it said itself."""


@contextmanager
def workspace() -> Iterator[Path]:
    """A directory that looks like this checkout, to work in and throw away."""
    with tempfile.TemporaryDirectory(prefix="tsn-docs-") as name:
        work = Path(name) / "tsn-control-plane"
        work.mkdir()
        for entry in CHECKOUT.iterdir():
            if entry.name in _COPIED:
                shutil.copytree(entry, work / entry.name)
            elif entry.name != ".git":
                (work / entry.name).symlink_to(entry)
        yield work


def on_host(steps: Path, work: Path) -> str:
    environment = {
        **os.environ,
        "HOME": _home(work),
        "PATH": f"{CHECKOUT}/.venv/bin:{CHECKOUT}/.venv/sysrepo/bin:{os.environ['PATH']}",
        "TSN_CACHE": _CACHE,
    }
    return _run(["bash", str(SESSION), str(steps)], work, environment)


def in_lab(steps: Path, work: Path) -> str:
    vm = [str(CHECKOUT / "scripts/vm"), "--uml", "--virtual-time", "--memory", "2G"]
    results = ["--out", str(steps)]
    # A guest sees this machine's home: no configuration or history of its user's.
    command = ["env", f"HOME={_home(work)}", "bash", str(SESSION), "/mnt/out"]
    return _run([*vm, *results, "--", *command], work, {**os.environ, "TSN_CACHE": _CACHE})


def on_switch(steps: Path, work: Path) -> str:
    from tests.boot.emulated import Emulated  # noqa: PLC0415 - for these blocks alone

    image = Path(_last_line("scripts/image"))
    package = Path(_last_line("scripts/build-deb", "-o", str(work.parent / "deb")))
    with Emulated(image, "switch") as machine:
        machine.wait().wait_booted()
        machine.put(package, f"/root/{package.name}")
        machine.put(SESSION, "/run/session.sh")
        packed = subprocess.run(["tar", "-c", "-C", steps, "."], stdout=subprocess.PIPE, check=True)
        machine.run("mkdir /run/steps && tar -x -C /run/steps", stdin=packed.stdout)
        session = f"cd /root && COLUMNS={_COLUMNS} bash /run/session.sh /run/steps"
        done = machine.run(session, check=False, timeout_s=TIME_LIMIT_S)
        results = base64.b64decode(machine.run("tar -c -C /run/steps . | base64").stdout)
    subprocess.run(["tar", "-x", "-C", steps], input=results, check=True)
    return done.stdout + done.stderr


def _last_line(script: str, *options: str) -> str:
    done = subprocess.run(
        [CHECKOUT / script, *options], stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.splitlines()[-1]


PLACES: dict[str, Place] = {"host": on_host, "lab": in_lab, "switch": on_switch}


def _home(work: Path) -> str:
    """A home directory with nothing in it."""
    home = work.parent / "home"
    home.mkdir(exist_ok=True)
    return str(home)


def _run(command: list[str], directory: Path, environment: dict[str, str]) -> str:
    """Its output. Nothing that it started outlives it."""
    process = subprocess.Popen(
        command,
        cwd=directory,
        env={**environment, "COLUMNS": _COLUMNS, "LC_ALL": "C.UTF-8", "TERM": "dumb"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    said = ""
    try:
        process.wait(TIME_LIMIT_S)
    except subprocess.TimeoutExpired:
        said = f"no end after {TIME_LIMIT_S} s\n"
        process.terminate()  # scripts/vm ends its guest, which is in no group of ours
        with suppress(subprocess.TimeoutExpired):
            process.wait(TIME_TO_END_S)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return said + process.communicate()[0]
