"""Whom the controller takes a switch for: keys of every kind, and the file known_hosts."""

from __future__ import annotations

import asyncssh
import paramiko
import pytest

from cnc.switch.device import Device, HostKeyRefused
from tests.unit.strange_switch import key_of, line, strange_switch

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
        with pytest.raises(HostKeyRefused, match=r"the host key of .* differs from"):
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


@pytest.mark.parametrize(
    "bad",
    [
        "[127.0.0.1]:830 ssh-ed25519 AAAA!!!",
        "[127.0.0.1]:830 ssh-rsa AAAA",
        "[127.0.0.1]:830 ssh-dss AAAAB3NzaC1kc3MAAACBAA==",
        "[127.0.0.1]:830",
        "|1|x|y ssh-ed25519 AAAA",
        "@nonsense [127.0.0.1]:830 ssh-ed25519 AAAA",
        "\udcff \x00",
    ],
)
def test_a_line_of_known_hosts_that_is_no_host_key_is_skipped_and_told_to_who_misses_one(
    bad, tmp_path
):
    with strange_switch(tmp_path) as switch:
        good = switch.known_hosts.read_text()
        lines = f"# of the lab\n\n{bad}\n".encode(errors="surrogateescape")
        switch.known_hosts.write_bytes(lines + good.encode())
        with Device(switch.managed, switch.options()) as device:
            assert device.session_id == "7"
        switch.known_hosts.write_bytes(lines)
        with pytest.raises(HostKeyRefused, match=r"has no host key for .*: line 3\)$"):
            Device(switch.managed, switch.options())


def test_a_revoked_host_key_is_refused_wherever_it_stands(tmp_path):
    with strange_switch(tmp_path) as switch:
        good = switch.known_hosts.read_text()
        revoked = good.replace(f"[127.0.0.1]:{switch.port}", "@revoked *")
        for text in (revoked + good, good + revoked):
            switch.known_hosts.write_text(text)
            with pytest.raises(HostKeyRefused, match=r"known_hosts:[12]: the host key .* revoked"):
                Device(switch.managed, switch.options())
        other = line(key_of("ecdsa-sha2-nistp256"))
        switch.known_hosts.write_text(f"@revoked * {other}{good}")
        with Device(switch.managed, switch.options()) as device:
            assert device.session_id == "7"


def test_a_line_of_another_host_or_of_an_authority_is_no_matter(tmp_path):
    with strange_switch(tmp_path) as switch:
        good = switch.known_hosts.read_text()
        switch.know(key_of("ecdsa-sha2-nistp256"))
        others = switch.known_hosts.read_text().replace("127.0.0.1", "127.0.0.2")
        authority = f"@cert-authority * {line(key_of('ecdsa-sha2-nistp384'))}"
        switch.known_hosts.write_text(others + authority + good)
        with Device(switch.managed, switch.options()) as device:
            assert device.session_id == "7"


@pytest.mark.parametrize(
    ("names", "is_known"),
    [
        ("127.0.0.1", True),
        ("[127.0.0.*]:PORT", True),
        ("[127.0.0.?]:*", True),
        ("*", True),
        ("s1.lab,127.0.0.1", True),
        ("[127.0.0.1]:1", False),
        ("[127.0.0.2]:PORT", False),
        ("*,![127.0.0.1]:PORT", True),  # without the port it is not excluded
        ("*,!*.0.0.1,![127.*", False),
        ("[127.0.0.1]:PORT,!*", False),
        ("![127.0.0.1]:PORT", False),
        ("[12]7.0.0.1", False),  # brackets are no wildcard
    ],
)
def test_a_line_is_for_the_hosts_that_openssh_takes_it_for(names, is_known, tmp_path):
    with strange_switch(tmp_path) as switch:
        names = names.replace("PORT", str(switch.port))
        switch.known_hosts.write_text(f"{names} {line(key_of('ssh-ed25519'))}")
        if is_known:
            with Device(switch.managed, switch.options()) as device:
                assert device.session_id == "7"
        else:
            with pytest.raises(HostKeyRefused, match="has no host key for"):
                Device(switch.managed, switch.options())


def test_a_key_of_the_host_without_its_port_is_no_matter_where_one_with_it_is_known(tmp_path):
    with strange_switch(tmp_path) as switch:
        other = asyncssh.generate_private_key("ssh-ed25519")
        known = f"[127.0.0.1]:{switch.port} {line(other)}127.0.0.1 {line(key_of('ssh-ed25519'))}"
        switch.known_hosts.write_text(known)
        with pytest.raises(HostKeyRefused, match=r"the host key of .* differs from"):
            Device(switch.managed, switch.options())


def test_a_hashed_name_is_found(tmp_path):
    with strange_switch(tmp_path) as switch:
        host = f"[127.0.0.1]:{switch.port}"
        hashed = paramiko.HostKeys.hash_host(host)
        switch.known_hosts.write_text(switch.known_hosts.read_text().replace(host, hashed))
        with Device(switch.managed, switch.options()) as device:
            assert device.session_id == "7"
