"""A script in the place of lldpd's client, which answers the agent what a test wants."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

CHASSIS = {"local-chassis": {"chassis": {"id": {"type": "mac", "value": "02:00:00:00:00:01"}}}}


def neighbor(interface: str, name: str, address: str) -> dict:
    return {
        "name": interface,
        "chassis": {
            "id": {"type": "mac", "value": address},
            "name": {"value": name},
            "capability": {"type": "Station", "enabled": True},
        },
        "port": {"id": {"type": "ifname", "value": "eth0"}},
    }


def lldp_client(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets what the switch's LLDP daemon answers; before that there is none."""
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")
    client = directory / "lldpcli"
    client.write_text("#!/bin/sh\nexit 1\n")
    client.chmod(0o755)

    def hears(*neighbors: dict) -> None:
        (directory / "chassis").write_text(json.dumps(CHASSIS))
        (directory / "neighbors").write_text(json.dumps({"lldp": {"interface": neighbors}}))
        client.write_text(f'#!/bin/sh\ncat "{directory}/$4"\n')

    return hears
