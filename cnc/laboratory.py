"""The way to the laboratory, the distribution `tsn-control-plane-lab`, which may not be installed.

No other module names `cnc.testbed`. What the laboratory adds to the controller is in its
`registration`: `command`, `keys` of intents, and the `documents` of `--json`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

DISTRIBUTION = "tsn-control-plane-lab"
_ROOM = "cnc.testbed"


def registration() -> Any | None:
    """The module that says what the laboratory adds; None: it is not installed."""
    try:
        return import_module(f"{_ROOM}.registration")
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith(_ROOM):
            return None
        raise
