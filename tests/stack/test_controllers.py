"""Several controllers of one network: one leads, and another when it is gone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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
