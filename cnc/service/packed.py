"""Documents of operators, which are longer than a message to the core may be: compressed by gzip,
in base64. Only who may send one has it unpacked, and no more of it than any document has.
"""

from __future__ import annotations

import base64
import gzip
import io

from cnc.service.refused import CallRefused, Code

DOCUMENT_MAX_OCTETS = 8 << 20  # an intent of 10,000 streams has two million
_PACKED_MAX_OCTETS = 750_000  # within a message, in base64 (`channel.REQUEST_MAX_OCTETS`)
_LEVEL = 4


def packed(text: str) -> str:
    """Raises CallRefused (TOO_LARGE) for what is too long even so."""
    octets = gzip.compress(text.encode(), _LEVEL)
    if len(octets) > _PACKED_MAX_OCTETS:
        raise CallRefused(
            Code.TOO_LARGE,
            f"the document has {len(octets):,} octets even compressed, of {_PACKED_MAX_OCTETS:,} "
            "at most",
            hint="run the command on the machine of the service",
        )
    return base64.b64encode(octets).decode()


def unpacked(text: str) -> str:
    """Raises CallRefused (INVALID, TOO_LARGE)."""
    try:
        with gzip.open(io.BytesIO(base64.b64decode(text, validate=True))) as file:
            octets = file.read(DOCUMENT_MAX_OCTETS + 1)
        if len(octets) > DOCUMENT_MAX_OCTETS:
            raise CallRefused(
                Code.TOO_LARGE, f"a document has {DOCUMENT_MAX_OCTETS:,} octets at most"
            )
        return octets.decode()
    except (ValueError, OSError, EOFError) as error:
        raise CallRefused(Code.INVALID, f"a document that is not packed: {error}") from error
