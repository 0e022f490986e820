"""What `cnc verify` prints: streams at ports, and the frames that were not as planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cnc.cli.render.output import new_table, open_console, print_json, print_table
from cnc.cli.terminal import echo
from cnc.support.format import counted, duration, microseconds

if TYPE_CHECKING:
    from cnc.captures.verdict import Example, Verified

_ROWS_MAX = 30
_DIRECTIONS = {True: "leaving", False: "arriving"}


def captures(found: Verified, *, as_json: bool) -> None:
    if as_json:
        _json(found)
        return
    rows = found.streams
    shown = rows if len(rows) <= _ROWS_MAX else [row for row in rows if not row.is_as_planned]
    counts = ("frames", "early", "late", "gate closed", "missing", "extra")
    table = new_table(
        "frames, and by how many µs the latest was later than planned",
        *("stream", "port", "direction"),
        *(f">{count}" for count in (*counts, "late by")),
    )
    for row in shown:
        table.add_row(
            row.due.stream,
            str(row.due.port),
            _DIRECTIONS[row.due.is_leaving],
            *map(str, (row.frames, row.early, row.late, row.gate_closed, row.missing, row.extra)),
            microseconds(row.late_max_ns),
            style=None if row.is_as_planned else "bold red",
        )
    if shown:
        print_table(table)
    if len(shown) < len(rows):
        echo(f"{counted(len(rows) - len(shown), 'row')} more, as planned")
    for port, its in sorted(found.ports.items()):
        others = [
            (its.others, "of no stream"),
            (its.unknown, "of no stream in a scheduled class"),
            (its.astray, "of streams that are not planned here"),
            (its.gate_closed, "of these while their gate was closed"),
        ]
        text = "".join(f", {count} {what}" for count, what in others if count)
        echo(f"{port}: captured for {duration(its.end_ns - its.begin_ns)}{text}")
    for example in found.examples:
        open_console().print(_line(example), style="red", highlight=False, soft_wrap=True)
    if found.is_as_planned:
        echo("every frame was as planned")
    else:
        wrong = {row.due.stream for row in rows if not row.is_as_planned}
        ports = [port for port, its in found.ports.items() if not its.is_as_planned]
        what = [counted(len(wrong), "stream")] if wrong else []
        what += [f"other frames at {counted(len(ports), 'port')}"] if ports else []
        echo(f"not as planned: {', '.join(what)}")


def _line(example: Example) -> str:
    frame, passed = example
    what = f"{passed.stream}: " if passed.stream else ""
    return f"{frame.file}: packet {frame.number} at {frame.port}: {what}{', '.join(passed.faults)}"


def _json(found: Verified) -> None:
    from cnc.json_output import captures as documents  # noqa: PLC0415

    counts = ("frames", "early", "late", "gate_closed", "missing", "extra", "late_max_ns")
    others = ("begin_ns", "end_ns", "astray", "unknown", "others", "gate_closed")
    document = {
        "as_planned": found.is_as_planned,
        "streams": [
            {
                "stream": row.due.stream,
                "port": row.due.port,
                "direction": _DIRECTIONS[row.due.is_leaving],
                **{key: getattr(row, key) for key in counts},
            }
            for row in found.streams
        ],
        "ports": [
            {"port": port, **{key: getattr(its, key) for key in others}}
            for port, its in sorted(found.ports.items())
        ],
        "faults": [
            {
                "file": frame.file,
                "packet": frame.number,
                "port": frame.port,
                "stream": passed.stream,
                "at_ns": frame.at_ns,
                "faults": passed.faults,
            }
            for frame, passed in found.examples
        ],
    }
    print_json(documents.Verified.model_validate(document))
