"""With which private key the controller logs in, and what it says of a file that holds none."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess

import asyncssh
import pytest

from cnc.switch.device import Device, LoginRefused
from tests.unit.strange_switch import key_of, line, strange_switch

KEY = key_of("ssh-ed25519")
PASSPHRASE = "of a test"  # noqa: S105


@pytest.fixture
def switch(tmp_path, monkeypatch):
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    with strange_switch(tmp_path) as running:
        yield running


@pytest.fixture
def agent(tmp_path, switch, monkeypatch):
    """An ssh-agent that holds another key, and the one that the switch accepts."""
    if not shutil.which("ssh-agent"):
        pytest.skip("this machine has no ssh-agent")
    started = subprocess.run(
        ["ssh-agent", "-s", "-a", tmp_path / "agent"], capture_output=True, text=True, check=True
    )
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(tmp_path / "other"))
    (tmp_path / "other").chmod(0o600)
    switch.identity.chmod(0o600)
    for held in (tmp_path / "other", switch.identity):
        subprocess.run(["ssh-add", "-q", held], check=True)
    yield
    os.kill(int(re.search(r"SSH_AGENT_PID=(\d+)", started.stdout)[1]), signal.SIGTERM)


def encrypted(switch):
    KEY.write_private_key(str(switch.identity), passphrase=PASSPHRASE)


def encrypted_pem(switch):
    KEY.write_private_key(str(switch.identity), "pkcs8-pem", passphrase=PASSPHRASE)


def public(switch):
    switch.identity.write_text(line(KEY))


def missing(switch):
    switch.identity.unlink()


def nonsense(switch):
    switch.identity.write_text("nonsense")


WITHOUT_KEY = [
    (encrypted, r"the key .*identity is encrypted, and no ssh-agent has it"),
    (encrypted_pem, r"the key .*identity is encrypted, and no ssh-agent has it"),
    (public, r".*identity is a public key, and no ssh-agent has its private half"),
    (missing, r"cannot read the key .*identity: No such file or directory"),
]


@pytest.mark.parametrize(
    ("made", "reason"),
    [*WITHOUT_KEY, (nonsense, r".*identity holds no private key that can be read: .*")],
)
def test_a_file_that_holds_no_key_to_log_in_with_is_not_the_switchs_refusal(switch, made, reason):
    made(switch)
    with pytest.raises(LoginRefused, match=rf"^s1: {reason}"):
        Device(switch.managed, switch.options())


@pytest.mark.parametrize("made", [made for made, _ in WITHOUT_KEY])
def test_an_agent_signs_where_the_file_cannot(switch, agent, made):
    made(switch)
    with Device(switch.managed, switch.options()) as device:
        assert device.session_id == "7"


def test_of_an_agent_with_many_keys_the_one_of_the_public_file_is_asked_for(switch, agent):
    public(switch)
    other = (switch.directory / "other").with_suffix(".pub")
    other.write_text(line(asyncssh.read_private_key(switch.directory / "other")))
    options = switch.options()
    with pytest.raises(LoginRefused, match="does not accept the key"):
        Device(switch.managed, type(options)(other, options.known_hosts))


def test_a_key_that_the_switch_does_not_accept_is_its_refusal(switch):
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(switch.identity))
    with pytest.raises(LoginRefused, match="does not accept the key"):
        Device(switch.managed, switch.options())
