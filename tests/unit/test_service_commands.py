"""Commands that a service runs for those who ask: what they print, and what nobody may say."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cnc import app
from cnc.cli import cnc
from cnc.service.calls import Role
from cnc.service.channel import Following
from cnc.service.commands import OFFERED
from cnc.service.refused import CallRefused, Code
from tests.unit.service_network import FILE, ONE, Asking, Switches, service

KEYS = {
    "talker": "t1",
    "listeners": ["l1"],
    "class": "cyclic",
    "period": "1ms",
    "payload": "200B",
    "max-latency": "200us",
}


def run(directory: Path, ask: Callable[[Asking], Awaitable[Any]]) -> Any:
    async def whole() -> Any:
        async with service(directory, Switches()) as asking:
            return await ask(asking)

    return asyncio.run(asyncio.wait_for(whole(), 60))


async def printed(
    service: Asking, *words: str, by: str = Role.VIEWER, **more: Any
) -> tuple[int, str, str]:
    """The exit code of a command that the service runs, and what it prints."""
    following = await service.call("command.run", {"words": list(words), **more}, by=by)
    assert isinstance(following, Following)
    texts = {"out": "", "err": ""}
    async for item in following.items:
        if "exit" in item:
            return item["exit"], texts["out"], texts["err"]
        for kind, text in item.items():
            texts[kind] += text
    raise AssertionError("a command that did not end")


def test_a_command_prints_what_it_prints_of_the_decided_plan_here(tmp_path):
    async def ask(service: Asking) -> tuple[Any, str]:
        await service.put(ONE, KEYS)
        app.dump_plan(service.core.decided[0], tmp_path / "line3.json")
        return await printed(service, "talkers", "--csv"), "talkers"

    (code, out, err), name = run(tmp_path, ask)
    here = CliRunner().invoke(cnc, [name, "--csv", str(tmp_path / "line3.json")])
    assert (code, err) == (0, "")
    assert out == here.output
    assert "plc__00-1B-21-00-00-01_00-01" in out


def test_an_intent_that_came_along_is_planned_beside_the_streams_of_cucs(tmp_path):
    text = FILE.read_text(encoding="utf-8")

    async def ask(service: Asking) -> Any:
        await service.put(ONE, KEYS)
        return await printed(service, "plan", "mine.yaml", file="mine.yaml", text=text)

    code, out, _ = run(tmp_path, ask)
    assert code == 0
    assert "plc__00-1B-21-00-00-01_00-01" in out
    assert "camera" in out


def test_a_mistake_in_an_intent_that_came_along_is_told_by_the_line_of_its_own_file(tmp_path):
    text = FILE.read_text(encoding="utf-8").replace("period: 1ms", "period: 1 parsec", 1)

    async def ask(service: Asking) -> Any:
        with pytest.raises(CallRefused, match=r"(?m)^mine\.yaml:\d+: .*1 parsec"):
            await printed(service, "plan", "mine.yaml", file="mine.yaml", text=text)
        return await printed(service, "check", "mine.yaml", file="mine.yaml", text=text)

    code, _, err = run(tmp_path, ask)
    assert code == 2
    assert "mine.yaml:" in err
    assert "/" not in err.split("mine.yaml")[0]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["serve", "line3.yaml"], "does not run `cnc serve`"),
        (["lab", "up"], "does not run `cnc lab`"),
        (["push", "3"], "does not run `cnc push`"),
        (["status", "/etc/shadow"], "neither the number of a rollout"),
        (["status", "--identity", "/root/key"], "--identity of `cnc status`"),
        (["status", "--id=/root/key"], "no such option|--id"),
        (["plan", "--executor", "192.0.2.9:8786", "3"], "--executor"),
        (["plan", "-o", "plan.json", "3"], "--output"),
        (["show", "--html", "page.html"], "--html"),
        (["watch", "--metrics", "0.0.0.0:80"], "--metrics"),
        (["watch", "--heal"], "--heal"),
        (["history", "--state-dir", "/root"], "--state-dir"),
        (["status", "3", "--", "--identity"], "one word too many"),
        (["status", "--no-such"], "(?i)no such option"),
    ],
)
def test_what_is_about_the_service_s_own_machine_is_refused(tmp_path, words, why):
    async def ask(service: Asking) -> CallRefused:
        with pytest.raises(CallRefused, match=why) as refused:
            await printed(service, *words, by=Role.ADMIN)
        return refused.value

    assert run(tmp_path, ask).code is Code.INVALID


def test_a_cuc_runs_no_commands(tmp_path):
    async def ask(service: Asking) -> CallRefused:
        with pytest.raises(CallRefused) as refused:
            await printed(service, "status", by="plc")
        return refused.value

    assert run(tmp_path, ask).code is Code.FORBIDDEN


def processes_of(directory: Path) -> list[str]:
    """The commands that run with this state directory."""
    found = [its.read_bytes() for its in Path("/proc").glob("[0-9]*/cmdline")]
    return [line.decode() for line in found if b"-m\0cnc\0" in line and bytes(directory) in line]


def test_a_command_ends_when_its_asker_has_gone(tmp_path):
    async def ask(service: Asking) -> None:
        following = await service.call("command.run", {"words": ["watch"]}, by=Role.VIEWER)
        assert "unreachable" in str(await anext(following.items))
        assert len(processes_of(tmp_path)) == 1
        await following.items.aclose()
        assert processes_of(tmp_path) == []
        assert not service.core._reads._commands._running

    run(tmp_path, ask)


def test_every_command_that_is_offered_is_one_with_these_options():
    for name, offered in OFFERED.items():
        params = {each.name for each in cnc.commands[name].params} | {"help"}
        assert offered <= params, name
