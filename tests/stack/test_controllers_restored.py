"""Switches keep what a database does not know, which was put back from a backup or is of another
network: nothing is changed before an admin has chosen."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml

from cnc import intent, rollout
from cnc.rollout import Met
from cnc.service.refused import CallRefused
from cnc.switch import ConnectOptions
from tests.stack.controller_processes import (
    BEGIN,
    CUC,
    LIMIT_S,
    Controller,
    Controllers,
    line3,
    stream,
)
from tests.stack.lab_user import User
from tests.stack.netconfd_process import wait_until
from tests.stack.postgresql import ROLE, Cluster


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory, postgresql: Cluster) -> Iterator[User]:
    here = User(tmp_path_factory.mktemp("home"))
    here.up(line3(here.home))
    here.keys["PGPASSFILE"] = str(postgresql.passfile)
    yield here
    here.does("lab", "down")


def since_begin(its: Controller) -> str:
    """What a controller has said since its last start."""
    return its.log.rpartition(BEGIN)[2]


class Network(Controllers):
    """What `a` leads, which has put the first stream; `b` is another controller that is not started
    yet, with another database."""

    def __init__(self, user: User, cluster: Cluster) -> None:
        self.user, self._cluster = user, cluster
        self._names = (f"c{number}" for number in count(len([*user.home.glob("c*")])))
        self.url = cluster.database()
        self.file = line3(user.home)
        self.a = self.b = self.controller(self.url)

    def controller(self, url: str) -> Controller:
        return Controller(self.user, next(self._names), self.file, url)

    def lead(self, its: Controller, *options: object) -> None:
        its.start(*options)
        assert wait_until(lambda: its.leads, LIMIT_S), its.log

    def runs(self, its: Controller, number: int) -> None:
        self.put(its, number)
        self.until_configured(its, number)

    def of_backup(self) -> Controller:
        """Another controller, on a copy of the database as it is now, which nobody has open."""
        name = self.url.partition("@/")[2].partition("?")[0]
        self._cluster.sql(f"CREATE DATABASE {name}_backup TEMPLATE {name} OWNER {ROLE}")
        return self.controller(self.url.replace(f"/{name}?", f"/{name}_backup?"))

    def refuses(self, its: Controller) -> str:
        """Why it takes no stream, once it has looked at the switches."""
        assert wait_until(lambda: "nothing is changed" in since_begin(its), LIMIT_S), its.log
        with its.client(self.token) as client, pytest.raises(CallRefused) as refused:
            client.put_stream(CUC, stream(9))
        return str(refused.value)

    def streams(self, its: Controller) -> set[str]:
        found = self.document(its, "streams")["streams"]
        return {each["stream_id"][-2:] for each in found if each["cuc"] == CUC}

    def another_database(self) -> str:
        return self._cluster.database()

    def term(self) -> int:
        """The lowest that a switch keeps."""
        return min(term for _, term, _ in self.met().values())

    def met(self) -> dict[str, Any]:
        """What each switch keeps: network, term, and the rollout that it runs."""
        keys = self.user.keys
        connect = ConnectOptions(Path(keys["CNC_IDENTITY"]), Path(keys["CNC_KNOWN_HOSTS"]), 30.0)
        switches = intent.load(self.file).network.managed.values()
        found = {}
        for name, its in rollout.meet(switches, connect=connect).items():
            assert isinstance(its, Met), its
            assert its.term
            assert its.rollout
            found[name] = its.term.network, its.term.term, its.rollout.id
        return found


@pytest.fixture
def network(user: User, postgresql: Cluster) -> Iterator[Network]:
    its = Network(user, postgresql)
    try:
        its.lead(its.a, "--take-over")
        its.token = its.a.token
        its.runs(its.a, 1)
        yield its
    finally:
        its.close()


def test_what_was_decided_since_a_backup_stays_until_an_admin_puts_the_backups_plan_there(
    network: Network,
) -> None:
    a = network.a
    assert a.stop() == 0
    b = network.b = network.of_backup()
    network.lead(a)
    network.runs(a, 2)
    assert a.stop() == 0
    before = network.met()

    b.start()
    said = network.refuses(b)
    assert "it runs rollout" in said
    assert "(term " in said
    assert network.streams(b) == {"01"}
    assert b.stop() == 0
    b.start("--adopt")
    assert "what runs is not the plan of the database, at ports: s1/" in network.refuses(b)
    assert b.stop() == 0
    assert network.met() == before

    network.lead(b, "--take-over")
    network.runs(b, 3)
    assert network.streams(b) == {"01", "03"}
    assert all(port["agrees"] for port in network.status(b))
    assert network.term() > max(term for _, term, _ in before.values())
    assert b.stop() == 0
    network.lead(b)


def test_a_backup_whose_plan_still_runs_is_adopted_without_a_rollout(network: Network) -> None:
    a = network.a
    assert a.stop() == 0
    b = network.b = network.of_backup()
    network.lead(a)
    assert a.stop() == 0
    before = network.met()

    b.start()
    assert "(term " in network.refuses(b)
    rollouts = network.document(b, "rollouts")
    assert b.stop() == 0
    network.lead(b, "--adopt")
    assert wait_until(lambda: network.term() > before["s1"][1], LIMIT_S), b.log
    assert network.document(b, "rollouts") == rollouts
    assert {its[2] for its in network.met().values()} == {its[2] for its in before.values()}
    network.runs(b, 2)


def test_switches_of_another_network_stay_with_it(network: Network) -> None:
    document = yaml.safe_load(network.file.read_text())
    other = network.user.home / "other.yaml"
    other.write_text(yaml.safe_dump({**document, "name": "other"}, sort_keys=False))
    network.file = other
    b = network.b = network.controller(network.another_database())
    before = network.met()
    b.start()
    assert wait_until(lambda: "nothing is changed" in since_begin(b), LIMIT_S), b.log
    assert "s1: it runs rollout" in b.log
    network.runs(network.a, 2)
    assert {(name, term) for name, term, _ in network.met().values()} == {
        (name, term) for name, term, _ in before.values()
    }
