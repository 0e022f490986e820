"""What the laboratory adds to the controller, which finds this module by its name
(`cnc.laboratory`). Each function imports what it returns: starting `cnc` needs little of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import click

    from cnc.keys.keys import Keys


def command() -> click.Command:
    """`cnc lab`."""
    from cnc.testbed.cli.lab import lab  # noqa: PLC0415

    return lab


def keys() -> Keys:
    """Those of intents for a lab: `lab`, `clock` of a node, `impairments` of a link."""
    from cnc.testbed.intent import lab_semantics  # noqa: PLC0415

    return lab_semantics.KEYS


def documents() -> Mapping[str, Any]:
    """The documents of `--json`, by the words of the command."""
    from cnc.testbed.json_output.commands import BY_COMMAND  # noqa: PLC0415

    return BY_COMMAND
