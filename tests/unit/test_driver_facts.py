"""What the agent knows of drivers, and what it makes of that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.driver_facts import FACTS, Takes
from agent.kernel.ethtool import device_driver
from agent.mechanisms.gates import limits
from agent.mechanisms.gates.model import GateEntry, GateState, TaprioMode
from tests.unit.test_operational import kernel_of, port
from tests.unit.test_switch import BARE, problems, with_schedule


@pytest.mark.parametrize("driver", FACTS)
def test_every_fact_names_the_file_in_which_it_was_read(driver):
    assert FACTS[driver].source
    assert all(each.endswith(".c") for each in FACTS[driver].source)


@pytest.mark.parametrize("driver", FACTS)
def test_limits_are_of_drivers_that_take_gates(driver):
    facts = FACTS[driver]
    numbers = (facts.list_max, facts.cycle_max_ns, facts.interval_max_ns, facts.tick_ns)
    assert Takes.GATES in facts.takes or not any(numbers)


def test_a_port_publishes_what_its_driver_takes_before_any_list_runs():
    assert kernel_of(replace(port("p1"), driver="sja1105"))["offload"] == {
        "source": list(FACTS["sja1105"].source),
        "takes": ["gates", "filters", "police", "stream-gates"],
        "list-max": 1024,
        "interval-min": 200,
        "interval-max": 52_428_600,
        "tick": 200,
        "drops-long-frames": False,
        "note": list(FACTS["sja1105"].notes),
    }


@pytest.mark.parametrize("driver", [None, "e1000e"])
def test_nothing_is_guessed_of_other_drivers(driver):
    assert "offload" not in kernel_of(replace(port("p1"), driver=driver))


def test_a_port_says_whether_its_hardware_stamps_and_forwards_frames():
    assert kernel_of(port("p1"))["hardware-time-stamps"] is False
    assert kernel_of(port("p1"))["hardware-forwards"] is False
    stamping = replace(port("p1"), has_hardware_stamps=True, switch_id="00")
    assert kernel_of(stamping)["hardware-forwards"] is True
    assert kernel_of(stamping)["hardware-time-stamps"] is True


@pytest.mark.parametrize(
    ("interval_ns", "words"),
    [
        (100, "entry 0 lasts 100 ns; the driver sja1105 takes 200 ns or more"),
        (700, "entry 0 lasts 700 ns; the driver sja1105 counts in ticks of 200 ns"),
        (600, None),
    ],
)
def test_a_list_that_a_driver_refuses_or_cuts_is_refused_before_the_driver_is_asked(
    interval_ns, words
):
    by_mode = limits.limits_by_mode("sja1105")
    state = replace(BARE, driver="sja1105", link_speed_bps=10**10)
    state = state.with_part(replace(state[GateState], limits_by_mode=by_mode))
    entries = (GateEntry(0x1, interval_ns), GateEntry(0x3, 10_000 - interval_ns))
    taprio = with_schedule(entries=entries, cycle_time_ns=10_000)
    found = problems(replace(taprio, mode=TaprioMode.FULL_OFFLOAD), state)
    assert [words in each for each in found[:1]] == ([True] if words else [])
    assert problems(taprio, state) == []  # in software the kernel's limits hold


def test_the_driver_of_a_dsa_port_is_that_of_its_device(tmp_path):
    (tmp_path / "drivers" / "mscc_felix").mkdir(parents=True)
    (tmp_path / "lan1" / "device").mkdir(parents=True)
    bound = tmp_path / "lan1" / "device" / "driver"
    bound.symlink_to(tmp_path / "drivers" / "mscc_felix")
    assert device_driver("lan1", tmp_path) == "mscc_felix"
    assert device_driver("lan2", tmp_path) is None
