"""Device profiles that come with the suite: a file each, of what switches of one family can do.

An operator's own have the same keys (`cnc.keys.profile`), in a file beside the intent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

_FILES = Path(__file__).parent


def names() -> list[str]:
    """By which an intent names them."""
    return sorted(file.stem for file in _FILES.glob("*.yaml"))


def keys_of(name: str) -> dict[str, Any]:
    """What the file of a profile states, with its name. Raises ValueError: there is none."""
    if name not in names():
        raise ValueError(
            f"one of {', '.join(names())}; or a file of your own beside the intent, ./NAME.yaml"
        )
    found: dict[str, Any] = yaml.safe_load((_FILES / f"{name}.yaml").read_text(encoding="utf-8"))
    return {"name": name, **found}
