"""The commands of adapters, before there is a service."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cnc.cli import cnc
from cnc.errors import CncError, InputError


def run(*words: str) -> Result:
    return CliRunner().invoke(cnc, ["--controller", "https://localhost:8443", *words])


@pytest.mark.parametrize(
    ("command", "package"), [("mcp", "anyio"), ("mcp", "mcp_types"), ("opcua", "asyncua")]
)
def test_without_its_extra_a_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, command: str, package: str
) -> None:
    adapter = f"cnc.adapters.{command}"
    for loaded in [name for name in sys.modules if name.startswith(adapter)]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, package, None)

    refused = run(command).exception

    assert isinstance(refused, CncError)
    assert str(refused) == f"cnc {command} needs the Python package {package}"
    assert refused.hint == f"pip install 'tsn-control-plane[{command}]'"


@pytest.mark.parametrize("words", [("mcp",), ("dds", "robot.xml")])
def test_an_adapter_needs_the_name_of_a_service(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("robot.xml").write_text("<dds/>")
    refused = CliRunner().invoke(cnc, [*words]).exception
    assert isinstance(refused, InputError)
    assert refused.hint == f"cnc --controller https://cnc.example:8443 {words[0]}"


def test_a_terminal_is_for_changes() -> None:
    result = run("mcp", "--terminal", "/dev/tty")
    assert result.exit_code == 2
    assert "--terminal is for --allow-changes" in result.output
