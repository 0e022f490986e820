"""The commands `tsn-agent` and `tsn-netconfd`."""

from __future__ import annotations

import sys
from importlib import import_module


def tsn_agent() -> int:
    """See `agent.main`."""
    return _run("tsn-agent", "agent.main")


def tsn_netconfd() -> int:
    """See `agent.netconfd.server`."""
    return _run("tsn-netconfd", "agent.netconfd")


def _run(command: str, module: str) -> int:
    """A bare `pip install tsn-control-plane` has not brought what the switch's side needs."""
    try:
        main = import_module(module).main
    except ModuleNotFoundError as error:
        sys.exit(
            f"{command}: no Python package {error.name}; pip install 'tsn-control-plane[agent]'"
        )
    return int(main() or 0)


if __name__ == "__main__":
    sys.exit(tsn_agent())
