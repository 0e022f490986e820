"""The NETCONF tests run over any server: here over our own, met as a stranger's would be."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runner.lanes import LANE_VARIABLE
from tests.stack.front_end import (
    BASE,
    INTERFACES,
    OWN_PERSIST_ID,
    NotUsable,
    clean_up,
    named_server,
)

TESTS = Path(__file__).parent
# A part that takes seconds: some of everything, and nothing that waits for a timeout.
ENOUGH = (
    TESTS / "test_netconfd.py",
    TESTS / "test_netconfd_confirmed_commit.py",
    *("-k", "not filter_selects and not time and not stays and not going_back"),
)


@pytest.fixture
def lab(netconfd, tmp_path, monkeypatch):
    """A server with a configuration of its own, named as a laboratory names it."""
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text(
        f"[127.0.0.1]:{netconfd.port} {netconfd.host_key_type} {netconfd.host_key_b64}\n"
    )
    monkeypatch.setenv("TSN_NETCONF_SERVER", f"127.0.0.1:{netconfd.port}")
    monkeypatch.setenv("TSN_NETCONF_USER", netconfd.username)
    monkeypatch.setenv("TSN_NETCONF_KEY", str(netconfd.client_key))
    monkeypatch.setenv("TSN_NETCONF_KNOWN_HOSTS", str(known_hosts))
    # Whoever reaches behind the server must fail as in a laboratory.
    monkeypatch.delenv("SYSREPO_REPOSITORY_PATH")
    monkeypatch.delenv("SYSREPO_SHM_PREFIX")
    with netconfd.connect() as client:
        edit(client, "lab-port")
        client.commit()
        client.copy_config(source="running", target="startup")
    return netconfd


def edit(client, name):
    client.edit_config(
        target="candidate",
        config=(
            f'<config xmlns="{BASE}"><interfaces xmlns="{INTERFACES}"><interface>'
            f"<name>{name}</name><description>the lab's own</description>"
            '<type xmlns:ianaift="urn:ietf:params:xml:ns:yang:iana-if-type">'
            "ianaift:ethernetCsmacd</type></interface></interfaces></config>"
        ),
    )


def configuration(server):
    with server.connect() as client:
        return {
            name: client.get_config(name).data_xml for name in ("running", "candidate", "startup")
        }


def run_pytest(*arguments):
    # The tests that it runs are of other lanes, too.
    environment = {name: value for name, value in os.environ.items() if name != LANE_VARIABLE}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=TESTS.parents[1],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def test_the_tests_run_over_a_named_server_and_leave_it_as_they_found_it(lab):
    before = configuration(lab)
    run = run_pytest(*ENOUGH)
    assert run.returncode == 0, run.stdout
    passed, deselected = re.search(r"(\d+) passed, (\d+) deselected", run.stdout).groups()
    assert int(passed) >= 30
    assert int(deselected) >= 10
    assert configuration(lab) == before


def test_what_a_test_leaves_behind_is_removed(lab):
    before = configuration(lab)
    with lab.connect() as client:
        edit(client, "tsn-test-1")
        client.commit()
        edit(client, "tsn-test-2")
    clean_up(lab)
    assert configuration(lab) == before


@pytest.mark.parametrize("persist", [None, OWN_PERSIST_ID])
def test_a_test_that_failed_leaves_no_session_lock_or_pending_commit(lab, persist):
    before = configuration(lab)
    failed, other = lab.connect(), lab.connect()
    edit(failed, "tsn-test-1")
    failed.commit(confirmed=True, timeout="600", persist=persist)
    failed.lock("running")
    other.lock("candidate")
    edit(other, "tsn-test-2")

    clean_up(lab)

    assert not failed.connected
    assert not other.connected
    assert configuration(lab) == before
    with lab.connect() as client:
        client.lock("running")
        client.lock("candidate")
        client.commit()


def test_sessions_of_others_are_left_open(lab, monkeypatch):
    others = lab.connect()
    others.lock("startup")
    monkeypatch.setattr(lab, "sessions", set())
    clean_up(lab)
    others.unlock("startup")
    others.close_session()


def test_uncommitted_work_of_others_is_not_thrown_away(lab):
    with lab.connect() as client:
        edit(client, "half-done")
    before = configuration(lab)
    run = run_pytest(*ENOUGH)
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "candidate differs from running: commit these changes or discard them" in run.stdout
    assert configuration(lab) == before


def test_interfaces_that_look_like_the_tests_own_are_not_removed(lab):
    with lab.connect() as client:
        edit(client, "tsn-test-7")
        client.commit()
    before = configuration(lab)
    run = run_pytest(*ENOUGH)
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "running has interfaces named tsn-test-…" in run.stdout
    assert configuration(lab) == before


@pytest.fixture
def environment(tmp_path):
    """All that is needed to name a server."""
    key = tmp_path / "key"
    key.touch()
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text(
        "[switch]:830 ssh-ed25519 "
        "AAAAC3NzaC1lZDI1NTE5AAAAIHn6Wkp8RKiDYTLJxZXbW5Zs7q9wVHXh4d0mXJ2d2c5v\n"
    )
    return {
        "TSN_NETCONF_SERVER": "switch:830",
        "TSN_NETCONF_KEY": str(key),
        "TSN_NETCONF_KNOWN_HOSTS": str(known_hosts),
    }


def test_a_named_server_is_known_by_its_host_key(environment):
    server = named_server(environment)
    assert (server.host, server.port, server.username) == ("switch", 830, "operator")
    assert server.host_key_type == "ssh-ed25519"
    assert server.host_key_b64.endswith("2d2c5v")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"TSN_NETCONF_SERVER": "switch"}, "TSN_NETCONF_SERVER is 'switch', expected host:port"),
        ({"TSN_NETCONF_SERVER": "::1:830"}, "TSN_NETCONF_SERVER is '::1:830', expected host:port"),
        ({"TSN_NETCONF_SERVER": "switch:831"}, "has no host key for .switch.:831; compare it"),
        ({"TSN_NETCONF_SERVER": "[fe80::1]:830"}, "ssh-keyscan -p 830 fe80::1 >> "),
        ({"TSN_NETCONF_KEY": "/nonexistent"}, "no file /nonexistent; set TSN_NETCONF_KEY"),
        (
            {"TSN_NETCONF_KNOWN_HOSTS": "/nonexistent"},
            "no file /nonexistent; set TSN_NETCONF_KNOWN_HOSTS",
        ),
    ],
)
def test_a_server_that_is_named_badly_is_refused(environment, changes, complaint):
    with pytest.raises(NotUsable, match=complaint):
        named_server(environment | changes)
