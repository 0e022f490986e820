"""What `cnc status` prints of networks with many ports: a row for each switch."""

from __future__ import annotations

import pytest

from cnc.cli import render
from cnc.data_tree.tree import KernelSchedule
from cnc.model import GateControlList, GateEntry, PortRef
from cnc.rollout import PortStatus

GATES = GateControlList(1_000, (GateEntry(0x81, 400), GateEntry(0x80, 600)))
AWAY = "s2 does not answer: connection refused"


def port(name: str, verdict: str = "running", *, agrees: bool = True) -> PortStatus:
    running = KernelSchedule(7, GATES) if verdict == "running" else None
    return PortStatus(PortRef(*name.split("/")), GATES, running, None, verdict, agrees)


def network(**differing: str) -> list[PortStatus]:
    """Eleven switches with four ports; a name such as s3_p1 differs in that way, s2 with all."""
    return [
        port(f"s{switch}/p{number}", why or "running", agrees=why is None)
        for switch in range(11, 0, -1)
        for number in range(1, 5)
        for why in [differing.get(f"s{switch}", differing.get(f"s{switch}_p{number}"))]
    ]


def printed(
    capsys: pytest.CaptureFixture[str], ports: list[PortStatus], **options: bool
) -> list[str]:
    render.status(ports, **{"only_problems": False, "as_json": False, **options})
    return [line.strip() for line in capsys.readouterr().out.splitlines() if line.strip()]


def test_of_many_ports_each_switch_has_a_row_in_the_order_people_count(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = printed(capsys, network())
    assert [line.split()[0] for line in lines[2:-1]] == [f"s{number}" for number in range(1, 12)]
    assert lines[2].split() == ["s1", "4", "8", "running"]
    assert lines[-1] == "44 ports on 11 switches: all as planned"


def test_a_switch_that_does_not_answer_is_one_row_and_one_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = printed(capsys, network(s2=AWAY))
    assert lines[3].split(maxsplit=3) == ["s2", "4", "0", AWAY]
    assert sum(AWAY in line for line in lines) == 1
    assert lines[-1] == "4 of 44 ports on 11 switches not as planned: s2 (4 ports)"


def test_ports_that_differ_follow_the_switches(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, network(s2=AWAY, s10_p3="no gates"))
    assert lines[11].split(maxsplit=3) == ["s10", "4", "6", "3 running; 1 no gates"]
    (row,) = (line for line in lines if line.startswith("s10/p3"))
    assert row.endswith("no gates")
    assert lines[-1].endswith("not as planned: s10/p3, s2 (4 ports)")


@pytest.mark.parametrize(
    ("ports", "options"),
    [
        (network(s2=AWAY), {"all_ports": True}),
        (network(s2=AWAY)[:24], {}),
        (network(s2=AWAY), {"only_problems": True}),
    ],
)
def test_few_ports_and_those_that_are_asked_for_have_rows_of_their_own(
    capsys: pytest.CaptureFixture[str], ports: list[PortStatus], options: dict[str, bool]
) -> None:
    shown = [its for its in ports if not (options.get("only_problems") and its.agrees)]
    rows = [line.split()[0] for line in printed(capsys, ports, **options)]
    assert [row for row in rows if "/" in row] == [str(its.port) for its in shown]
