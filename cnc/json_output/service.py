"""What `cnc token` prints of the tokens of a service."""

from __future__ import annotations

from typing import Literal

from cnc.json_output.document import Document


class Token(Document):
    """`cnc token list` prints a list of them, `cnc token key` the one."""

    name: str
    """By which the audit log knows who asked."""
    role: Literal["viewer", "cuc", "operator", "admin"]
    cuc: str | None
    """Whose streams, of the role cuc; else null."""
    created: str
    """Times are ISO 8601 with an offset from UTC."""
    expires: str
    revoked: str | None
    """null: it is good until it expires."""
    ssh_key: str | None
    """Fingerprint of the key that logs in over NETCONF, as `ssh-keygen -l` prints it."""


class NewToken(Token):
    """`cnc token add` and `cnc token rotate`."""

    token: str
    """Told this once: the service keeps a digest of it."""
