"""Commands that the `cnc --controller URL` of somebody else asks for: run here, printed there.

Each is a process of its own on this machine, with the keys and the history of the service, on the
plan that is decided. What an asker may say is a command of `OFFERED` with options of its own that
name no file, address or key of this machine; what names a document is a rollout's number, or the
one file that came along.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import sys
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from cnc import app
from cnc.errors import CncError
from cnc.intent import intent_of, source
from cnc.model import Plan
from cnc.service.calls import CommandRun
from cnc.service.refused import CallRefused, Code
from cnc.switch import ConnectOptions

# By command: the names of the options and arguments that an asker may say.
OFFERED: Mapping[str, frozenset[str]] = {
    name: frozenset({*names.split(), "as_json", "verbose", "help"})
    for name, names in {
        "check": "file",
        "diff": "before after",
        "doctor": "file",
        "history": "which limit",
        "path": "stream file",
        "plan": "file algorithm reoptimise best_effort ask_switches force_margin seed",
        "show": "file",
        "status": "file problems all_ports",
        "talkers": "plan as_csv",
        "watch": "file interval_s",
    }.items()
}
_DOCUMENTS = frozenset({"file", "plan", "before", "after"})
_DECIDED_BY_DEFAULT = frozenset({"file", "plan"})
_AT_ONCE = 8  # each is a process that holds a plan
_CHUNK_OCTETS = 1 << 16
_END_S = 5.0
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\.(yaml|yml|json)")


class Commands:
    """Runs the commands of one service. From the core's loop."""

    def __init__(self, group: click.Group, connect: ConnectOptions, state_dir: Path) -> None:
        """`group` is `cnc`, which this room does not know."""
        self._group = group
        self._own = {
            "identity": str(connect.identity),
            "known_hosts": str(connect.known_hosts),
            "timeout_s": str(connect.timeout_s),
            "state_dir": str(state_dir),
        }
        if connect.ssh_config and connect.ssh_config.is_file():
            self._own["ssh_config"] = str(connect.ssh_config)
        self._running = 0

    async def run(
        self, asked: CommandRun, plan: Plan, of_cucs: Collection[str]
    ) -> AsyncGenerator[dict[str, Any], None]:
        """What the command prints, as it comes: {"out": text} or {"err": text}; at last {"exit":
        its code}. `plan` is the decided one, `of_cucs` names the streams in it that no intent file
        has. Raises CallRefused."""
        if self._running >= _AT_ONCE:
            raise CallRefused(
                Code.TOO_MANY,
                f"{_AT_ONCE} commands run here already",
                hint="try again when one of them has ended",
            )
        self._running += 1
        try:
            with TemporaryDirectory(prefix="cnc-command-") as name:
                directory = Path(name)
                words = await asyncio.to_thread(self._prepared, asked, plan, of_cucs, directory)
                async with aclosing(_run(words, directory, asked.columns)) as items:
                    async for item in items:
                        yield item
        finally:
            self._running -= 1

    def _command(self, words: Sequence[str]) -> tuple[click.Command, Sequence[str]]:
        """The command that words call, and those behind it. Raises CallRefused (INVALID)."""
        name, *rest = words
        if name not in OFFERED:
            raise CallRefused(
                Code.INVALID,
                f"a service does not run `cnc {name}` for others",
                hint=f"it runs {', '.join(sorted(OFFERED))}; without --controller the command "
                "runs on your machine",
            )
        return self._group.commands[name], rest

    def _prepared(
        self, asked: CommandRun, plan: Plan, of_cucs: Collection[str], directory: Path
    ) -> list[str]:
        """The words of the process, whose files are in `directory`."""
        command, words = self._command(asked.words)
        said = _said(command, words, asked.file)
        if asked.file is not None:
            text = asked.content()
            if command.name == "plan" and said.get("file") == asked.file:
                text = _beside_cucs(asked.file, text, plan, of_cucs)
            (directory / asked.file).write_text(text, encoding="utf-8")
        own = [
            word
            for each in command.params
            if (value := self._own.get(each.name or "")) is not None
            for word in (max(each.opts, key=len), value)
        ]
        found = [command.name or "", *own, *words]
        missing = _DECIDED_BY_DEFAULT & {each.name for each in command.params} - said.keys()
        if missing and command.name != "plan" and "help" not in said:
            decided = f"{plan.intent.name}.json"
            app.dump_plan(plan, directory / decided)
            found.append(decided)
        return found


def _said(command: click.Command, words: Sequence[str], file: str | None) -> Mapping[str, Any]:
    """What the words say, by the name of an option or argument, as the process will read them.
    Raises CallRefused (INVALID) for what an asker may not say."""
    if file is not None and not _FILE_NAME.fullmatch(file):
        raise CallRefused(Code.INVALID, f"{file[:128]!r} is no name of a plan or an intent")
    context = click.Context(command, info_name=command.name)
    try:
        found, rest, _ = command.make_parser(context).parse_args([*words])
    except click.UsageError as error:
        raise CallRefused(Code.INVALID, f"cnc {command.name}: {error.format_message()}") from error
    # What is not said has a value of click's own, which differs from version to version.
    said = {name: its for name, its in found.items() if isinstance(its, str | int)}
    if rest:
        raise CallRefused(Code.INVALID, f"cnc {command.name}: {rest[0]!r} is one word too many")
    offered = OFFERED[command.name or ""]
    for each in command.params:
        if each.name in said and each.name not in offered:
            raise CallRefused(
                Code.INVALID,
                f"{max(each.opts, key=len)} of `cnc {command.name}` is about the machine of the "
                "service",
                hint="leave it out",
            )
    for name in _DOCUMENTS & said.keys():
        if said[name] != file and not str(said[name]).isdecimal():
            raise CallRefused(
                Code.INVALID,
                f"{said[name]!r} is neither the number of a rollout nor a file that came along",
                hint="leave it out for the plan that is decided",
            )
    return said


def _beside_cucs(name: str, text: str, plan: Plan, of_cucs: Collection[str]) -> str:
    """The text of an intent that has the streams of CUCs as well, as the plan of the network will.
    Raises CallRefused with the problems of the intent."""
    try:
        document = intent_of(source.parse(text.encode(), name), best_effort=True).document
    except CncError as error:
        raise CallRefused(Code.INVALID, str(error), hint=error.hint) from error
    of_plan = plan.intent.document["streams"]
    streams = {**document["streams"], **{each: of_plan[each] for each in of_cucs}}
    return source.dump({**document, "streams": streams})


async def _run(
    words: Sequence[str], directory: Path, columns: int | None
) -> AsyncGenerator[dict[str, Any], None]:
    """What `cnc` with these words prints; ended when nobody reads it any more."""
    of_libpq = {name for name in os.environ if name.startswith("PG")}
    kept = {"PATH", "HOME", "LANG"} | of_libpq
    environment = {name: its for name, its in os.environ.items() if name in kept}
    if columns:
        environment["COLUMNS"] = str(columns)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cnc", *words),
        cwd=directory,
        env={**environment, "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    items: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue(1)

    async def forward(stream: asyncio.StreamReader, kind: str) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while octets := await stream.read(_CHUNK_OCTETS):
            await items.put({kind: decoder.decode(octets)})

    async def forward_all() -> None:
        assert process.stdout is not None  # noqa: S101  both are pipes
        assert process.stderr is not None  # noqa: S101
        await asyncio.gather(forward(process.stdout, "out"), forward(process.stderr, "err"))
        await items.put(None)

    forwarding = asyncio.create_task(forward_all())
    try:
        while (item := await items.get()) is not None:
            yield item
        yield {"exit": await process.wait()}
    finally:
        forwarding.cancel()
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _END_S)
        except TimeoutError:
            process.kill()
            await process.wait()
