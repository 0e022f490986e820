"""Files that operators name: a named pipe, which nobody may ever write to, is not waited for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from cnc import cli, intent
from cnc.cli import settings
from cnc.errors import InputError
from cnc.model import Management
from cnc.plans import file as planfile
from cnc.support import whole_file
from cnc.switch import ConnectOptions
from cnc.switch.device import Device, DeviceError, Managed
from tests.unit.strange_switch import key_of, line

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
SWITCH = Managed("s1", Management("127.0.0.1", 1, "operator"))


@pytest.fixture
def pipe(tmp_path):
    path = tmp_path / "pipe.json"
    os.mkfifo(path)
    return path


def configure(path):
    with click.Context(cli.cnc) as context:
        settings.load(context, path)


@pytest.mark.parametrize("read", [intent.load, planfile.load, configure])
def test_a_pipe_is_no_file_of_the_operators(read, pipe):
    with pytest.raises(InputError, match=r"pipe\.json: cannot read it: not a regular file"):
        read(pipe)


@pytest.mark.parametrize("option", ["identity", "known_hosts"])
def test_a_pipe_is_no_key_and_no_file_of_host_keys(option, pipe, tmp_path):
    files = {"identity": tmp_path / "identity", "known_hosts": tmp_path / "known_hosts"}
    files["identity"].touch()
    files["known_hosts"].write_text(f"[127.0.0.1]:1 {line(key_of('ssh-ed25519'))}")
    with pytest.raises(DeviceError, match=r"cannot read .*pipe\.json: not a regular file"):
        Device(SWITCH, ConnectOptions(**(files | {option: pipe}), timeout_s=1.0))


def test_a_key_that_is_not_there_is_not_the_switchs_fault(tmp_path):
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text(f"[127.0.0.1]:1 {line(key_of('ssh-ed25519'))}")
    with pytest.raises(DeviceError, match=r"cannot read the key .*: No such file or directory"):
        Device(SWITCH, ConnectOptions(tmp_path / "none", known_hosts, timeout_s=1.0))


def test_the_null_device_is_a_file_without_host_keys(tmp_path):
    with pytest.raises(DeviceError, match="has no host key for"):
        Device(SWITCH, ConnectOptions(tmp_path / "none", Path(os.devnull), timeout_s=1.0))


def test_other_devices_are_no_files():
    with pytest.raises(OSError, match="not a regular file"):
        whole_file.refuse_special(Path("/dev/zero"))


def test_standard_input_is_read():
    checked = subprocess.run(
        [sys.executable, "-m", "cnc", "check", "/dev/stdin"],
        input=LINE3.read_text(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stderr) == (0, "")
    assert checked.stdout.startswith("line3 is sound: ")


@pytest.mark.parametrize("directory", ["/dev/fd", "/proc/self/fd"])
def test_the_output_of_a_command_that_a_shell_hands_on_is_read(directory):
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb"), os.fdopen(writing, "wb") as output:
        output.write(LINE3.read_bytes())
        output.close()
        assert intent.load(Path(directory, str(reading))).name == "line3"
