"""Usage: switch.py DIRECTORY     write the manual pages of the programs of a switch.

Needs nothing but what is installed there: the package is built where the controller's side is not.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from roff import Page, summary

from agent import main as agent
from agent.clock_service import main as clock
from agent.netconfd.broker import options as broker
from agent.netconfd.front import options as netconfd

DAEMON_STATUS = "0 stopped by SIGTERM or SIGINT, 1 cannot serve, 2 bad arguments."


def switch_pages() -> Iterator[Page]:
    """A page for each program."""
    yield daemon_page(agent.parser())
    yield daemon_page(clock.parser())
    yield daemon_page(netconfd.parser())
    yield daemon_page(broker.parser())


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
        "tsn-control-plane-agent",
    )


def main() -> None:
    for page in switch_pages():
        page.write(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
