"""A worker of `cnc serve`, which starts it: python -m cnc.service.web --core SOCKET --fd NUMBER
--certificate FILE --key FILE. By hand `--listen ADDRESS:PORT` takes the place of `--fd`.
"""

from __future__ import annotations

import argparse
import logging
import resource
import socket
import sys
from pathlib import Path

from starlette.middleware import Middleware

from cnc.service.certificate import names_of
from cnc.service.web import confinement, page
from cnc.service.web.app import application
from cnc.service.web.asking import Asking
from cnc.service.web.schema import model
from cnc.service.web.server import Server, tls
from cnc.service.web.session import CookieAsToken, Sessions

LOG = logging.getLogger(__name__)

_FILES_MAX = 4096


def main() -> int:
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
    options = _options()
    try:
        context = tls(options.certificate, options.key)
        names = names_of(options.certificate)
        listening = _socket(options)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"cnc.service.web: {error}\n")
        return 1
    _allow_files()
    model()  # before the first request waits for it
    asking, sessions = Asking(options.core), Sessions(options.key.read_bytes())
    try:
        confinement.confine()
    except (confinement.Unavailable, OSError) as error:
        LOG.warning("not confined beyond what its user may do: %s", error)
    app = application(
        asking,
        names,
        pages=page.routes(asking.call, sessions),
        before=[Middleware(CookieAsToken, sessions=sessions)],
    )
    Server(app, listening, context).run()
    return 0


def _socket(options: argparse.Namespace) -> socket.socket:
    if options.fd is not None:
        return socket.socket(fileno=options.fd)
    address, _, port = options.listen.rpartition(":")
    where = socket.getaddrinfo(address.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
    return socket.create_server(where[4][:2], family=where[0])


def _allow_files() -> None:
    """As many descriptors as connections need, where more are allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _FILES_MAX:
        most = _FILES_MAX if hard == resource.RLIM_INFINITY else min(_FILES_MAX, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="cnc.service.web")
    parser.add_argument("--core", type=Path, required=True)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--fd", type=int)
    where.add_argument("--listen", metavar="ADDRESS:PORT")
    parser.add_argument("--certificate", type=Path, required=True)
    parser.add_argument("--key", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
