"""The command blocks of a Markdown page, and what the comment before each says about running it.

A fence in `sh` holds commands, one in `console` a transcript: commands after `$ ` (continued by
`> `), each followed by its output. Every other language is something to read. The comment line
right before a command block says where it runs; readers do not see it:

    <!-- run: host -->                          see `places` for the places
    <!-- run: lab exit=1 -->                    the last command ends with 1, those before with 0
    <!-- run: no reason="needs two machines" -->
    <!-- run: no covered-by="scripts/test" -->  files that run the same

Further lines inside the comment are commands that run before the block.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

PLACES = ("host", "lab", "switch")
NOWHERE = "no"
_COMMANDS = {"sh", "console"}
_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>.*)$")
_COMMENT = re.compile(r"<!-- run: (?P<head>[^\n]*?)(?:\n(?P<setup>.*))? *-->\Z", re.DOTALL)
_KEYS = {"exit", "reason", "covered-by"}


class Unclear(Exception):
    """A block that nobody could run as it stands; the text says why."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command, and the output that the page shows for it; None where it shows none."""

    text: str
    output: str | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """Commands of a page, and how they are run. `line` is that of the opening fence, from 1."""

    page: Path
    line: int
    place: str
    commands: tuple[Command, ...]
    setup: tuple[Command, ...] = ()
    exit_code: int = 0
    reason: str = ""
    covered_by: tuple[str, ...] = ()


@dataclass(slots=True)
class Page:
    """What was found in one file: blocks to run, and what is wrong with others."""

    file: Path
    blocks: list[Block] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def read(file: Path) -> Page:
    """All command blocks of a Markdown file."""
    page = Page(file)
    lines = file.read_text(encoding="utf-8").splitlines()
    number = 0
    while number < len(lines):
        fence = _FENCE.match(lines[number])
        if not fence:
            if _is_indented_code(lines, number):
                page.faults.append(f"{file}:{number + 1}: indented code: put it into a fence")
            number += 1
            continue
        end = _end_of(fence, lines, number)
        indent = len(fence["indent"])
        body = [line[indent:] for line in lines[number + 1 : end]]
        try:
            language = fence["language"].strip()
            if not language:
                raise Unclear("a fence without a language: sh, console, text, yaml, …")
            if language in _COMMANDS:
                page.blocks.append(_block(file, number + 1, lines[:number], language, body))
        except Unclear as unclear:
            page.faults.append(f"{file}:{number + 1}: {unclear}")
        number = end + 1
    return page


def _end_of(fence: re.Match[str], lines: list[str], start: int) -> int:
    for number in range(start + 1, len(lines)):
        if lines[number].strip() == fence["ticks"]:
            return number
    return len(lines)


def _is_indented_code(lines: list[str], number: int) -> bool:
    """Whether a code block without a fence starts here: not in a list, whose items are indented."""
    before = [line for line in lines[:number] if line.strip()]
    return (
        lines[number].startswith("    ")
        and bool(lines[number].strip())
        and (number == 0 or not lines[number - 1].strip())
        and bool(before)
        and not re.match(r"^ *([-*+]|\d+\.) |^  ", before[-1])
    )


def _block(file: Path, line: int, before: list[str], language: str, body: list[str]) -> Block:
    place, values, setup = _annotation(before)
    commands = _transcript(body) if language == "console" else _script(body)
    if not commands:
        raise Unclear("no command in it; output alone is `text`")
    covered_by = tuple(values.get("covered-by", "").split())
    if place == NOWHERE and not (covered_by or values.get("reason")):
        raise Unclear('run: no needs reason="…" or covered-by="FILE…"')
    return Block(
        page=file,
        line=line,
        place=place,
        commands=commands,
        setup=_script(setup),
        exit_code=int(values.get("exit", "0")),
        reason=values.get("reason", ""),
        covered_by=covered_by,
    )


def _annotation(before: list[str]) -> tuple[str, dict[str, str], list[str]]:
    """Place, values and preparing commands that the comment right before a block gives."""
    text = "\n".join(before)
    start = text.rfind("<!--")
    found = _COMMENT.match(text[start:]) if start >= 0 else None
    if found is None:
        raise Unclear("no comment right before it says where it runs: <!-- run: host --> …")
    try:
        place, *pairs = shlex.split(found["head"])
        values = dict(pair.split("=", 1) for pair in pairs)
    except ValueError as error:
        raise Unclear(f"<!-- run: {found['head']} --> cannot be read") from error
    if place not in {*PLACES, NOWHERE}:
        raise Unclear(f"no such place: {place}; there are {', '.join(PLACES)}, and {NOWHERE}")
    if unknown := values.keys() - _KEYS:
        raise Unclear(f"no such key: {', '.join(sorted(unknown))}; there are {sorted(_KEYS)}")
    if not values.get("exit", "0").isdecimal():
        raise Unclear(f"exit={values['exit']} is no exit code")
    return place, values, (found["setup"] or "").splitlines()


def _script(lines: list[str]) -> tuple[Command, ...]:
    """Commands as a shell would read them, each with all of its lines."""
    commands, waiting = [], ""
    for line in lines:
        if not waiting and (not line.strip() or line.lstrip().startswith("#")):
            continue
        waiting += f"{line}\n"
        if _is_whole(waiting):
            commands.append(Command(waiting))
            waiting = ""
    if waiting:
        raise Unclear(f"a command without an end: {waiting.splitlines()[0]}")
    return tuple(commands)


def _is_whole(text: str) -> bool:
    """Whether a shell would run this rather than wait for more."""
    if text.endswith("\\\n"):
        return False
    if not re.search(r"['\"(){}`]|<<|\b(if|for|while|until|case|do|then)\b", text):
        return True  # a shell takes milliseconds to start: ask one only where it may matter
    asked = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
    return asked.returncode == 0 and not asked.stderr  # an open here-document is a mere warning


def _transcript(lines: list[str]) -> tuple[Command, ...]:
    commands: list[Command] = []
    for line in lines:
        if line.startswith("$ "):
            commands.append(Command(f"{line[2:]}\n", ""))
        elif not commands:
            raise Unclear("a transcript starts with a command after `$ `")
        elif line.startswith("> ") and not commands[-1].output:
            commands[-1] = Command(f"{commands[-1].text}{line[2:]}\n", "")
        else:
            commands[-1] = Command(commands[-1].text, f"{commands[-1].output}{line}\n")
    return tuple(commands)
