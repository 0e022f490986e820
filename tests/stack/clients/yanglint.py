"""yanglint: judges what a server returns by nothing but what the server says of its modules."""

from __future__ import annotations

import subprocess
from pathlib import Path

from lxml import etree

from tests.stack.clients.client import Client

YANG_LIBRARY = "urn:ietf:params:xml:ns:yang:ietf-yang-library"


class Yanglint:
    """The modules that a server lists in its YANG library (RFC 8525) and gives by get-schema."""

    def __init__(self, client: Client, directory: Path) -> None:
        self._directory = directory
        self._library = directory / "yang-library.xml"
        # yanglint wants the list of RFC 7895 beside it.
        reply = client.get(
            f'<yang-library xmlns="{YANG_LIBRARY}"/><modules-state xmlns="{YANG_LIBRARY}"/>'
        )
        self._library.write_bytes(_children(reply))
        library = next(reply.iter(f"{{{YANG_LIBRARY}}}yang-library"))
        self.names = sorted(
            {
                module.findtext(f"{{{YANG_LIBRARY}}}name")
                for kind in ("module", "import-only-module")
                for module in library.iter(f"{{{YANG_LIBRARY}}}{kind}")
            }
        )
        for name in self.names:
            (directory / f"{name}.yang").write_text(client.get_schema(name), encoding="utf-8")

    def complaints(self, kind: str, reply: etree._Element) -> str:
        """What yanglint has against the data of a reply, "" for nothing; `kind` as for its -t."""
        data = self._directory / f"{kind}.xml"
        data.write_bytes(_children(reply))
        return self._run("-Y", self._library, "-t", kind, data)

    def complaints_about_modules(self) -> str:
        """What yanglint has against the modules themselves."""
        return self._run(*(self._directory / f"{name}.yang" for name in self.names))

    def _run(self, *arguments: object) -> str:
        run = subprocess.run(
            ["yanglint", "-D", "-p", self._directory, *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        return run.stderr if run.returncode else ""


def _children(reply: etree._Element) -> bytes:
    """What is below <data>."""
    return b"".join(etree.tostring(node) for node in next(reply.iter("{*}data")))
