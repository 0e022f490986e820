"""`tc qdisc replace dev eth0 … taprio … sched-entry S 01 300000 …`, alone or in a shell script.

A script is not run. Variables are replaced that it sets to a plain word; what depends on others is
refused, but for the base time, of which an intent has the offset within the cycle alone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from cnc.gate_lists.listed import Listed, listed, number, refused
from cnc.model import GateEntry, GateMode, PortConfiguration

_ASSIGNMENT = re.compile(r"\s*(?:export\s+|local\s+|readonly\s+)*(\w+)=(\S*)\s*(?:#.*)?")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_ENDS = {"&&", "||", "|", ";", "&", ">", ">>", "2>&1"}
_LISTS = {"map", "queues", "max-sdu", "fp"}
_FLAGS = {GateMode.SOFTWARE: (), GateMode.TXTIME_ASSIST: ("flags", "0x1")}
_OFFLOAD = ("flags", "0x2")
_PRIORITIES = 16  # of a socket; those of frames are the first eight


def read(text: str, source: str) -> list[Listed]:
    """The lists of all commands that set one. Raises InputError with the line."""
    found = []
    for line, words in _commands(text, source):
        if "taprio" in words and not {"del", "delete", "show"} & set(words):
            found.append(_command(words, f"{source}:{line}"))
    if not found:
        raise refused(source, "no command that sets a taprio qdisc", "tc qdisc replace … taprio …")
    return found


def _commands(text: str, source: str) -> Iterator[tuple[int, list[str]]]:
    """The words of each command that names taprio, and the line it begins in."""
    variables: dict[str, str] = {}
    for line, logical in _logical_lines(text):
        if (assigned := _ASSIGNMENT.fullmatch(logical)) and not re.search(r"[$`(]", assigned[2]):
            variables[assigned[1]] = assigned[2].strip("\"'")
            continue
        if "taprio" not in logical or logical.lstrip().startswith("#"):
            continue
        known = _VARIABLE.sub(lambda its: variables.get(its[1] or its[2], its[0]), logical)
        try:
            yield line, shlex.split(known, comments=True)
        except ValueError as error:
            raise refused(f"{source}:{line}", f"a command without end ({error})", "one") from None


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines, with those that a backslash continues, and the number of the first."""
    begun, first = "", 0
    for line, each in enumerate(text.splitlines(), 1):
        first = first if begun else line
        if each.endswith("\\"):
            begun += each[:-1] + " "
            continue
        yield first, begun + each
        begun = ""
    if begun:
        yield first, begun


def _command(words: Sequence[str], where: str) -> Listed:
    port = words[words.index("dev") + 1] if "dev" in words[:-1] else None
    if port is None or "$" in port:
        found = f"the device {port}" if port else "a command without dev"
        raise refused(where, found, "the name of the interface, written out")
    entries: list[GateEntry] = []
    stated: dict[str, list[str]] = {}
    rest = _up_to_its_end(words[words.index("taprio") + 1 :])
    while rest:
        key = rest.pop(0)
        if key == "sched-entry":
            entries.append(_entry(rest[:3], where))
            del rest[:3]
        elif key in _LISTS:
            count = next((i for i, w in enumerate(rest) if not re.match(r"\d|[EP]$", w)), len(rest))
            stated[key] = rest[:count]
            del rest[:count]
        elif key in _SINGLE and rest:
            stated[key] = [rest.pop(0)]
        else:
            raise refused(where, f"{key!r}", f"a parameter of taprio: {', '.join(_PARAMETERS)}")
    remarks = list(_remarks(stated))
    cycle = number(where, stated["cycle-time"][0], "cycle-time") if "cycle-time" in stated else None
    base = stated.get("base-time", ["0"])[0]
    if not re.fullmatch(r"-?\d+", base):
        remarks.append(f"its base-time {base} is known when the script runs: no offset is taken")
        base = "0"
    return listed(
        where,
        port,
        entries,
        cycle_ns=cycle or None,
        base_time_ns=number(where, base, "base-time"),
        remarks=remarks,
    )


def _up_to_its_end(words: Sequence[str]) -> list[str]:
    """The words of a command, without those of the next one in its line."""
    own: list[str] = []
    for word in words:
        if word in _ENDS:
            break
        own.append(word.removesuffix(";"))
        if word.endswith(";"):
            break
    return own


_SINGLE = {
    "num_tc",
    "base-time",
    "cycle-time",
    "cycle-time-extension",
    "clockid",
    "flags",
    "txtime-delay",
}
_PARAMETERS = sorted(_SINGLE | _LISTS | {"sched-entry"})


def _entry(words: Sequence[str], where: str) -> GateEntry:
    if len(words) < 3:  # noqa: PLR2004  operation, mask, interval
        raise refused(where, f"sched-entry {' '.join(words)}", "sched-entry S MASK INTERVAL")
    operation, mask, interval = words
    if operation != "S":
        expected = "S: no plan holds preemptable frames back"
        raise refused(where, f"the operation {operation}", expected)
    return GateEntry(
        number(where, mask, "the mask", 16), number(where, interval, "the interval", 0)
    )


def _remarks(stated: dict[str, list[str]]) -> Iterator[str]:
    """What the command says of more than the list."""
    by_class: dict[str, list[str]] = {}
    for priority, its_class in enumerate(stated.get("map", [])[:8]):
        by_class.setdefault(its_class, []).append(str(priority))
    if by_class:
        words = "; ".join(f"{c} has priority {', '.join(p)}" for c, p in sorted(by_class.items()))
        yield f"its traffic classes: {words}. Those of the intent's classes decide"
    flags = stated.get("flags", ["0"])[0]
    if flags in {"1", "0x1"}:
        yield "flags 0x1: state `gates: txtime-assist` of the switch"
    if flags in {"2", "0x2"}:
        yield "flags 0x2: state `gates: full-offload` of the switch"
    clock = stated.get("clockid", ["CLOCK_TAI"])[0]
    if clock not in {"CLOCK_TAI", "11"}:
        yield f"its clock is {clock}: here every list follows TAI"
    for key in ("max-sdu", "fp"):
        if set(stated.get(key, ())) - {"0", "E"}:
            yield f"{key} is not taken"
    if stated.get("cycle-time-extension", ["0"])[0] != "0":
        yield "cycle-time-extension is not taken"


def command(port: str, its: PortConfiguration) -> str:
    """What sets the gates of an interface as a plan has them; its cycle begins at multiples of it
    on TAI."""
    classes = its.number_of_classes
    fallback = its.priority_map[0]
    priorities = [*its.priority_map, *([fallback] * (_PRIORITIES - len(its.priority_map)))]
    lines = [
        f"tc qdisc replace dev {port} parent root handle 100: taprio num_tc {classes}",
        f"    map {' '.join(map(str, priorities))}",
        f"    queues {' '.join(f'1@{queue}' for queue in range(classes))}",
        f"    base-time 0 cycle-time {its.gates.cycle_ns}",
        *(
            f"    sched-entry S {each.gate_states:02x} {each.interval_ns}"
            for each in its.gates.entries
        ),
        f"    {' '.join(('clockid', 'CLOCK_TAI', *_FLAGS.get(its.mode, _OFFLOAD)))}",
    ]
    if its.mode is GateMode.FULL_OFFLOAD:
        lines[-1] = f"    {' '.join(_OFFLOAD)}"  # the port's clock: the kernel refuses a clockid
    return " \\\n".join(lines) + "\n"
