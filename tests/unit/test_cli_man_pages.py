"""The manual pages: one for each command, with every option, and nothing that troff minds."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import click
import pytest

from agent import main as agent
from agent.clock_service import main as clock
from agent.netconfd.broker import options as broker
from agent.netconfd.front import options as netconfd
from cnc.cli import cnc, planning, settings

SCRIPT = Path(__file__).parents[2] / "scripts" / "man-pages"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("man")
    subprocess.run([SCRIPT, "-o", directory], check=True)
    return directory


def plain(page: Path) -> str:
    """The text of a page without its markup."""
    text = re.sub(r"\\f[BRP]|\\&", "", page.read_text())
    return text.replace("\\-", "-").replace("\\(ti", "~").replace("\\(ha", "^")


COMMANDS = {"-".join(["cnc", *words]): its for words, its in settings.commands(cnc)}
SCRIPTS = {
    "tsn-yang-install": ("--search DIR", "--owner USER", "Installs the modules of modules.txt"),
    "tsn-access-control": ("--operator USER", "the access control of access-control.xml"),
}
PARSERS = {
    "tsn-agent": agent.parser(),
    "tsn-clock": clock.parser(),
    "tsn-netconfd": netconfd.parser(),
    "tsn-netconf-broker": broker.parser(),
}


def test_there_is_a_page_for_every_command_and_no_other(pages: Path) -> None:
    wanted = {f"{name}.1" for name in [*COMMANDS, "tsn-probe"]}
    wanted |= {f"{name}.8" for name in PARSERS | SCRIPTS}
    assert {page.name for page in pages.iterdir()} == wanted


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_in_its_page_with_its_help(pages: Path, name: str) -> None:
    text = plain(pages / f"{name}.1")
    command = COMMANDS[name]
    # click keeps the one of its first context, which another test may have made without ours.
    command._help_option = None
    context = click.Context(command, **cnc.context_settings)
    for option in command.get_params(context):
        if isinstance(option, click.Option):
            term, help_text = option.get_help_record(context) or ("", "")
            assert f".TP\n{term}\n{' '.join(help_text.split())}\n" in text
    for key, option in settings.settable(command).items():
        assert f"{' or '.join(option.envvar or ())}\nThe option --{key}." in text
    if isinstance(command, click.Group):
        assert all(f"{name}-{below}(1)" in text for below in command.commands)


@pytest.mark.parametrize("name", PARSERS)
def test_every_option_of_a_program_of_the_switch_is_in_its_page(pages: Path, name: str) -> None:
    text = plain(pages / f"{name}.8")
    shown = PARSERS[name].format_help()
    options = set(re.findall(r"^  (?:-h, )?(--[a-z-]+)", shown, re.MULTILINE))
    assert len(options) > 3
    assert {option for option in options if option not in text} == set()
    assert "%(default)s" not in text
    assert "default: /" in text


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_page_of_a_script_has_what_its_comment_and_its_help_say(pages: Path, name: str) -> None:
    text = plain(pages / f"{name}.8")
    assert f".B {name}\n[--" in text
    assert [words for words in SCRIPTS[name] if words not in text] == []
    assert "yang/" not in text  # its name in the sources


def test_troff_has_nothing_to_complain_of(pages: Path) -> None:
    for page in pages.iterdir():
        done = subprocess.run(
            ["groff", "-ww", "-man", "-Tutf8", page], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), page.name


def test_lists_and_examples_keep_their_lines(pages: Path) -> None:
    def shown(name: str) -> list[str]:
        command = ["groff", "-man", "-Tascii", "-P-c", pages / name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return [line.strip() for line in text.splitlines()]

    assert 'algorithm = "exact"' in shown("cnc.1")
    for name, what in planning.ALGORITHMS.items():
        assert f"{name:9} {what}" in shown("cnc-plan.1")


def test_the_page_of_the_probe_has_its_options_in_the_lines_of_its_help(pages: Path) -> None:
    text = plain(pages / "tsn-probe.1")
    for line in ("tsn-probe send ADDRESS [OPTION...]", "--period DURATION", "--wait DURATION"):
        assert line in text
