"""What `cnc lab loop` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cnc.cli.render.output import new_table, open_console, print_json, print_table, some
from cnc.cli.terminal import echo
from cnc.support.format import counted, duration

if TYPE_CHECKING:
    from cnc.testbed.traffic.loop.path_error import PathError
    from cnc.testbed.traffic.loop.report import LoopReport
    from cnc.testbed.traffic.measure import Spread

_NOTHING = "–"  # noqa: RUF001


def loop(found: LoopReport, *, as_json: bool) -> None:
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


def _print_responses(found: LoopReport) -> None:
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


def _print_path_error(found: LoopReport, error: PathError) -> None:
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


def _print_judgement(found: LoopReport) -> None:
    if (good := found.good) is not None:
        echo(f"{good} of {len(found.judged)} within what `accept` states.")
    same = "to the last digit" if found.is_undisturbed else "NOT"
    echo(f"The curve is that of a network which loses nothing and is in time: {same}.")


def _print_delay(found: LoopReport) -> None:
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
