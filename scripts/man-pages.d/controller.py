"""Usage: controller.py DIRECTORY     write the manual pages of `cnc`, its commands and tsn-probe.

Needs nothing but what is installed there: the package is built where the switch's side is not.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from roff import Page, summary

from cnc.cli import cnc, settings
from cnc.testbed.traffic import probe

# click-man writes no ENVIRONMENT, FILES and EXIT STATUS, cuts the summary at 45 characters, and
# cannot write the pages of the switch's programs, which use argparse.
CNC_STATUS = "0 done, 1 refused or failed, 2 bad input, 130 interrupted."
FILES = [
    (str(settings.SYSTEM_FILE), "Options for all users of this machine (TOML)."),
    ("~/.config/cnc/config.toml", "Options for one user; they win over the system's."),
    ("~/.local/state/cnc/", "The history of rollouts."),
]
CONFIGURATION = """\
A file has the names of the options as keys. What is above the first table holds for every command:
identity, known-hosts, ssh-config, timeout, state-dir. A table has the name of a command:

\b
    known-hosts = "~/lab/known_hosts"
    [plan]
    algorithm = "exact"
    [lab.traffic]
    duration = "2s"

The command line wins over the environment, the environment over files. An unknown key is an error.
"""


def controller_pages() -> Iterator[Page]:
    """A page for `cnc`, one for each of its commands, and that of tsn-probe."""
    for words, _ in settings.commands(cnc):
        context = click.Context(cnc, info_name="cnc", **cnc.context_settings)
        for word in words:
            context = click.Context(context.command.commands[word], context, word)
        yield cnc_page(context, words)
    yield probe_page()


def cnc_page(context: click.Context, words: settings.Words) -> Page:
    """The page of one command: what its --help says, and what is in the environment."""
    command = context.command
    group = command if isinstance(command, click.Group) else None
    name = "-".join(["cnc", *words])
    below = group.commands if group else {}
    commands = [(f"{name}-{word}(1)", summary(its.help or "")) for word, its in below.items()]
    options = [
        option.get_help_record(context)
        for option in command.get_params(context)
        if isinstance(option, click.Option)
    ]
    variables = [
        (" or ".join(option.envvar), f"The option --{key}.")
        for key, option in settings.settable(command).items()
    ]
    above = "cnc-lab(1), " if words[:1] == ("lab",) and words[1:] else ""
    return Page(
        name,
        1,
        summary(command.help or ""),
        " ".join([context.command_path, *command.collect_usage_pieces(context)]),
        [
            ("DESCRIPTION", "\n\n".join(filter(None, [command.help, command.epilog]))),
            ("OPTIONS", options),
            ("COMMANDS", commands),
            ("CONFIGURATION", "" if words else CONFIGURATION),
            (
                "ENVIRONMENT",
                variables if words else [("CNC_CONFIG", "The option --config."), *variables],
            ),
            ("FILES", [] if words else FILES),
            ("EXIT STATUS", CNC_STATUS),
            ("SEE ALSO", f"{above}cnc(1)" if words else "tsn-agent(8), tsn-netconfd(8)"),
        ],
    )


def probe_page() -> Page:
    """The page of tsn-probe: its --help, whose lines stay."""
    run = subprocess.run([probe.PROGRAM, "--help"], check=True, capture_output=True, text=True)
    usage, _, options = run.stdout.partition("\n\n")
    commands = usage.replace("usage: ", "       ")
    shown = [f"\b\n{paragraph}" for paragraph in (commands, *options.strip("\n").split("\n\n"))]
    return Page(
        "tsn-probe",
        1,
        "Stamp packets between two hosts, for `cnc lab trace --import`",
        "tsn-probe [OPTION]...",
        [
            ("DESCRIPTION", "\n\n".join(shown)),
            ("EXIT STATUS", "0 done, 1 failed, 2 bad input."),
            ("SEE ALSO", "cnc-lab-trace(1)"),
        ],
    )


def main() -> None:
    for page in controller_pages():
        page.write(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
