"""The private keys that an operator logs in with: that of a file, or those of an ssh-agent.

As OpenSSH does it, an agent (ssh-agent(1), found by SSH_AUTH_SOCK) signs where the file alone
cannot: its key is encrypted, the file is the public half, or it is not there.
"""

from __future__ import annotations

from pathlib import Path

import paramiko
from paramiko.pkey import PublicBlob

from cnc.support import whole_file

_PUBLIC = ".pub"


class IdentityError(Exception):
    """There is no key to log in with; `hint` says what to do."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.hint = hint


def login_keys(identity: Path) -> list[paramiko.PKey]:
    """The keys to try, in this order; at least one. Raises IdentityError."""
    try:
        whole_file.refuse_special(identity)
        return [paramiko.PKey.from_path(str(identity))]
    except OSError as error:
        reason = f"cannot read the key {identity}: {error.strerror}"
        hint = "--identity names the private key that the switches accept"
        public = None
    # What paramiko and cryptography raise where a passphrase is missing.
    except (TypeError, paramiko.PasswordRequiredException):
        reason = f"the key {identity} is encrypted, and no ssh-agent has it"
        hint = f"ssh-add {identity}"
        public = _public_part(identity.with_name(identity.name + _PUBLIC))
    except Exception as error:
        public = _public_part(identity)
        if public is None:
            reason = f"{identity} holds no private key that can be read: {error}"
            raise IdentityError(reason, "make one: ssh-keygen -t ed25519") from error
        reason = f"{identity} is a public key, and no ssh-agent has its private half"
        hint = f"--identity names the private key, perhaps {str(identity).removesuffix(_PUBLIC)}"
    held = [key for key in _agent_keys() if public in {None, key.asbytes()}]
    if not held:
        raise IdentityError(reason, hint)
    return held


def _public_part(file: Path) -> bytes | None:
    """What a file with a public key holds; None where there is none."""
    try:
        blob: bytes = PublicBlob.from_string(file.read_text(encoding="utf-8")).key_blob
    except (OSError, ValueError):
        return None
    return blob


def _agent_keys() -> list[paramiko.PKey]:
    """Those of an agent; none where none answers."""
    try:
        return list(paramiko.Agent().get_keys())
    except (OSError, paramiko.SSHException):
        return []
