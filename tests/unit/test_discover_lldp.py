"""What the agent makes of lldpd's answers, recorded from lldpd 1.0.16, and of worse."""

from __future__ import annotations

import copy
import errno
import json

import pytest

from agent import lldp, operational
from agent.lldp import Identifier, Neighbor

CHASSIS = {
    "local-chassis": [
        {
            "chassis": [
                {
                    "id": [{"type": "mac", "value": "1e:8a:9d:41:39:ee"}],
                    "name": [{"value": "s1"}],
                    "descr": [{"value": "Debian GNU/Linux 12 (bookworm)"}],
                    "mgmt-ip": [{"value": "10.5.0.1"}, {"value": "fe80::1c8a:9dff:fe41:39ee"}],
                    "mgmt-iface": [{"value": "2"}, {"value": "2"}],
                    "capability": [
                        {"type": "Bridge", "enabled": False},
                        {"type": "Station", "enabled": True},
                    ],
                }
            ]
        }
    ]
}
NEIGHBORS = {
    "lldp": [
        {
            "interface": [
                {
                    "name": "eb",
                    "via": "LLDP",
                    "rid": "1",
                    "age": "0 day, 00:00:05",
                    "chassis": [
                        {
                            "id": [{"type": "mac", "value": "3e:ad:72:71:77:fa"}],
                            "name": [{"value": "s2"}],
                            "mgmt-ip": [{"value": "10.5.0.2"}, {"value": "10.5.0.2"}],
                            "capability": [
                                {"type": "Bridge", "enabled": True},
                                {"type": "Router", "enabled": True},
                                {"type": "Wlan", "enabled": False},
                                {"type": "Hovercraft", "enabled": True},
                            ],
                        }
                    ],
                    "port": [
                        {
                            "id": [{"type": "ifname", "value": "ea"}],
                            "descr": [{"value": "uplink"}],
                            "ttl": [{"value": "120"}],
                        }
                    ],
                }
            ]
        }
    ]
}
HEARD = Neighbor(
    interface="eb",
    chassis_id=Identifier("3e:ad:72:71:77:fa", "mac-address"),
    port_id=Identifier("ea", "interface-name"),
    port_description="uplink",
    system_name="s2",
    management_addresses=("10.5.0.2",),
    capabilities=("bridge", "router"),
)


def claiming(**claims: object):
    """The recorded neighbour, but with these values of its chassis or port."""
    neighbors = copy.deepcopy(NEIGHBORS)
    entry = neighbors["lldp"][0]["interface"][0]
    for key, value in claims.items():
        part = "port" if key in {"descr", "port"} else "chassis"
        if key in {"port", "chassis"}:
            entry[key] = value
        else:
            entry[part][0][key] = [{"value": value}]
    return neighbors


def only(neighbors: object) -> Neighbor:
    (neighbor,) = lldp.parse(CHASSIS, neighbors).neighbors
    return neighbor


def test_recorded_answers_are_taken_over():
    found = lldp.parse(CHASSIS, NEIGHBORS)
    assert found.chassis_id == Identifier("1e:8a:9d:41:39:ee", "mac-address")
    assert found.system_name == "s1"
    assert found.neighbors == (HEARD,)


def test_an_identifier_of_a_kind_lldpd_does_not_name_keeps_its_text():
    unhandled = [{"id": [{"type": "unhandled", "value": "slot 3"}]}]
    assert only(claiming(port=unhandled)).port_id == Identifier("slot 3", None)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("evil\nname", "evil\ufffdname"),
        ("\x1b[2Jcleared", "\ufffd[2Jcleared"),
        ("a\u202egpj.exe", "a\ufffdgpj.exe"),
        ("half \ud800 pair", "half \ufffd pair"),
        ("\ufffe\U0001ffff", "\ufffd\ufffd"),
        ("line\u2028separator", "line\ufffdseparator"),
        ("Zürich 東京", "Zürich 東京"),
        ("x" * 1000, "x" * 255),
    ],
)
def test_text_from_the_cable_is_printable_and_short(said: str, shown: str):
    neighbor = only(claiming(name=said, descr=said))
    assert (neighbor.system_name, neighbor.port_description) == (shown, shown)


@pytest.mark.parametrize(
    "chassis",
    [None, 7, "text", [], [[]], [{"id": "x", "name": 5, "mgmt-ip": None, "capability": {"a": 1}}]],
)
def test_what_is_of_the_wrong_type_is_not_there(chassis: object):
    neighbor = only(claiming(chassis=chassis))
    assert (neighbor.chassis_id, neighbor.system_name) == (None, "")
    assert (neighbor.management_addresses, neighbor.capabilities) == ((), ())


@pytest.mark.parametrize("answer", [None, [], {}, {"lldp": {}}, {"lldp": [{"interface": 3}]}])
def test_without_neighbours_there_are_none(answer: object):
    assert lldp.parse(CHASSIS, answer).neighbors == ()


def test_an_address_that_is_none_is_left_out():
    assert only(claiming(**{"mgmt-ip": "10.0.0.1; rm -rf /"})).management_addresses == ()


def test_neighbours_of_one_port_are_counted():
    twice = NEIGHBORS["lldp"][0]["interface"] * 2
    node = operational.lldp(lldp.parse(CHASSIS, {"lldp": {"interface": twice}}))
    listed = node["tsn-linux:lldp"]["neighbor"]
    assert [(n["interface"], n["index"]) for n in listed] == [("eb", 0), ("eb", 1)]


def test_what_a_neighbour_did_not_say_has_no_leaf():
    node = operational.lldp(lldp.parse({}, {"lldp": {"interface": {"name": "p1"}}}))
    assert node == {"tsn-linux:lldp": {"neighbor": [{"interface": "p1", "index": 0}]}}


@pytest.fixture
def lldpcli(tmp_path, monkeypatch):
    """Puts a script in the place of lldpd's client."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    def install(script: str) -> None:
        client = tmp_path / "lldpcli"
        client.write_text(f"#!/bin/sh\n{script}\n")
        client.chmod(0o755)

    return install


def test_both_questions_are_asked_of_lldpd(lldpcli):
    answers = {"chassis": json.dumps(CHASSIS), "neighbors details": json.dumps(NEIGHBORS)}
    cases = "".join(f"'-f json0 show {what}') echo '{a}' ;;\n" for what, a in answers.items())
    lldpcli(f'case "$*" in\n{cases}*) exit 9 ;; esac')
    assert lldp.read() == lldp.parse(CHASSIS, NEIGHBORS)


@pytest.mark.parametrize(
    "script",
    ["exit 1", "echo no json", "printf '\\377\\376'", "head -c 100000 /dev/zero | tr '\\0' '['"],
)
def test_a_client_that_fails_or_says_nonsense_is_no_lldpd(lldpcli, script: str):
    lldpcli(script)
    assert lldp.read() is None


def test_a_client_that_hangs_is_given_up(lldpcli, monkeypatch):
    monkeypatch.setattr(lldp, "TIMEOUT_S", 0.1)
    lldpcli("exec sleep 1000")
    assert lldp.read() is None


def test_without_lldpd_there_is_nothing_to_report(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert lldp.read() is None
    assert operational.lldp(None) == {}


def test_of_thousands_of_neighbours_the_first_are_reported(caplog):
    """A device may forward the frames of others, or send frames in many names."""
    many = NEIGHBORS["lldp"][0]["interface"] * 10_000
    found = lldp.parse(CHASSIS, {"lldp": {"interface": many}})
    assert len(found.neighbors) == lldp.NEIGHBORS_MAX
    assert "lldpd has more than 2048 neighbours: the others are left out" in caplog.text


def test_of_many_addresses_the_first_are_reported():
    addresses = [{"value": f"10.0.{n // 256}.{n % 256}"} for n in range(1000)]
    neighbor = only(claiming(chassis=[{"mgmt-ip": addresses}]))
    assert neighbor.management_addresses[-1] == "10.0.0.15"


def test_what_a_neighbour_says_of_itself_does_not_hide_the_others():
    liars = [
        *(
            {"name": "p1", "chassis": chassis}
            for chassis in ("\ud800", {"id": [[]]}, [{"id": None}], 10**400)
        ),
        {"name": "p1", "port": [{"id": [{"type": "ifname", "value": "\0" * 10}]}]},
        {"name": ["p1"]},
    ]
    honest = NEIGHBORS["lldp"][0]["interface"]
    found = lldp.parse(CHASSIS, {"lldp": {"interface": [*liars, *honest]}})
    assert found.neighbors[-1] == HEARD


def test_without_a_free_descriptor_lldpd_is_not_asked(monkeypatch, caplog):
    def used_up(*_, **__):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(lldp.subprocess, "run", used_up)
    assert lldp.read() is None
    assert "lldpd does not answer: [Errno 24] Too many open files" in caplog.text
