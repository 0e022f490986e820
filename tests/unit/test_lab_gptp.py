"""gPTP in a lab of kernels: what each node's ptp4l is told, and when its clock has settled."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from subprocess import check_output

import pytest

from agent.mechanisms.clock.tree import configured
from agent.ptp_daemons import files
from agent.ptp_daemons.files import Daemon
from agent.ptp_daemons.model import TimeStamping
from cnc import intent as intents
from cnc.data_tree.tree import PTP, TSN_LINUX
from cnc.testbed.lab import Lab
from cnc.testbed.lab.kernels import beside, gptp, layout

LINE3 = intents.load(Path(__file__).parents[2] / "schedules" / "line3.yaml")
SECOND = "ptp4l[{}.595]: rms    5 max {:4} freq +25003 +/-   3 delay  1336 +/-   0"


def text(config, path: str) -> list[str]:
    return [each.text for each in config.iterfind(path, {"ptp": PTP, "linux": TSN_LINUX})]


def test_the_instance_of_a_switch_has_all_its_cabled_ports():
    config = gptp.instance(LINE3, "s2")
    cabled = sorted(port.port for port in LINE3.network.links if port.node == "s2")
    assert text(config, ".//ptp:underlying-interface") == cabled
    assert text(config, ".//{*}interface/{*}name") == cabled


def test_the_first_switch_is_the_grandmaster_and_switches_go_before_end_stations():
    first, *others = LINE3.network.bridges
    assert gptp.grandmaster(LINE3) == first
    (wins,) = text(gptp.instance(LINE3, first), ".//ptp:priority1")
    for other in others:
        (follows,) = text(gptp.instance(LINE3, other), ".//ptp:priority1")
        station = options(gptp.station_configuration(LINE3, "t1"))
        assert int(wins) < int(follows) < int(station["priority1"])


def options(file: str) -> dict[str, str]:
    """The global ones of a configuration of ptp4l."""
    lines = file.partition("[global]\n")[2].partition("[")[0].splitlines()
    return dict(line.split(maxsplit=1) for line in lines if line)


def test_an_end_station_without_an_agent_is_told_what_an_agent_would_tell_it():
    leaves = {
        "proportional-constant": gptp.PROPORTIONAL_CONSTANT,
        "integral-constant": gptp.INTEGRAL_CONSTANT,
        "first-step-threshold": gptp.STEP_THRESHOLD_NS,
        "step-threshold": gptp.STEP_THRESHOLD_NS,
    }
    instance = {
        "instance-index": 0,
        "default-ds": {"priority1": gptp.STATION_PRIORITY1},
        "tsn-linux:ptp4l": {"servo": leaves},
    }
    asked = configured(
        {"ieee1588-ptp-tt:ptp": [{"instance": instance, "port": {"port-index": 1}}]}, None
    )
    (port,) = asked.instances
    daemon = Daemon(port.instance, TimeStamping.SOFTWARE, (("eth0", port),))
    own = gptp.station_configuration(LINE3, "t1")
    assert options(own) == {**options(files.encode(daemon).decode()), "summary_interval": "0"}
    (port_name,) = gptp.ports_of(LINE3, "t1")
    assert f"\n[{port_name}]\n" in own


def test_a_node_with_an_agent_knows_by_how_much_its_cables_are_asymmetric():
    # Between switches both ways have the processing time of one; a station's port has none.
    told = dict(
        zip(
            text(config := gptp.instance(LINE3, "s1"), ".//ptp:underlying-interface"),
            map(int, text(config, ".//ptp:delay-asymmetry")),
            strict=True,
        )
    )
    assert told.pop("s2") == 0
    assert set(told.values()) == {500 * 65536}
    assert text(gptp.instance(LINE3, "t1"), ".//ptp:delay-asymmetry") == [str(-500 * 65536)]


def test_an_end_station_knows_that_the_lab_has_frames_take_longer_to_a_switch_than_from_it():
    # 1 us of processing on the way to the switch; half of it is missing on the way from it.
    assert gptp.station_configuration(LINE3, "t1").rstrip().endswith("delayAsymmetry -500")


def test_of_a_log_the_seconds_count_since_the_clock_last_began_to_follow():
    log = [
        SECOND.format(6, 9000),
        "ptp4l[7.220]: port 1: UNCALIBRATED to SLAVE on MASTER_CLOCK_SELECTED",
        SECOND.format(8, 12),
        SECOND.format(9, 7),
    ]
    assert gptp.seconds_off_ns(log) == [12, 7]
    assert gptp.seconds_off_ns(log[:2]) == []


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ([SECOND.format(at, 40) for at in range(10)], None),
        ([], "its ptp4l does not follow a grandmaster"),
        (
            [SECOND.format(at, 40) for at in range(3)],
            "at most 40 ns off in the last 3 s, of the 10 s that it takes",
        ),
        (
            [SECOND.format(at, 40 if at else 1500) for at in range(10)],
            "at most 1.5 µs off in the last 10 s; the plan allows 1 µs",
        ),
    ],
)
def test_an_end_station_has_settled_once_it_was_in_step_for_ten_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: list[str], reason: str | None
):
    lab = Lab(without_others(LINE3), tmp_path)
    gptp.station_log(tmp_path).write_text("\n".join(["started", *log, ""]))
    beside.write(tmp_path, layout.kernels(lab.intent))
    monkeypatch.setattr(gptp, "ask", lambda _directory, _node, argv: check_output(argv))
    monkeypatch.setattr("time.sleep", lambda _s: None)
    assert gptp.await_settled(lab, timeout_s=0) == ({"t1": reason} if reason else {})


def without_others(intent):
    """The intent with the end station t1, its cable and no other node."""
    links = {ref: link for ref, link in intent.network.links.items() if ref.node == "t1"}
    stations = {"t1": intent.network.end_stations["t1"]}
    network = dataclasses.replace(
        intent.network, bridges={}, end_stations=stations, links=links, clock_error_ns=1000
    )
    return dataclasses.replace(intent, network=network)
