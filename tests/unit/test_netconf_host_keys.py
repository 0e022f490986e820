"""Whom the controller takes a switch for: keys of every kind, and the file known_hosts."""

from __future__ import annotations

import asyncssh
import pytest

from cnc.netconf.device import Device, HostKeyRefused
from tests.unit.strange_switch import key_of, strange_switch

KINDS = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "ssh-rsa",
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_switch_is_reached_with_the_known_host_key_and_not_with_another_of_its_kind(
    kind, tmp_path
):
    with strange_switch(tmp_path, kind=kind) as switch:
        with Device(switch.managed, switch.options()) as device:
            assert device.session_id == "7"
        switch.know(asyncssh.generate_private_key(kind))
        with pytest.raises(HostKeyRefused, match="has another host key than"):
            Device(switch.managed, switch.options())


def test_of_several_known_host_keys_one_is_enough(tmp_path):
    with strange_switch(tmp_path, kind="ssh-rsa") as switch:
        switch.know(key_of("ssh-ed25519"), key_of("ssh-rsa"))
        with Device(switch.managed, switch.options()) as device:
            assert device.session_id == "7"


def test_a_switch_whose_host_key_is_of_another_kind_than_is_known_is_refused(tmp_path):
    with strange_switch(tmp_path, kind="ssh-rsa") as switch:
        switch.know(key_of("ssh-ed25519"))
        with pytest.raises(HostKeyRefused, match="it has none of the kind ssh-ed25519"):
            Device(switch.managed, switch.options())
