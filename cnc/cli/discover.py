"""`cnc discover`: the topology of an intent, from what the switches know of each other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnc.cli.options import JSON, connection, refuse_to_overwrite
from cnc.cli.render.output import print_json
from cnc.cli.terminal import echo
from cnc.support import whole_file
from cnc.support.lazy import lazy_import

if TYPE_CHECKING:
    from cnc import discover as discovery
    from cnc.discover import Draft
    from cnc.switch import ConnectOptions
else:
    discovery = lazy_import("cnc.discover")


@click.command()
@click.argument("switches", metavar="SWITCH[:PORT]...", nargs=-1, required=True)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the draft here."
)
@click.option("--force", is_flag=True, help="Overwrite the file of -o.")
@click.option("--user", metavar="NAME", help="Who logs in on the switches (default: you).")
@connection
@JSON
def discover(  # noqa: PLR0917  one parameter an option
    switches: tuple[str, ...],
    output: Path | None,
    force: bool,
    user: str | None,
    connect: ConnectOptions,
    as_json: bool,
) -> None:
    """Draft the topology of an intent from LLDP and the interfaces of the switches.

    Each SWITCH is queried over NETCONF; lldpd must run there. Other neighbours become end stations;
    gate control lists that ports run are drafted as they are.
    Comments in the draft mark uncertain facts. If a switch does not answer, the others are drafted,
    and the exit code is 1.
    """
    if output:
        refuse_to_overwrite(output, force=force)
    asked = discovery.targets(switches, user)
    answers = discovery.ask(asked, connect)
    if answers.views:
        draft = discovery.draft(answers, output.stem if output else "", user)
        text = discovery.as_yaml(draft)
        if output:
            whole_file.write(output, text)
        _print(draft, text, output, as_json=as_json)
    answers.raise_if_incomplete()


def _print(draft: Draft, text: str, output: Path | None, *, as_json: bool) -> None:
    """The draft itself, whose `text` is YAML; or what is in the file it was written to."""
    if as_json:
        from cnc.json_output.planning import Discovered  # noqa: PLC0415

        print_json(Discovered.model_validate(discovery.as_data(draft)))
        return
    if output is None:
        echo(text, nl=False)
        return
    parts = (
        ("switches", draft.switches),
        ("end stations", draft.end_stations),
        ("links", draft.links),
    )
    echo(f"wrote {output}: " + ", ".join(f"{what} {len(found)}" for what, found in parts))
    for remark in draft.remarks:
        echo(f"  {remark}")
    echo(f"Read the comments, add streams, then: cnc plan {output}")
