"""The backend of a NETCONF server, which `cnc serve --netconf-socket` starts: python -m
cnc.service.netconf --core SOCKET --listen PATH [--group NUMBER].
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import socket
import sys
from pathlib import Path

from cnc.service.netconf.modules import exported
from cnc.service.netconf.server import listening, serve
from cnc.service.web import confinement
from cnc.service.web.asking import Asking
from cnc.service.web.schema import model

LOG = logging.getLogger(__name__)


def main() -> int:
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
    parser = argparse.ArgumentParser(prog="cnc.service.netconf")
    parser.add_argument("--core", type=Path, required=True)
    parser.add_argument("--listen", type=Path, required=True)
    parser.add_argument("--group", type=int)
    options = parser.parse_args()
    # Before the first session waits for them.
    model()
    exported()
    try:
        listener = listening(options.listen, options.group)
    except OSError as error:
        sys.stderr.write(f"cnc.service.netconf: {options.listen}: {error.strerror}\n")
        return 1
    try:
        confinement.confine()
    except (confinement.Unavailable, OSError) as error:
        LOG.warning("not confined beyond what its user may do: %s", error)
    with listener:
        asyncio.run(_serve(listener, Asking(options.core)))
    return 0


async def _serve(listener: socket.socket, asking: Asking) -> None:
    loop = asyncio.get_running_loop()
    serving = asyncio.create_task(serve(listener, asking))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, serving.cancel)
    await asyncio.gather(serving, return_exceptions=True)
    await asking.close()


if __name__ == "__main__":
    sys.exit(main())
