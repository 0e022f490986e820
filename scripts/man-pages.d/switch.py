"""Usage: switch.py DIRECTORY     write the manual pages of the programs of a switch.

Needs nothing but what is installed there: the package is built where the controller's side is not.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from roff import Page, summary

import agent as package
from agent import main as agent
from agent.clock_service import main as clock
from agent.netconfd.broker import options as broker
from agent.netconfd.front import options as netconfd

DAEMON_STATUS = "0 stopped by SIGTERM or SIGINT, 1 cannot serve, 2 bad arguments."
SCRIPT_STATUS = "0 done, 1 failed, 2 bad arguments."
DISTRIBUTION = "tsn-control-plane-agent"
YANG = Path(package.__file__).with_name("yang")
SCRIPTS = {
    "tsn-yang-install": ("install", "Install the YANG modules into a sysrepo repository"),
    "tsn-access-control": ("access-control", "Give a sysrepo repository its access control"),
}


def switch_pages() -> Iterator[Page]:
    """A page for each program."""
    yield daemon_page(agent.parser())
    yield daemon_page(clock.parser())
    yield daemon_page(netconfd.parser())
    yield daemon_page(broker.parser())
    for name, (script, what) in SCRIPTS.items():
        yield script_page(name, YANG / script, what)


def script_page(name: str, script: Path, what: str) -> Page:
    """The page of a shell script: the comment that it begins with, and what its --help says."""
    _, *lines = script.read_text().splitlines()
    comment = lines[: next(i for i, line in enumerate(lines) if not line.startswith("#"))]
    text = "\n".join(line.removeprefix("#").strip() for line in comment)
    run = subprocess.run(["bash", script, "--help"], check=True, capture_output=True, text=True)
    usage, _, values = run.stdout.partition("(")
    synopsis = " ".join([name, *usage.split()[2:]])
    arguments = values.strip().removesuffix(")")
    return Page(
        name,
        8,
        what,
        synopsis,
        [
            ("DESCRIPTION", f"{text}\n\n{arguments}."),
            ("EXIT STATUS", SCRIPT_STATUS),
            ("SEE ALSO", "tsn-agent(8), tsn-netconfd(8)"),
        ],
        DISTRIBUTION,
    )


def daemon_page(parser: argparse.ArgumentParser) -> Page:
    """The page of a program of the switch."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    options = []
    for action in parser._actions:  # noqa: SLF001  argparse tells of them nowhere else
        choices = f"{{{','.join(action.choices)}}}" if action.choices else action.dest.upper()
        value = "" if action.nargs == 0 else f" {action.metavar or choices}"
        text = (action.help or "") % {**vars(action), "prog": parser.prog}
        options.append((", ".join(f"{name}{value}" for name in action.option_strings), text))
    text = (parser.description or "").replace("\n\n", "\n")
    return Page(
        parser.prog,
        8,
        summary(text.partition("`: ")[2] or text),
        f"{parser.prog} [OPTION]...",
        [
            ("DESCRIPTION", text),
            ("OPTIONS", options),
            ("EXIT STATUS", DAEMON_STATUS),
            (
                "SEE ALSO",
                "tsn-agent(8), tsn-clock(8), tsn-netconfd(8), tsn-netconf-broker(8), cnc(1)",
            ),
        ],
        DISTRIBUTION,
    )


def main() -> None:
    for page in switch_pages():
        page.write(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
