"""What `cnc history` prints: rollouts, those that have not ended first and loud."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cnc.cli.render.output import (
    new_table,
    open_console,
    print_json,
    print_table,
    some,
    warning,
)
from cnc.cli.terminal import echo
from cnc.model import BridgeForwarding, GateControlList, gates_of
from cnc.support.lazy import lazy_import

if TYPE_CHECKING:
    from cnc.mechanisms import composition
    from cnc.plans.difference import Change
    from cnc.rollout.history import Rollout, SwitchChange
else:
    composition = lazy_import("cnc.mechanisms.composition")


def other_plan(deployed: Rollout, file: Path) -> None:
    """Warn that a file is not the plan that was deployed last, so that ports differ from it."""
    warning(
        f"rollout {deployed.number} ({deployed.what}) deployed another plan of {deployed.network} "
        f"than {file}: ports that run it are not as {file} plans",
        f"name {deployed.number} in place of {file}; `cnc diff {file} {deployed.number}` compares",
    )


def rollouts(unfinished: Sequence[Rollout], newest: Sequence[Rollout], *, as_json: bool) -> None:
    """The newest rollouts, and `unfinished` before them, however old."""
    older = [rollout for rollout in unfinished if rollout not in newest]
    if as_json:
        from cnc.json_output.history import Rollout as Document  # noqa: PLC0415

        print_json([Document.model_validate(rollout) for rollout in (*newest, *older)])
        return
    for rollout in unfinished:
        _tell(rollout)
    if not newest:
        echo("no rollout is recorded")
        return
    table = new_table("", ">", "started", "network", "by", "what", "phase", ">switches", ">ports")
    for rollout in (*newest, *older):
        table.add_row(
            str(rollout.number),
            _when(rollout.started),
            rollout.network,
            rollout.operator,
            rollout.what,
            _phase(rollout),
            str(len(rollout.switches)),
            str(sum(len(change.after) for change in rollout.switches.values())),
            style=None if rollout.phase.has_ended else "bold",
        )
    print_table(table)


def rollout(told: Rollout, *, as_json: bool) -> None:
    """One rollout: the result on every switch, and what it changed on their ports."""
    if as_json:
        from cnc.json_output.document import ForwardingChange, Lists  # noqa: PLC0415
        from cnc.json_output.history import Rollout as Document  # noqa: PLC0415

        document = Document.model_validate(told)
        for name, change in told.switches.items():
            document.switches[name].ports = {
                port: Lists.model_validate(lists) for port, lists in _gates(change).items()
            }
            document.switches[name].forwarding = {
                bridge: ForwardingChange.model_validate({"before": before, "after": after})
                for bridge, settings in change.after.items()
                if (after := settings.get(BridgeForwarding)) is not None
                for before in [change.previous(bridge)[BridgeForwarding]]
            } or None
        print_json(document)
        return
    echo(f"rollout {told.number} of {told.network}: {told.what}")
    echo(f"  id       {told.id}")
    echo(f"  by       {told.operator}")
    echo(f"  started  {_when(told.started)}")
    echo(f"  phase    {_phase(told)}{f': {told.detail}' if told.detail else ''}")
    if told.refused:
        return
    if told.ended:
        echo(f"  ended    {_when(told.ended)}")
    if not told.phase.has_ended:
        _tell(told)
    switches = new_table("", "switch", "managed at", "result", "ports", "detail")
    ports = new_table("", "port", "before", "after")
    for name, change in told.switches.items():
        switches.add_row(
            name, change.address, change.outcome, some(list(change.after), ", "), change.detail
        )
        for port, lists in _gates(change).items():
            row = (
                composition.settings_summary(
                    lists.before, change.previous(port).get(BridgeForwarding)
                ),
                composition.settings_summary(lists.after, change.after[port].get(BridgeForwarding)),
            )
            ports.add_row(f"{name}/{port}", *row)
    print_table(switches)
    print_table(ports)


def _tell(unfinished: Rollout) -> None:
    """What a rollout that has not ended means, and what to do about it."""
    from cnc.rollout.history import Phase  # noqa: PLC0415
    from cnc.rollout.recovery import describe  # noqa: PLC0415
    from cnc.rollout.transaction import CHOICES  # noqa: PLC0415

    which = f"rollout {unfinished.number} of {unfinished.network}"
    if unfinished.under_way:
        echo(f"{which} is in progress")
    elif unfinished.phase is Phase.CONFIRMING:
        open_console().print(
            describe(unfinished), style="bold red", highlight=False, soft_wrap=True
        )
        echo(f"hint: {CHOICES}")
    else:
        echo(
            f"{which} was abandoned before its decision: its switches have reverted by themselves, "
            f"or do so by {_when(unfinished.confirm_by)}"
        )


def _phase(rollout: Rollout) -> str:
    if rollout.refused:
        return "refused"
    return f"{rollout.phase}, in progress" if rollout.under_way else str(rollout.phase)


def _when(instant: datetime) -> str:
    return instant.astimezone().isoformat(sep=" ", timespec="seconds")


def _gates(change: SwitchChange) -> Mapping[str, Change[GateControlList]]:
    """What the gates of each port were and were to be."""
    from cnc.plans.difference import Change  # noqa: PLC0415

    changes: dict[str, Change[GateControlList]] = {}
    for port, after in change.after.items():
        changes[port] = Change(gates_of(change.previous(port)), gates_of(after))
    return changes
