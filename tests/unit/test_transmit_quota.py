"""The frames that the kernel sends in one run: raised for software gates, taken back after them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from agent.boot import BOOT_ID
from agent.composition import Contribution
from agent.mechanisms import MECHANISMS
from agent.mechanisms.classification.model import DscpState
from agent.mechanisms.gates.dev_weight import DevWeight
from agent.mechanisms.gates.model import (
    GateConfig,
    GateEntry,
    GateSchedule,
    Taprio,
    TaprioMode,
    TransmitQuotaState,
)
from agent.mechanisms.gates.transmit_quota import TRANSMIT_QUOTA, TransmitQuota
from agent.model import Clock, OperStatus, PortConfig
from agent.root_qdisc import RootQdisc
from agent.switch import differences, plan, problems
from agent.traffic_classes import QueueRange
from tests.stack.recording_kernel import RecordingKernel, altered, configured, port

# Entries of 30 µs, which the kernel refuses of a link that is down.
SCHEDULE = GateSchedule(0, 60_000, (GateEntry(1, 30_000), GateEntry(2, 30_000)))
SOFTWARE = Taprio(
    (0, 1, *[0] * 14),
    (QueueRange(1, 0), QueueRange(1, 1)),
    TaprioMode.SOFTWARE,
    Clock.TAI,
    SCHEDULE,
)
OFFLOADED = replace(SOFTWARE, mode=TaprioMode.FULL_OFFLOAD)
SHORT = TransmitQuotaState(64, is_settable=True)
ENOUGH = TransmitQuotaState(1024, is_settable=True)
FIXED = TransmitQuotaState(64, is_settable=False)


def state(name, quota, taprio=None):
    found = altered(port(name), transmit_quota=quota)
    return altered(found, taprio=taprio, running=taprio.schedule) if taprio else found


def steps(quota, present, desired):
    """From and to the gates of these ports; where the quota changes, before and after by port."""
    states = {name: state(name, quota, taprio) for name, taprio in present.items()}
    configs = {name: configured(name, taprio) for name, taprio in desired.items()}
    return plan(MECHANISMS, configs, states)


def quota_of(steps):
    """The ports that ask for the quota before and after its step; None where there is none."""
    found = [step for step in steps if step.target == TRANSMIT_QUOTA]
    if not found:
        return None
    (step,) = found
    return [each.port for each in step.before], [each.port for each in step.after]


def test_the_quota_is_raised_before_the_first_gates_close():
    planned = steps(SHORT, {"p1": None, "p2": None}, {"p1": SOFTWARE, "p2": SOFTWARE})
    assert quota_of(planned) == ([], ["p1", "p2"])
    assert [type(step.target) for step in planned] == [TransmitQuota, RootQdisc, RootQdisc]


def test_the_quota_is_taken_back_once_the_last_gates_are_open():
    planned = steps(ENOUGH, {"p1": SOFTWARE, "p2": None}, {})
    assert quota_of(planned) == (["p1"], [])
    assert [type(step.target) for step in planned] == [RootQdisc, TransmitQuota]


def test_the_quota_stays_while_one_port_has_gates():
    present = {"p1": SOFTWARE, "p2": SOFTWARE}
    assert quota_of(steps(ENOUGH, present, {"p2": SOFTWARE})) == (["p1", "p2"], ["p2"])


def test_the_quota_stays_when_one_port_takes_the_gates_of_another():
    present = {"p1": SOFTWARE, "p2": None}
    assert quota_of(steps(ENOUGH, present, {"p2": SOFTWARE})) == (["p1"], ["p2"])


@pytest.mark.parametrize(
    ("quota", "taprio"),
    [(None, SOFTWARE), (FIXED, SOFTWARE), (SHORT, OFFLOADED)],
    ids=["the kernel hides it", "it cannot be set", "hardware runs the gates"],
)
def test_gates_are_set_and_removed_without_the_quota_where(quota, taprio):
    for present, desired in (({"p1": None}, {"p1": taprio}), ({"p1": taprio}, {})):
        planned = steps(quota, present, desired)
        assert [type(step.target) for step in planned] == [RootQdisc]


def test_a_quota_that_somebody_reduced_is_a_difference_of_each_port_with_gates():
    present = {"p1": SOFTWARE, "p2": SOFTWARE, "p3": None}
    states = {name: state(name, SHORT, taprio) for name, taprio in present.items()}
    configs = {name: configured(name, taprio) for name, taprio in present.items()}
    words = (
        "the kernel sends 64 and not 1024 frames in one run of a queue "
        "(net.core.dev_weight_tx_bias)"
    )
    assert differences(MECHANISMS, configs, states) == {"p1": words, "p2": words}
    assert quota_of(plan(MECHANISMS, configs, states)) == (["p1", "p2"], ["p1", "p2"])


def test_gates_that_are_gone_are_the_only_difference_of_their_port():
    states = {"p1": state("p1", ENOUGH)}
    found = differences(MECHANISMS, {"p1": configured("p1", SOFTWARE)}, states)
    assert found == {"p1": "the gate control list is gone; the root qdisc is noqueue"}


def test_a_quota_is_raised_beside_gates_that_a_link_that_is_down_would_not_take():
    down = replace(state("p1", SHORT, SOFTWARE), link_speed_bps=None, oper_status=OperStatus.DOWN)
    ports = RecordingKernel(down).ports
    assert list(problems(ports, {"p1": configured("p1", SOFTWARE)}, {"p1": down})) == []
    other = replace(SOFTWARE, schedule=replace(SCHEDULE, base_time_ns=1))
    assert list(problems(ports, {"p1": configured("p1", other)}, {"p1": down}))


def test_the_rules_of_a_port_whose_gates_run_change_while_its_link_is_down():
    down = replace(state("p1", None, SOFTWARE), link_speed_bps=None, oper_status=OperStatus.DOWN)
    kernel = RecordingKernel(down)
    kernel.apply({"p1": configured("p1", SOFTWARE, {46: 1})})
    assert kernel.states["p1"][DscpState].priorities == {46: 1}


def test_a_port_that_is_left_as_it_is_keeps_asking_for_the_quota():
    gated = state("p1", ENOUGH, SOFTWARE)
    as_it_is = PortConfig("p1", tuple(each.as_is(gated) for each in MECHANISMS))
    assert as_it_is[GateConfig].taprio == SOFTWARE
    assert plan(MECHANISMS, {"p1": as_it_is}, {"p1": gated}) == []


# --- what the kernel has, and what is remembered of it --------------------------------------------


@pytest.fixture
def sysctls(tmp_path):
    """Files in the place of the kernel's, which tests/kernel/test_transmit_quota.py sets."""

    def write(weight=64, bias=1):
        (tmp_path / "dev_weight").write_text(f"{weight}\n")
        (tmp_path / "dev_weight_tx_bias").write_text(f"{bias}\n")

    write()
    return write


@pytest.fixture
def bias(tmp_path):
    return lambda: int((tmp_path / "dev_weight_tx_bias").read_text())


@pytest.fixture
def record(tmp_path):
    return tmp_path / "agent" / "transmit-quota.json"


@pytest.fixture
def dev_weight(sysctls, record, tmp_path):
    return DevWeight(record, tmp_path)


def ask(dev_weight, *frames):
    asked = [Contribution("gates", f"p{n}", 0, each) for n, each in enumerate(frames)]
    dev_weight.replace(TRANSMIT_QUOTA, (), asked)


@pytest.mark.parametrize(
    ("kernel", "raised"), [((64, 1), 16), ((300, 1), 4), ((1000, 1), 2), ((64, 15), 16)]
)
def test_it_is_raised_to_what_is_asked_for_and_taken_back(
    dev_weight, sysctls, bias, kernel, raised
):
    weight, before = kernel
    sysctls(weight, before)
    ask(dev_weight, 1024, 1024)
    assert bias() == raised
    assert dev_weight.read().frames == weight * raised >= 1024
    ask(dev_weight)
    assert bias() == before
    assert not dev_weight.is_raised


@pytest.mark.parametrize(("weight", "before"), [(64, 16), (64, 200), (2048, 1)])
def test_what_is_enough_is_left_and_not_taken_back(dev_weight, sysctls, bias, weight, before):
    sysctls(weight, before)
    ask(dev_weight, 1024)
    assert (bias(), dev_weight.is_raised) == (before, False)
    ask(dev_weight)
    assert bias() == before


def test_a_restarted_agent_takes_back_what_the_one_before_has_raised(
    dev_weight, record, bias, tmp_path
):
    ask(dev_weight, 1024)
    restarted = DevWeight(record, tmp_path)
    ask(restarted, 1024)
    ask(restarted)
    assert bias() == 1


def test_what_somebody_has_set_in_the_meantime_is_not_taken_back(dev_weight, sysctls, bias):
    ask(dev_weight, 1024)
    sysctls(bias=32)
    ask(dev_weight)
    assert (bias(), dev_weight.is_raised) == (32, False)


def test_what_somebody_has_reduced_is_raised_again_and_found_again_afterwards(
    dev_weight, sysctls, bias
):
    ask(dev_weight, 1024)
    sysctls(bias=4)
    ask(dev_weight, 1024)
    assert bias() == 16
    ask(dev_weight)
    assert bias() == 4


def test_a_smaller_weight_does_not_hide_the_bias_that_was_found(dev_weight, sysctls, bias):
    ask(dev_weight, 1024)
    sysctls(weight=32, bias=16)
    ask(dev_weight, 1024)
    assert bias() == 32
    ask(dev_weight)
    assert bias() == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"boot-id": "of-yesterday"},
        {"found": "1"},
        {"found": 2**31},
        {"set": True},
        {"set": -(2**31)},
    ],
)
def test_a_record_of_another_boot_or_of_no_use_is_not_acted_on(dev_weight, record, bias, changed):
    ask(dev_weight, 1024)
    record.write_text(json.dumps(json.loads(record.read_text()) | changed))
    ask(dev_weight)
    assert (bias(), dev_weight.is_raised) == (16, False)


@pytest.mark.parametrize("content", [b"", b"[" * 100_000, b"{}", b"\xff", b"[]"])
def test_a_damaged_record_stops_nothing(dev_weight, record, bias, sysctls, content):
    ask(dev_weight, 1024)
    record.write_bytes(content)
    sysctls()
    ask(dev_weight, 1024)
    assert json.loads(record.read_text()) == {
        "boot-id": BOOT_ID.read_text().strip(),
        "found": 1,
        "set": 16,
    }
    ask(dev_weight)
    assert bias() == 1


def test_an_agent_that_was_killed_before_it_raised_anything_takes_nothing_back(
    dev_weight, sysctls, bias
):
    ask(dev_weight, 1024)
    sysctls(bias=1)
    ask(dev_weight)
    assert (bias(), dev_weight.is_raised) == (1, False)


@pytest.mark.parametrize(("weight", "bias"), [(64, 0), (64, -1), (2**30, 8), (2**31 - 1, 16)])
def test_a_product_that_is_no_number_of_frames_is_the_least_that_the_kernel_sends(
    dev_weight, sysctls, weight, bias
):
    sysctls(weight, bias)
    assert dev_weight.read().frames == 1


def test_a_kernel_that_does_not_show_it_has_no_quota(record, tmp_path):
    assert DevWeight(record, tmp_path / "nowhere").read() is None
