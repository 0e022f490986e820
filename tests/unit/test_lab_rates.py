"""The rates that the switches of a lab are told, and those that their gates cannot reckon with."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from agent import main as agent
from cnc import intent as intents
from cnc.errors import InputError
from cnc.model import Intent, Management
from cnc.testbed.cli.lab import lab
from cnc.testbed.lab.running import Lab
from cnc.testbed.lab.supported import check_rates
from cnc.testbed.lab.switch import AGENT, NETCONF_SERVER

SLOW_LINK = """
name: slow
defaults:
  {rate: RATE, processing: {min: 1us, max: 3us}, propagation: 100ns, clock-error: 1us, user: tsn}
classes:
  cyclic: {traffic-class: 1, priority: 1, dscp: 16, role: scheduled}
  best-effort: {traffic-class: 0, priority: 0, dscp: 0, role: best-effort}
switches: {s1: {management: 10.99.0.1, ports: [a, b, c]}}
end-stations: [t, l, other]
links:
  - [t/eth0, s1/a]
  - [l/eth0, s1/b]
  - {ends: [other/eth0, s1/c], rate: 10Mbps}
streams:
  one: {talker: t, listeners: [l], period: 20ms, payload: 100B, max-latency: 10ms}
"""


def intent(rate: str, tmp_path: Path) -> Intent:
    file = tmp_path / "slow.yaml"
    file.write_text(SLOW_LINK.replace("RATE", rate))
    return intents.load(file)


def test_an_agent_is_told_the_rates_of_its_own_ports(tmp_path: Path):
    switch = Lab(intent("1Gbps", tmp_path), tmp_path).switch("s1")
    management, keys = Management("10.99.0.1", 830, "tsn"), tmp_path / "keys"
    told = switch.command(AGENT, management, keys)
    assert told[-2:] == ["--emulate", "a=1000000000,b=1000000000,c=10000000"]
    assert "--emulate" not in switch.command(NETCONF_SERVER, management, keys)


@pytest.mark.parametrize("rates", ["", "p1", "p1=", "p1=0", "p1=1Gbps", "p1=1,p1=2", "=1", "p1=1,"])
def test_what_is_no_rate_of_a_port_is_a_bad_argument_of_the_agent(
    rates: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as ended:
        agent.main(["--emulate", rates])
    assert ended.value.code == 2
    assert "PORT=BPS[,PORT=BPS...]" in capsys.readouterr().err


@pytest.mark.parametrize("rate", ["100Mbps", "10Gbps"])
def test_a_slow_link_that_no_stream_leaves_a_switch_by_is_no_obstacle(rate: str, tmp_path: Path):
    check_rates(intent(rate, tmp_path))


@pytest.mark.parametrize(("rate", "shown"), [("99Mbps", "99 Mb/s"), ("25Gbps", "25 Gb/s")])
def test_a_stream_over_a_link_that_gates_cannot_reckon_with_is_refused(
    rate: str, shown: str, tmp_path: Path
):
    with pytest.raises(InputError) as refused:
        check_rates(intent(rate, tmp_path))
    assert f"stream one: port s1/b would need gates for a link of {shown}" in str(refused.value)
    assert "100 Mb/s to 10 Gb/s only" in str(refused.value)
    assert "streams: {}" in str(refused.value.hint)


def test_such_a_lab_does_not_come_up_and_the_exit_code_is_that_of_a_bad_intent(tmp_path: Path):
    intent("10Mbps", tmp_path)
    done = CliRunner().invoke(lab, ["up", str(tmp_path / "slow.yaml")])
    assert isinstance(done.exception, InputError)
    assert done.exception.exit_code == 2


def test_without_streams_a_link_may_have_any_rate(tmp_path: Path):
    intent("10Mbps", tmp_path)
    file = tmp_path / "slow.yaml"
    file.write_text(file.read_text().split("streams:")[0] + "streams: {}\n")
    check_rates(intents.load(file))
