"""What `cnc path` prints: the way of a stream, and where it leaves the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cnc.cli.render.output import new_table, open_console, print_json, print_table, some
from cnc.cli.terminal import echo
from cnc.support.format import counted, microseconds
from cnc.support.lazy import lazy_import

if TYPE_CHECKING:
    from cnc.mechanisms import registry
    from cnc.rollout import StreamPath
    from cnc.rollout.path import HopWindow
else:
    registry = lazy_import("cnc.mechanisms.registry")

_NONE = "–"  # noqa: RUF001
HINT = "`cnc push` of the plan restores the entries; `cnc status` shows all that differs"


def path(found: StreamPath, *, as_json: bool) -> None:
    if as_json:
        from cnc.json_output.path import Path  # noqa: PLC0415

        print_json(Path.model_validate(found))
        return
    where = f"{found.address.destination_mac}, VLAN {found.address.vlan_id}"
    columns = {
        its.hop_key: its.hop_column
        for its in (each.shown for each in registry.MECHANISMS)
        if its.hop_column and any(its.hop_key in hop.done for hop in found.hops)
    }
    shares = any(hop.windows for hop in found.hops)
    table = new_table(
        f"{found.stream} ({where})",
        *("switch", "enters by", "leaves by", "planned"),
        *(["window"] if shares else []),
        *columns.values(),
        "verdict",
    )
    for hop in found.hops:
        table.add_row(
            hop.switch,
            hop.ingress,
            ", ".join(hop.leaves_by) or _NONE,
            ", ".join(hop.planned) or _NONE,
            *(["\n".join(map(_window, hop.windows)) or _NONE] if shares else []),
            *(hop.done.get(key, _NONE) for key in columns),
            hop.deviation or "as planned",
            style="bold red" if hop.deviation else None,
        )
    print_table(table)
    for line in dict.fromkeys(
        f"at {hop.switch}, ingress {hop.ingress}: {does}"
        for hop in found.hops
        for key, does in hop.done.items()
        if key not in columns
    ):
        echo(line)
    reached = ", ".join(found.listeners) or "no end station"
    if not found.deviations:
        switches = counted(len({hop.switch for hop in found.hops}), "switch")
        echo(f"from {found.talker} by {switches} to {reached}: as planned")
        return
    echo(f"from {found.talker} frames reach {reached}")
    for deviation in found.deviations:
        open_console().print(
            f"leaves the plan: {deviation}", style="bold red", highlight=False, soft_wrap=True
        )
    ports = some([str(port) for port in found.without_link], ", ")
    echo(f"hint: {f'check the cable and the far end of {ports}' if ports else HINT}")


def _window(its: HopWindow) -> str:
    times = f"{microseconds(its.opens_ns)} to {microseconds(its.closes_ns)} µs"
    return f"{its.port} {times}, {counted(its.streams, 'stream')}"
