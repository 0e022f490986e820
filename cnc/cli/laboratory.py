"""`cnc lab`, where the laboratory is installed."""

from __future__ import annotations

import click

from cnc import laboratory
from cnc.errors import InputError


@click.command(
    "lab", context_settings={"ignore_unknown_options": True, "allow_extra_args": True}, hidden=True
)
def _missing() -> None:
    raise InputError(
        "cnc lab: the laboratory is not installed",
        hint=f"pip install {laboratory.DISTRIBUTION}, of the version of this `cnc`",
    )


_registered = laboratory.registration()
lab: click.Command = _registered.command() if _registered else _missing
