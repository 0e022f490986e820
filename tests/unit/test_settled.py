"""Which clocks may run a schedule, and what is said of those that may not."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from agent.kernel.clock_monitor import Measured
from agent.kernel.timex import KernelClock
from agent.mechanisms.clock import kernel as clock_kernel
from agent.mechanisms.clock.kernel import PtpDaemonAdapter
from agent.model import PtpPortState, PtpStatus
from cnc.cli.render import doctor as render
from cnc.clocks.findings import examine_clocks
from cnc.clocks.settled import trust
from cnc.data_tree.state import SwitchState
from cnc.data_tree.tree import (
    AgentReport,
    BridgeReport,
    ClockReport,
    ClockSource,
    PortReport,
    PtpReport,
)
from cnc.mechanisms.composition import parts_while_clock_settles
from cnc.mechanisms.stream_filters.model import (
    FilteredStream,
    FixedGate,
    Policing,
    Strangers,
    StreamFilter,
    StreamFilters,
    WindowGate,
)
from cnc.model import (
    BridgeForwarding,
    Parts,
    PortRef,
    PortSettings,
    StreamAddress,
    TalkerStream,
    TalkerStreams,
    gated_port,
)
from cnc.rollout.compare import PortStatus
from cnc.rollout.compare import _port_status as port_status
from cnc.rollout.preflight import Check, Verdict
from cnc.rollout.stream_counts import NO_COUNTS
from tests.unit.asked import asked, desired_ports
from tests.unit.places import bridge_report
from tests.unit.watched_switches import PLAN, bare, report

CLOCK_ERROR_NS = 1_000


def managed(offset_max_ns, measured_s=10):
    return ClockReport(ClockSource.MANAGED, 0, offset_max_ns, measured_s)


def unmanaged(synchronised):
    return ClockReport(ClockSource.UNMANAGED, synchronised=synchronised)


SHARED = ClockReport(ClockSource.SHARED)

# clock, TAI offset in seconds, whether it is settled, what is said
CASES = [
    (managed(300), 37, True, "managed by PTP instance 0: at most 300 ns off in the last 10 s"),
    (managed(1_000), 37, True, "managed by PTP instance 0: at most 1 µs off in the last 10 s"),
    (
        *(managed(1_001), 37, False),
        "managed by PTP instance 0: at most 1.001 µs off in the last 10 s; the plan allows 1 µs",
    ),
    (
        *(managed(300, 4), 37, False),
        "managed by PTP instance 0: at most 300 ns off in the last 4 s, of the 10 s that it takes",
    ),
    (
        *(managed(None, 0), 37, False),
        "managed by PTP instance 0: it does not follow a grandmaster",
    ),
    (
        *(replace(managed(None, 0), domain=0, others=((1, 20),)), 37, False),
        (
            "managed by PTP instance 0 (domain 0), not by 1 (domain 20): it does not follow a "
            "grandmaster"
        ),
    ),
    (unmanaged(True), 37, True, "unmanaged: synchronised, TAI offset 37 s"),
    (unmanaged(True), 0, False, "unmanaged: the kernel has no TAI offset"),
    (
        *(unmanaged(False), 37, False),
        "unmanaged: the kernel says that no program synchronises it",
    ),
    (
        *(unmanaged(None), 37, None),
        "unmanaged: the agent cannot ask the kernel whether it is synchronised",
    ),
    (SHARED, 0, True, "shared: all switches have the clock of one machine"),
]


@pytest.mark.parametrize(("clock", "tai_offset_s", "is_settled", "text"), CASES)
def test_a_clock_is_settled_or_not_and_it_is_said_why(clock, tai_offset_s, is_settled, text):
    found = trust(clock, tai_offset_s, CLOCK_ERROR_NS)

    assert found.is_settled is is_settled
    assert found.text == text


def findings(clock, ptp=None, *, tai_offset_s=37, others=()):
    state = SwitchState(AgentReport(tai_offset_s, 100, ptp=ptp, clock=clock), {}, 0, 0)
    states = dict.fromkeys(("s1", *others), state)
    found = examine_clocks(states, CLOCK_ERROR_NS)
    return [each for each in found if each.check is Check.PTP and each.switch == "s1"]


VERDICTS = {True: Verdict.OK, False: Verdict.FAILED, None: Verdict.UNKNOWN}


@pytest.mark.parametrize(("clock", "tai_offset_s", "is_settled", "text"), CASES)
def test_push_and_doctor_say_of_each_clock_of_several_what_it_is_and_the_figure(
    clock, tai_offset_s, is_settled, text
):
    (finding,) = findings(clock, tai_offset_s=tai_offset_s, others=["s2"])

    assert (finding.verdict, finding.text) == (VERDICTS[is_settled], text)


def test_doctor_shows_which_of_several_instances_schedules_follow(capsys):
    (finding,) = findings(replace(managed(300), domain=0, others=((1, 20),)))
    render.diagnosis("small", [finding], no_plan=None, as_json=False)
    shown = capsys.readouterr().out
    assert "ok: PTP: s1: managed by PTP instance 0 (domain 0), not by 1 (domain 20): " in shown
    (alone,) = findings(managed(300))
    render.diagnosis("small", [alone], no_plan=None, as_json=False)
    assert "managed by" not in capsys.readouterr().out


def test_a_push_is_refused_while_a_managed_clock_has_not_settled():
    (finding,) = findings(managed(2_000))

    assert finding.verdict is Verdict.FAILED
    assert "2 µs off" in finding.text
    assert "clock-error" in finding.hint


def test_a_managed_clock_that_has_settled_is_compared_with_the_others_as_well():
    follows = PtpReport("001122.fffe.334455", False, 300, ("slave",))

    assert [each.verdict for each in findings(managed(300), follows)] == [Verdict.OK] * 2


def test_one_clock_for_all_needs_no_ptp():
    (finding,) = findings(SHARED)

    assert finding.verdict is Verdict.OK


def test_a_ptp4l_beside_a_shared_clock_is_judged_by_what_it_says():
    (finding,) = findings(SHARED, PtpReport("001122.fffe.334455", False, None, ("listening",)))

    assert finding.verdict is Verdict.FAILED
    assert finding.text == "not locked: listening"


def test_an_agent_that_does_not_say_what_keeps_its_clock_is_judged_as_before():
    (finding,) = findings(None, others=["s2"])

    assert finding.verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("clock", "tai_offset_s", "verdict"),
    [
        (unmanaged(True), 37, Verdict.OK),
        (unmanaged(False), 37, Verdict.FAILED),
        (unmanaged(True), 0, Verdict.FAILED),
        (unmanaged(None), 37, Verdict.UNKNOWN),
    ],
)
def test_switches_whose_clocks_nobody_keeps_together_take_no_schedule(clock, tai_offset_s, verdict):
    (finding,) = findings(clock, tai_offset_s=tai_offset_s, others=["s2"])

    assert finding.verdict is verdict
    assert finding.text.startswith("unmanaged: ")
    assert verdict is not Verdict.FAILED or "chrony" in finding.hint


def test_one_switch_alone_takes_a_schedule_on_whatever_clock_it_has():
    (finding,) = findings(unmanaged(False))

    assert finding.verdict is Verdict.WARNING


def test_a_ptp4l_that_nobody_manages_says_more_than_the_kernel_does():
    leads = PtpReport("001122.fffe.334455", True, 0, ("master",))
    (finding,) = findings(unmanaged(False), leads, others=["s2"])

    assert finding.verdict is Verdict.OK
    assert finding.text.startswith("grandmaster")


# --- an agent that starts with gates that were stored --------------------------------------------

NOBODY_ELSE = None
FOLLOWS = PtpStatus("own", "gm", "gm", False, -800, {1: PtpPortState.SLAVE})

# The cases of `CASES` in the same order, as the agent sees them: by what its own ptp4l measured, by
# what the kernel says, by `--shared-clock`; and what it says where gates wait.
AT_BOOT = [
    (Measured(300, 10), None),
    (Measured(1_000, 10), None),
    (
        Measured(1_001, 10),
        "managed by PTP instance 0: at most 1001 ns off in the last 10 s; the plan allows 1000 ns",
    ),
    (
        Measured(300, 4),
        "managed by PTP instance 0: at most 300 ns off in the last 4 s, of the 10 s that it takes",
    ),
    (Measured(), "managed by PTP instance 0: it does not follow a grandmaster"),
    (Measured(), "managed by PTP instance 0: it does not follow a grandmaster"),
    (KernelClock(True, 1, 37), None),
    (KernelClock(True, 1, 0), "unmanaged: the kernel has no TAI offset"),
    (
        KernelClock(False, 1, 37),
        "unmanaged: the kernel says that no program synchronises it",
    ),
    (OSError("filtered"), None),
    ("shared", None),
]


def adapter(monkeypatch, directory, found, ptp4l=NOBODY_ELSE):
    """The clock of a switch, of which an agent learns `found`."""

    def read():
        if isinstance(found, OSError):
            raise found
        return found

    made = PtpDaemonAdapter(directory, shared_clock=found == "shared")
    monkeypatch.setattr(clock_kernel.timex, "read", read)
    monkeypatch.setattr(clock_kernel.ptp, "status", lambda: ptp4l)
    if isinstance(found, Measured):
        monitor = SimpleNamespace(clock=SimpleNamespace(instance=0), measured=lambda: found)
        monkeypatch.setattr(made, "_monitor", monitor)
    return made


@pytest.mark.parametrize(("found", "text"), AT_BOOT)
def test_stored_gates_wait_for_the_same_clocks_that_a_push_is_refused_for(
    found, text, monkeypatch, tmp_path
):
    assert adapter(monkeypatch, tmp_path, found).unsettled(CLOCK_ERROR_NS) == text


def test_the_agent_and_the_controller_judge_every_case_alike():
    """Except that the agent cannot warn: what neither knows lets gates go, as it lets a push."""
    for (_, _, is_settled, _), (_, text) in zip(CASES, AT_BOOT, strict=True):
        assert (text is not None) == (is_settled is False)


@pytest.mark.parametrize(
    ("ptp4l", "allowed_ns", "text"),
    [
        (FOLLOWS, 800, None),
        (FOLLOWS, 799, "unmanaged: its ptp4l is 800 ns off its master; the plan allows 799 ns"),
        (
            replace(FOLLOWS, ports={1: PtpPortState.LISTENING, 2: PtpPortState.FAULTY}),
            800,
            "unmanaged: its ptp4l is not locked: listening, faulty",
        ),
        (replace(FOLLOWS, ports={}), 800, "unmanaged: its ptp4l is not locked: no port"),
    ],
)
def test_a_ptp4l_that_the_agent_does_not_manage_is_asked_before_the_kernel(
    ptp4l, allowed_ns, text, monkeypatch, tmp_path
):
    kernel_says_no = KernelClock(False, 1, 0)
    clock = adapter(monkeypatch, tmp_path, kernel_says_no, ptp4l)
    assert clock.unsettled(allowed_ns) == text


def test_gates_that_wait_are_a_warning_since_a_push_sets_them():
    agent = AgentReport(37, 100, clock=SHARED, gates_wait="unmanaged: the kernel has no TAI offset")
    found = examine_clocks({"s1": SwitchState(agent, {}, 0, 0)}, CLOCK_ERROR_NS)
    (finding,) = (each for each in found if each.check is Check.GATES_WAIT)

    assert finding.verdict is Verdict.WARNING
    assert finding.text == "gates wait for the clock: unmanaged: the kernel has no TAI offset"


def test_status_says_of_each_port_without_its_gates_that_they_wait():
    waits = "unmanaged: the kernel has no TAI offset"
    found = status_of(*without_gates(), waits)

    assert found.verdict == f"gates wait for the clock: {waits}"
    assert not found.agrees
    assert "once the clock has settled" in found.hints[0]


def test_status_says_of_a_bridge_that_its_stream_gates_wait():
    its, waits = policed(Policing.DROP), "unmanaged: the kernel has no TAI offset"
    found = bridge_status(its, parts_while_clock_settles(its), waits)

    assert found.verdict == f"gates wait for the clock: {waits}"
    assert not found.agrees
    assert "once the clock has settled" in found.hints[0]


def test_a_bridge_that_differs_otherwise_too_is_told_to_differ():
    """Waiting explains stream gates alone."""
    its = policed(Policing.DROP)
    found = bridge_status(its, parts_while_clock_settles(policed(Policing.COUNT)), "not locked")

    assert found.verdict.startswith("differs: ")


def test_status_says_of_an_end_station_that_its_offsets_wait():
    stream = TalkerStream("motor", 1, 1_000_000, 12_000, 300, 5, 46, ("drive",))
    waits = "unmanaged: the kernel has no TAI offset"
    told = TalkerStreams((stream,))
    ref, _, untold = without_gates()
    found = status_of(ref, asked(told), untold, waits)

    assert found.verdict == f"gates wait for the clock: {waits}"
    assert "talkers get no offsets" in found.hints[0]


def policed(policing: Policing) -> BridgeForwarding:
    """A bridge that filters one stream, and shuts strangers out."""
    of = StreamAddress("03:54:53:4e:00:00", 10)
    frames = FilteredStream(of.destination_mac, of.vlan_id, "cam")
    window = WindowGate(1_000_000, 2_000, 9_000, 400)
    filters = (
        StreamFilter(frames, 5, 200, window, policing),
        StreamFilter(Strangers("cam"), 5, 0, FixedGate.CLOSED, policing),
    )
    return BridgeForwarding(
        {of: ("s2",)},
        {10: ("cam", "s2")},
        ("cam",),
        {of: "camera"},
        parts=Parts.of(StreamFilters(filters)),
    )


def without_gates() -> tuple[PortRef, PortSettings, PortReport]:
    """A port that is to have gates, and has none."""
    for port, desired in desired_ports(PLAN, "s1").items():
        if gates := gated_port(desired):
            return PortRef("s1", port), desired, bare({port: report(gates)}, port)[port]
    raise AssertionError("no port of s1 has gates in the plan")


def bridge_status(its: BridgeForwarding, running: BridgeForwarding, waits: str) -> PortStatus:
    report = bridge_report(BridgeReport(("cam", "s2"), running))
    return status_of(PortRef("s1", "br0"), asked(its), report, waits)


def status_of(
    ref: PortRef, desired: PortSettings, report: PortReport | None, waits: str
) -> PortStatus:
    return port_status(
        ref,
        desired,
        report,
        (),
        NO_COUNTS,
        stored=None,
        is_crossed=True,
        hint=None,
        waits=waits,
    )
