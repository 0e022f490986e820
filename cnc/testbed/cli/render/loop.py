"""What `cnc lab loop` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cnc.cli.render.output import new_table, open_console, print_json, print_table, some
from cnc.cli.terminal import echo
from cnc.support.format import counted, duration

if TYPE_CHECKING:
    from cnc.model import LoopDelay
    from cnc.testbed.lab.kernels.offsets import FurthestApart
    from cnc.testbed.lab.platform import Platform
    from cnc.testbed.traffic.loop.path_error import PathError
    from cnc.testbed.traffic.loop.response import StepResponse
    from cnc.testbed.traffic.loop.run import Curve
    from cnc.testbed.traffic.measure import Spread

_NOTHING = "–"  # noqa: RUF001


@dataclass(frozen=True, slots=True)
class Found:
    """What there is to print of a run of a loop.

    `undisturbed` are the outputs of each axis over a network that is always in time; None: unknown.
    `other_lists` are the ports that do not run the lists of the plan. `clock_error_ns` is what any
    two clocks may differ by the plan, and `clocks` are those that did most; None: all nodes have
    one clock.
    """

    curve: Curve
    planned: LoopDelay
    undisturbed: Sequence[Sequence[float]] | None
    platform: Platform
    other_lists: Sequence[str]
    clock_error_ns: int
    clocks: FurthestApart | None = None

    @property
    def delay(self) -> Spread | None:
        """From the planned instant of a sample until its answer was at the plant."""
        from cnc.testbed.traffic.measure import spread  # noqa: PLC0415

        return spread(self.curve.delays_ns) if self.curve.delays_ns else None

    @property
    def responses(self) -> list[StepResponse]:
        """One for each step; none of a loop that follows a path."""
        from cnc.testbed.traffic.loop.response import step_responses  # noqa: PLC0415

        if self.curve.loop.path is not None:
            return []
        return step_responses(self.curve.outputs, self.curve.loop)

    @property
    def path_error(self) -> PathError | None:
        """None: the loop follows no path."""
        from cnc.testbed.traffic.loop.path_error import path_error  # noqa: PLC0415

        return path_error(self.curve.loop, self.curve.axes)

    @property
    def judged(self) -> Sequence[StepResponse | PathError]:
        """What the intent may accept or not: the responses, or the one path."""
        error = self.path_error
        return [error] if error else self.responses

    @property
    def good(self) -> int | None:
        """How many of them are good; None: the intent says nothing of that."""
        accepted = self.curve.loop.accepted
        if accepted is None:
            return None
        return sum(each.is_good(accepted) for each in self.judged)

    @property
    def is_undisturbed(self) -> bool | None:
        """Whether the outputs are those of a network that is always in time; None: unknown."""
        return None if self.undisturbed is None else [*self.undisturbed] == self.curve.axes

    @property
    def violations(self) -> list[str]:
        """What is not as the plan promises; nothing is judged where it promises nothing."""
        if not self.platform.exact or self.other_lists:
            return []
        curve, name = self.curve, self.curve.loop.name
        broken = []
        if (clocks := self.clocks) and clocks.apart_ns > self.clock_error_ns:
            # First, since it may be why the rest is broken.
            apart, allowed = duration(clocks.apart_ns), duration(self.clock_error_ns)
            broken.append(
                f"{name}: the clock of {clocks.ahead} was {apart} ahead of that of "
                f"{clocks.behind}; the plan allows {allowed}"
            )
        if curve.missed:
            of = counted(len(curve.periods), "command")
            broken.append(f"{name}: {curve.missed} of {of} missed the deadline")
        if (delay := self.delay) and delay.max_ns > self.planned.total_ns:
            worst, planned = duration(delay.max_ns), duration(self.planned.total_ns)
            broken.append(f"{name}: the loop took {worst}, the plan says {planned}")
        return broken


def loop(found: Found, *, as_json: bool) -> None:
    """The step responses or the path error, and the delay that the plan states beside what was
    measured."""
    if as_json:
        from cnc.testbed.json_output.loop import LoopRun  # noqa: PLC0415

        print_json(LoopRun.model_validate(found))
        return
    if error := found.path_error:
        _print_path_error(found, error)
    else:
        _print_responses(found)
    _print_judgement(found)
    _print_delay(found)
    if clocks := found.clocks:
        echo(
            f"No two clocks of the network were further apart than those of {clocks.behind} and "
            f"{clocks.ahead}: {duration(clocks.apart_ns)}; the plan allows "
            f"{duration(found.clock_error_ns)}."
        )
    echo(f"Measured on {found.platform}.")
    for line in found.violations:
        open_console().print(f"VIOLATED  {line}", style="bold red", highlight=False, soft_wrap=True)
    if found.other_lists:
        ports = some(found.other_lists, ", ")
        echo(f"Nothing is judged: these ports run other lists than the plan has: {ports}.")
    elif not found.platform.exact:
        echo("Nothing is judged: this clock goes on while programs compute.")
    elif not found.violations:
        open_console().print("Every command acted at its deadline.", style="bold green")


def _print_responses(found: Found) -> None:
    loop = found.curve.loop
    table = new_table(
        f"{loop.name}: {counted(len(found.responses), 'step response')}",
        *(">step", ">rise time", ">overshoot", ">settling time", ">IAE"),
    )
    for number, its in enumerate(found.responses, 1):
        table.add_row(
            str(number),
            _NOTHING if its.rise_time_ns is None else duration(its.rise_time_ns),
            _NOTHING if its.overshoot is None else f"{its.overshoot:.1%}",
            _NOTHING if its.settling_time_ns is None else duration(its.settling_time_ns),
            _NOTHING if its.absolute_error_s is None else f"{its.absolute_error_s * 1000:.6g} ms",
        )
    print_table(table)


def _print_path_error(found: Found, error: PathError) -> None:
    loop = found.curve.loop
    table = new_table(
        f"{loop.name}: path error at {counted(len(found.curve.periods), 'sample')}",
        *(">root mean square", ">maximum"),
    )
    table.add_row(
        *(
            _NOTHING if value is None else f"{value:.6g} {loop.unit}".rstrip()
            for value in (error.root_mean_square, error.maximum)
        )
    )
    print_table(table)


def _print_judgement(found: Found) -> None:
    if (good := found.good) is not None:
        echo(f"{good} of {len(found.judged)} within what `accept` states.")
    if found.is_undisturbed is not None:
        same = "to the last digit" if found.is_undisturbed else "NOT"
        echo(f"The curve is that of a network which loses nothing and is in time: {same}.")


def _print_delay(found: Found) -> None:
    curve, planned = found.curve, found.planned
    echo(
        f"From a sample until its command was at the plant: {_measured(found.delay)}; the plan "
        f"says {duration(planned.total_ns)} at most, the deadline is "
        f"{duration(curve.loop.deadline_ns)}."
    )
    echo(
        f"{counted(len(curve.periods), 'period')}: {curve.missed} without the command for its "
        f"sample at the deadline; {counted(curve.lost_samples, 'sample')} and "
        f"{counted(curve.lost_commands, 'command')} lost."
    )


def _measured(delay: Spread | None) -> str:
    if delay is None:
        return "never"
    return f"{duration(delay.min_ns)} to {duration(delay.max_ns)}"
