"""The duration of the deployment of a plan to 1, 2, … switches, by component.

    talker ── s1 ── s2 ── … ── sN ── listener     one stream; a list on each port to the right

Pushes of two plans take turns, which differ in every list. The switches are a lab's where this
machine's own kernel has taprio, else rehearsed ones. Either way it is measured in real time, and
the switches compute on the controller's cores.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from cnc import intent as intents
from cnc.errors import CncError
from cnc.model import NS_PER_S, Intent, Management
from cnc.planner import plan
from cnc.rollout import push
from cnc.rollout.events import Step, StepBegun
from cnc.rollout.history import History
from cnc.support.format import counted
from cnc.switch import ConnectOptions
from cnc.testbed.experiments.control_overhead.figures import OTHERS, STEPS, Point, read
from cnc.testbed.experiments.control_overhead.pictures import control_overhead_pictures
from cnc.testbed.experiments.control_overhead.published import PUBLISHED, PUBLISHED_MACHINE
from cnc.testbed.experiments.description import ControlOverheadDescription
from cnc.testbed.experiments.experiment import Progress, Report, Sheet, write_rows
from cnc.testbed.lab.lifecycle import lab
from cnc.testbed.lab.platform import Platform
from cnc.testbed.lab.rehearsal import rehearsal
from cnc.testbed.lab.switch import AGENT, NETCONF_SERVER, PROGRAMS
from cnc.testbed.lab.vm import own_kernel_has_taprio

COLUMNS = (
    *("switches", "round", "switch", "plan_ns", "payload_ns", "netconf_ns", "apply_ns", "push_ns"),
    *(f"{step}_ns" for step in STEPS),
    *("machine_cpu_ns", "controller_cpu_ns", "netconfd_cpu_ns", "agent_cpu_ns"),
)
MACHINE = "machine.json"
PORTS = ("left", "right")
PAYLOADS_OCTETS = (200, 1400)  # another payload is another window on every port
RATE = "10Gbps"  # as reported by the ports of a lab
RATIO_GOAL, TOTAL_GOAL = 100, 10


@dataclass(frozen=True, slots=True)
class Line:
    """Switches that run, in their order: how to reach them, and their programs' process ids."""

    managements: Mapping[str, Management]
    connect: ConnectOptions
    pids: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class ControlOverhead:
    """The experiment of a file of kind control-overhead. It measures the speed of this machine."""

    description: ControlOverheadDescription

    def run(self, directory: Path, progress: Progress) -> None:
        """Start as many switches as the longest line has, and push to ever longer lines.

        Raises:
            CncError: in virtual time; or switches do not start, or a push fails.
        """
        if Platform.here().exact:
            raise CncError(
                "in virtual time computing takes no time, and that is what this measures",
                hint="run it without scripts/vm, or without its --virtual-time",
            )
        in_kernel = own_kernel_has_taprio()
        (directory / MACHINE).write_text(json.dumps(_this_machine(in_kernel=in_kernel)))
        progress(f"starting {counted(self.description.switches, 'switch')}")
        running = self._lab() if in_kernel else self._rehearsal()
        with (
            running as line,
            tempfile.TemporaryDirectory() as scratch,
            History(Path(scratch) / "history.sqlite") as history,
        ):
            write_rows(directory, COLUMNS, self._rows(line, history, progress))

    @contextmanager
    def _lab(self) -> Iterator[Line]:
        managements = {name: Management(f"10.99.0.{n}") for n, name in self._names().items()}
        with lab(self._intent(managements, PAYLOADS_OCTETS[0])) as running:
            pids = {
                name: {
                    program: pid
                    for program in PROGRAMS
                    if (pid := running.switch(name).pid(program)) is not None
                }
                for name in managements
            }
            yield Line(managements, running.connect, pids)

    @contextmanager
    def _rehearsal(self) -> Iterator[Line]:
        with rehearsal(list(self._names().values()), PORTS) as running:
            yield Line(running.managements, running.connect, running.pids)

    def _names(self) -> dict[int, str]:
        return {number: f"s{number}" for number in range(1, self.description.switches + 1)}

    def _intent(self, managements: Mapping[str, Management], payload_octets: int) -> Intent:
        """One stream through these switches; the last of them is at the listener."""
        names = list(managements)
        reached = managements[names[0]]
        return intents.from_document(
            {
                "name": self.description.name,
                "defaults": {
                    "rate": RATE,
                    "propagation": "100ns",
                    "processing": {"min": "1us", "max": "5us"},
                    "clock-error": "1us",
                    "gate-margin": "0ns",
                    "talker-interference": "none",
                    "recovery": "none",  # the lists that the paper pushes
                    "netconf-port": reached.port,
                    **({"user": reached.user} if reached.user else {}),
                },
                "classes": {
                    "scheduled": {
                        "traffic-class": 1,
                        "priority": 1,
                        "dscp": 16,
                        "role": "scheduled",
                    },
                    "best-effort": {
                        "traffic-class": 0,
                        "priority": 0,
                        "dscp": 0,
                        "role": "best-effort",
                    },
                },
                "switches": {
                    name: {"management": managements[name].address, "ports": list(PORTS)}
                    for name in names
                },
                "end-stations": ["talker", "listener"],
                "links": [
                    ["talker/eth0", f"{names[0]}/left"],
                    *([f"{here}/right", f"{there}/left"] for here, there in pairwise(names)),
                    [f"{names[-1]}/right", "listener/eth0"],
                ],
                "streams": {
                    "talker-listener": {
                        "talker": "talker",
                        "listeners": ["listener"],
                        "class": "scheduled",
                        "period": f"{self.description.cycle_ns}ns",
                        "payload": f"{payload_octets}B",
                        "max-latency": f"{self.description.cycle_ns}ns",
                    }
                },
            },
            self.description.name,
        )

    def _rows(
        self, line: Line, history: History, progress: Progress
    ) -> Iterator[tuple[object, ...]]:
        for count in range(1, self.description.switches + 1):
            progress(f"pushing to {counted(count, 'switch')}")
            reached = {name: line.managements[name] for name in list(line.managements)[:count]}
            turns = [self._intent(reached, payload) for payload in PAYLOADS_OCTETS]
            _timed_push(turns[0], line, history)  # the newest switch has had no list yet
            for number in range(1, self.description.rounds + 1):
                rows = _timed_push(turns[number % len(turns)], line, history)
                yield from ((count, number, *row) for row in rows)

    def report(self, directory: Path, platform: Platform) -> Report:  # noqa: ARG002  measured in real time only
        points = read(directory)
        machine: dict[str, Any] = json.loads((directory / MACHINE).read_text())
        goals = _goals(points)
        return Report(
            summary={
                "points": [point.document() for point in points],
                "machines": {"here": machine, "paper": PUBLISHED_MACHINE},
                "goals": goals,
            },
            sheets=[_table(points), _steps_table(points), _machines_table(machine)],
            pictures=control_overhead_pictures(points, STEPS),
            disagreements=[],
            remarks=[
                self._measured_parts(),
                _ports_remark(machine),
                *(_goal_remark(name, each) for name, each in goals.items()),
                _time_shares(points, machine),
            ],
            modelled=None,
        )

    def _measured_parts(self) -> str:
        return (
            f"Medians of {self.description.rounds}. Generation is planning and the payloads; "
            "NETCONF the edit-config, validate, confirmed commit and confirming commit of the "
            "slowest switch, without the agent's part; YANG parsing is that part, from the "
            "configuration in the datastore to the ports. The paper does not state whether its "
            "NETCONF server validates its input: here parsing and validating the XML are part of "
            "NETCONF."
        )


# --- measuring -----------------------------------------------------------------------------------


def _timed_push(intent: Intent, line: Line, history: History) -> list[tuple[object, ...]]:
    """Plan and push; a row for each switch, without the columns `switches` and `round`."""
    begun_ns = time.perf_counter_ns()
    planned = plan(intent)
    plan_ns = time.perf_counter_ns() - begun_ns
    names = list(intent.network.bridges)
    before_ns = {name: _computed_ns(line.pids[name]) for name in names}
    machine_ns, controller_ns = _machine_computed_ns(), time.process_time_ns()
    begun_at_ns: dict[Step, int] = {}

    def note_begin(event: StepBegun) -> None:
        begun_at_ns[event.step] = time.perf_counter_ns()

    pushed = push(
        planned,
        connect=line.connect,
        history=history,
        listener=note_begin,
    )
    stamps_ns = [*begun_at_ns.values(), time.perf_counter_ns()]
    machine_ns = _machine_computed_ns() - machine_ns
    controller_ns = time.process_time_ns() - controller_ns
    steps_ns = [after - before for before, after in pairwise(stamps_ns)]
    if len(pushed.changes) != len(names) or list(begun_at_ns) != list(STEPS):
        raise CncError(
            f"a push changed {len(pushed.changes)} of {counted(len(names), 'port')} in the steps "
            f"{', '.join(begun_at_ns)}: what it took says nothing",
            hint="run the experiment again, with nothing else at the same switches",
        )
    after_ns = {name: _computed_ns(line.pids[name]) for name in names}
    return [
        (
            *(name, plan_ns, spent.payload_ns, spent.netconf_ns, spent.apply_ns),
            *(stamps_ns[-1] - stamps_ns[0], *steps_ns, machine_ns, controller_ns),
            *(after_ns[name][each] - before_ns[name][each] for each in (NETCONF_SERVER, AGENT)),
        )
        for name, spent in pushed.times.items()
    ]


def _computed_ns(pids: Mapping[str, int]) -> dict[str, int]:
    """CPU time of each of these programs so far: clock_getcpuclockid(3)."""
    libc = ctypes.CDLL(None)
    cpu_ns = {}
    for program, pid in pids.items():
        clock = ctypes.c_int()
        if failed := libc.clock_getcpuclockid(pid, ctypes.byref(clock)):
            raise CncError(
                f"{program}, process {pid}, has ended: {os.strerror(failed)}",
                hint="run the experiment again; `dmesg` shows whether memory ran out",
            )
        cpu_ns[program] = time.clock_gettime_ns(clock.value)
    return cpu_ns


def _machine_computed_ns() -> int:
    """CPU time of all programs of this machine so far: proc_stat(5) without idle and iowait.

    Accurate to a clock tick, 10 ms; time that a hypervisor gave to other machines is included.
    """
    with Path("/proc/stat").open() as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    ticks = user + nice + system + irq + softirq + steal
    return ticks * NS_PER_S // os.sysconf("SC_CLK_TCK")


def _this_machine(*, in_kernel: bool) -> dict[str, Any]:
    memory_octets = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": _cpu_model(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{memory_octets / 1e9:.0f} GB",
        "kernel": platform.release(),
        "software": f"Python {platform.python_version()}",
        "ports": "in the kernel" if in_kernel else "in memory",
    }


def _cpu_model() -> str:
    """The model's name; the architecture where the kernel does not report it (Arm)."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.machine()


# --- the figures ---------------------------------------------------------------------------------


def _goals(points: Sequence[Point]) -> dict[str, dict[str, Any]]:
    """What was aimed at. The total is compared where the line is as long as the paper's longest."""
    least = min(point.times_below_ratio for point in points)
    goals = {"generation_to_netconf": _goal(RATIO_GOAL, least)}
    longest = points[-1]
    if longest.switches == max(PUBLISHED):
        goals["total"] = _goal(TOTAL_GOAL, longest.times_faster)
    return goals


def _goal(goal: float, figure: float) -> dict[str, Any]:
    return {"goal": goal, "figure": round(figure, 1), "reached": figure >= goal}


# --- in words ------------------------------------------------------------------------------------


def _goal_remark(name: str, goal: Mapping[str, Any]) -> str:
    what = {
        "generation_to_netconf": "Generation ÷ NETCONF is {figure:g} times or more below the "
        "paper's with every number of switches",
        "total": "All three together take {figure:g} times less than the paper's with ten switches",
    }[name].format(**goal)
    return f"{what}; the goal of {goal['goal']} is {'' if goal['reached'] else 'not '}reached."


def _ports_remark(machine: Mapping[str, Any]) -> str:
    if machine["ports"] == "in memory":
        return (
            "Ports in memory: this machine's kernel has no taprio for us. Controller, SSH, NETCONF "
            "servers, datastores and agents are real; setting a qdisc is missing from YANG parsing."
        )
    return "The ports are veth pairs with the kernel's own taprio."


def _time_shares(points: Sequence[Point], machine: Mapping[str, Any]) -> str:
    """The programs that use the time of the longest line's push."""
    point = points[-1]
    cpu_s = {program: value for program, value in point.cpu_s.items() if program != OTHERS}
    computed_s = sum(cpu_s.values())
    edit, commit, confirm = (_ms(point.steps_s[step]) for step in ("edit", "commit", "confirm"))
    shares = ", ".join(f"{program} {_ms(value)} ms" for program, value in cpu_s.items())
    return (
        f"What is left, with a line of {point.switches}: edit-config and validate take {edit} ms, "
        f"the confirmed commit {commit} ms, and {confirm} ms go by until all have confirmed, saved "
        f"and ended their sessions. For a whole push of {_ms(point.push_s)} ms, which connects and "
        f"reads the ports before and after, {_ms(computed_s)} ms are computed: "
        f"{shares}. That keeps {computed_s / point.push_s:.1f} of {machine['cores']} cores busy: "
        "all switches compute here beside the controller, so NETCONF grows with their number; a "
        f"network's switches compute each for itself, as one does here: "
        f"{_ms(points[0].times.netconf_s)} ms. Other programs of this machine computed "
        f"{_ms(point.cpu_s[OTHERS])} ms meanwhile; what they do makes every figure larger."
    )


def _table(points: Sequence[Point]) -> Sheet:
    parts = ("generation_s", "netconf_s", "parsing_s", "total_s")
    return Sheet(
        "Seconds for a plan, here and in the paper's table I",
        [
            ">switches",
            *(
                column
                for name in ("generation", "NETCONF", "YANG parsing", "total")
                for column in (f">{name}", ">paper")
            ),
            *(">paper ÷ here", ">gen. ÷ NETCONF", ">paper"),
        ],
        [
            [
                str(point.switches),
                *(
                    cell
                    for part in parts
                    for cell in (
                        f"{getattr(point.times, part):.4f}",
                        f"{getattr(point.published, part):.3f}",
                    )
                ),
                f"{point.times_faster:.1f}",
                f"{point.times.ratio:.3f}",
                f"{point.published.ratio:.1f}",
            ]
            for point in points
        ],
    )


def _steps_table(points: Sequence[Point]) -> Sheet:
    return Sheet(
        "Where the time of a whole push goes, ms: wall time of its steps, and CPU time by program",
        ["switches", *(f">{point.switches}" for point in points)],
        [
            ["push", *(_ms(point.push_s) for point in points)],
            *([text, *(_ms(p.steps_s[step]) for p in points)] for step, text in STEPS.items()),
            *([f"CPU: {name}", *(_ms(p.cpu_s[name]) for p in points)] for name in points[0].cpu_s),
        ],
    )


def _machines_table(machine: Mapping[str, Any]) -> Sheet:
    return Sheet(
        "The machines",
        ["machine", "here", "paper"],
        [[what, str(machine[what]), PUBLISHED_MACHINE[what]] for what in PUBLISHED_MACHINE],
    )


def _ms(time_s: float) -> str:
    return f"{time_s * 1000:.1f}"
