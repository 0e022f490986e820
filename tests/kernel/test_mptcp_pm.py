"""What the agent's plugin for the path manager sets is what ip-mptcp(8) shows, and the reverse."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator

import pytest
from pyroute2.netlink.exceptions import NetlinkError

from agent.kernel.mptcp_pm import Endpoint, Limits, MptcpPm
from tests.kernel.conftest import inside, new_namespace

STATION = "tsn-station"
SUBFLOW, FULLMESH, BACKUP, SIGNAL = (
    frozenset({each}) for each in ("subflow", "fullmesh", "backup", "signal")
)


@pytest.fixture
def pm() -> Iterator[MptcpPm]:
    with new_namespace(STATION), inside(STATION):
        opened = MptcpPm()
        yield opened
        opened.close()


def mptcp(*words: str) -> list[list[str]]:
    """The words of each line that `ip mptcp` shows."""
    run = subprocess.run(["ip", "mptcp", *words], check=True, capture_output=True, text=True)
    return [line.split() for line in run.stdout.splitlines() if line]


def test_endpoints_are_what_ip_shows(pm):
    pm.add(Endpoint("10.1.0.2", SUBFLOW | FULLMESH, ifindex=1))
    pm.add(Endpoint("fd00::2", SIGNAL, id=9))
    assert mptcp("endpoint") == [
        ["10.1.0.2", "id", "1", "subflow", "fullmesh", "dev", "lo"],
        ["fd00::2", "id", "9", "signal"],
    ]


def test_endpoints_that_ip_adds_are_read_with_all_they_have(pm):
    mptcp("endpoint", "add", "10.1.0.2", "id", "5", "dev", "lo", "subflow", "backup")
    assert pm.endpoints() == [Endpoint("10.1.0.2", SUBFLOW | BACKUP, id=5, ifindex=1)]
    assert pm.endpoint(5) == pm.endpoints()[0]


def test_flags_change_in_place(pm):
    pm.add(Endpoint("10.1.0.2", SUBFLOW | FULLMESH, id=5))
    pm.change(Endpoint("10.1.0.2", SUBFLOW | BACKUP, id=5))
    assert mptcp("endpoint") == [["10.1.0.2", "id", "5", "subflow", "backup"]]


def test_a_deleted_endpoint_leaves_the_others(pm):
    for number in (1, 2):
        pm.add(Endpoint(f"10.{number}.0.2", SUBFLOW, id=number))
    pm.delete(Endpoint("10.1.0.2", SUBFLOW, id=1))
    assert mptcp("endpoint") == [["10.2.0.2", "id", "2", "subflow"]]


def test_limits_are_what_ip_shows(pm):
    pm.set_limits(Limits(subflows=4, add_addr_accepted=3))
    assert mptcp("limits") == [["add_addr_accepted", "3", "subflows", "4"]]
    assert pm.limits() == Limits(4, 3)


@pytest.mark.parametrize(
    ("refused", "number", "reason"),
    [
        (lambda pm: pm.endpoint(77), errno.EINVAL, "address not found"),
        (lambda pm: pm.set_limits(Limits(9, 0)), errno.EINVAL, "limit greater than maximum"),
        (
            lambda pm: pm.add(Endpoint("10.1.0.2", SIGNAL | FULLMESH)),
            errno.EINVAL,
            "both signal and fullmesh",
        ),
    ],
    ids=["unknown-id", "limit", "flags"],
)
def test_a_refusal_has_the_reason_of_the_kernel(pm, refused, number, reason):
    with pytest.raises(NetlinkError, match=reason) as refusal:
        refused(pm)
    assert refusal.value.code == number
