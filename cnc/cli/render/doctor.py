"""What doctor prints: a check a row, a switch a column, then what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from cnc.cli.render.output import new_table, open_console, print_json, print_table, some, warning
from cnc.cli.terminal import echo
from cnc.support.format import counted

if TYPE_CHECKING:
    from cnc.rollout.preflight import Finding

_COLUMNS_MAX = 8
_STYLES = {"failed": "bold red", "warning": "yellow", "unknown": "dim", "ok": "green"}
_WORST_FIRST = list(_STYLES)


def diagnosis(
    network: str, findings: Sequence[Finding], *, no_plan: str | None, as_json: bool
) -> None:
    """`no_plan` says why there are no lists that the switches could be compared with, as does a
    finding."""
    if as_json:
        from cnc.json_output.switches import Diagnosis  # noqa: PLC0415

        print_json(Diagnosis(network=network, no_plan=no_plan, findings=list(findings)))
        return
    switches = list(dict.fromkeys(each.switch for each in findings if each.switch))
    if len(switches) <= _COLUMNS_MAX:
        _table(network, switches, findings)
    for verdict in _WORST_FIRST[:-1]:
        _explain(verdict, [finding for finding in findings if finding.verdict == verdict])
    _explain("ok", [finding for finding in findings if _states(finding)])
    failures = sum(finding.verdict == "failed" for finding in findings)
    if failures:
        echo(f"{failures} of {counted(len(findings), 'check')} failed: a push would be refused")
    else:
        asked = counted(len(switches), "switch")
        echo(f"{counted(len(findings), 'check')} on {asked}: a push can go ahead")


def _states(finding: Finding) -> bool:
    """Whether it is worth reading though nothing is wrong: what the hardware of a port does, and
    what has a hint."""
    return finding.verdict == "ok" and (finding.check == "hardware" or bool(finding.hint))


def _table(network: str, switches: Sequence[str], findings: Sequence[Finding]) -> None:
    from rich.text import Text  # noqa: PLC0415

    from cnc.rollout.preflight import Check  # noqa: PLC0415

    table = new_table(network, "check", *switches)
    seen = {finding.check for finding in findings if finding.switch}
    for check in filter(seen.__contains__, Check):
        cells = [
            _worst(f.verdict for f in findings if f.check is check and f.switch == switch)
            for switch in switches
        ]
        table.add_row(check, *(Text(cell, _STYLES.get(cell, "")) for cell in cells))
    print_table(table)


def _worst(verdicts: Iterable[str]) -> str:
    """What a cell says of all ports of a switch; a dash where nothing could be asked."""
    return str(min(verdicts, key=_WORST_FIRST.index, default="–"))  # noqa: RUF001


def _explain(verdict: str, findings: Sequence[Finding]) -> None:
    console = open_console()
    for text, hint in _once(findings):
        head, *reasons = text.split("\n")
        lines = "\n".join([f"{verdict}: {head}", *([some(reasons, "\n")] if reasons else [])])
        console.print(lines, style=_STYLES[verdict], highlight=False, soft_wrap=True)
        if hint:
            echo(f"  hint: {hint}")


def findings(found: Sequence[Finding]) -> None:
    """What a push warns of, on the error stream."""
    for text, hint in _once(found):
        warning(text, hint)


def _once(findings: Sequence[Finding]) -> Iterator[tuple[str, str | None]]:
    """The same said of many places once, and what to do about it."""
    alike: dict[tuple[str, str, str | None], list[str]] = {}
    for finding in findings:
        alike.setdefault((finding.check, finding.text, finding.hint), []).append(finding.where)
    for (check, text, hint), places in alike.items():
        yield f"{check}: {some(places, ', ')}: {text}", hint
