"""Several controllers of one network: one leads, and another when it is gone."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
import yaml

from tests.stack.controller_processes import LIMIT_S, Controllers, controllers, line3
from tests.stack.lab_user import User
from tests.stack.netconfd_process import wait_until


@pytest.fixture
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    here = User(tmp_path_factory.mktemp("home"))
    here.up(line3(here.home))
    yield here
    here.does("lab", "down")


@pytest.fixture
def two(user: User, database: str) -> Iterator[Controllers]:
    with controllers(user, database) as its:
        its.start()
        yield its


def test_a_standby_answers_and_leads_when_the_leader_is_killed(two: Controllers) -> None:
    assert two.document(two.b, "plan")["intent"]["name"] == "line3"
    assert two.put(two.b, 1)["stream-id"].endswith("00-01")
    by_b = two.until_configured(two.b, 1)
    assert by_b == two.until_configured(two.a, 1)
    two.a.kill()
    assert wait_until(lambda: two.b.leads, LIMIT_S), two.b.log
    two.put(two.b, 2)
    two.until_configured(two.b, 2)
    assert all(port["agrees"] for port in two.status(two.b))
    two.a.start()
    two.put(two.a, 3)
    two.until_configured(two.a, 3)
    assert not two.a.leads


def test_a_service_with_files_goes_on_as_one_of_several_controllers(
    user: User, database: str
) -> None:
    with controllers(user, database) as two:
        two.a.database = None
        two.a.start()
        two.token = two.first_token()
        two.put(two.a, 1)
        of_files = two.until_configured(two.a, 1)
        assert two.a.stop() == 0, two.a.log
        two.a.database = database
        two.a.start("--move-state")
        assert wait_until(lambda: two.a.leads, LIMIT_S), two.a.log
        two.b.start()
        assert two.until_configured(two.b, 1) == of_files
        two.put(two.b, 2)
        two.until_configured(two.b, 2)
        assert all(port["agrees"] for port in two.status(two.b))


def asked(user: User, *words: str) -> str:
    """What a command prints in the directory of the intent."""
    argv, environment = user.command(*words)
    done = subprocess.run(
        argv, env=environment, capture_output=True, text=True, check=False, cwd=user.home
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_commands_and_the_page_work_by_a_standby_as_by_the_leader(
    two: Controllers, user: User
) -> None:
    user.keys |= {
        "CNC_CONTROLLER": f"https://127.0.0.1:{two.b.port}",
        "CNC_CONTROLLER_CERTIFICATE": str(two.b.directory / "tls.crt"),
        "CNC_TOKEN": two.token,
    }
    document = yaml.safe_load(two.file.read_text())
    fewer = {name: its for name, its in document["streams"].items() if name != "valves"}
    two.file.write_text(yaml.safe_dump({**document, "streams": fewer}, sort_keys=False))
    assert "removed valves" in asked(user, "push", two.file.name)
    assert "all as planned" in asked(user, "status", "--problems")
    assert "service" in asked(user, "history")
    for each in (two.a, two.b):
        assert "valves" not in two.document(each, "plan")["streams"]
        assert "line3" in str(two.document(each, "page"))
    refused = user.cnc("token", "add", "x", "--role", "viewer", "--state-dir", two.b.directory)
    assert refused.returncode == 1
    assert f"https://127.0.0.1:{two.a.port} leads the network" in refused.stderr
