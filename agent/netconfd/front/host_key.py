"""The server's host key, and the signatures that it may make."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import asyncssh

from agent import whole_file
from agent.netconfd.front.logins import UnsafeFile

# asyncssh would let an RSA key sign with SHA-1 as well.
_SIGNATURES = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)


def load_or_create_host_key(path: Path) -> Any:
    """The server's private key; the first start creates an Ed25519 key that only root can read.

    Raises OSError, UnsafeFile or asyncssh.KeyImportError.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return _create_host_key(path)
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UnsafeFile(
            f"host key {path} has mode {mode:o}, so others may have read it; run chmod 600"
        )
    return asyncssh.read_private_key(str(path))


def key_pairs(path: Path) -> list[Any]:
    """The host key once for each signature it may make.

    In asyncssh a pair remembers the signature that its last client chose, and all connections share
    it: with one pair, a client would get the signature algorithm that another one had chosen.

    Raises as `load_or_create_host_key` does.
    """
    key = load_or_create_host_key(path)
    pairs = []
    for name in map(str.encode, _SIGNATURES):
        if name in key.sig_algorithms:
            (pair,) = asyncssh.load_keypairs([key])
            pair.host_key_algorithms = [name]
            pairs.append(pair)
    if not pairs:
        raise asyncssh.KeyImportError(
            f"host key {path} is {key.get_algorithm()}, expected Ed25519, ECDSA or RSA; "
            "move it away, and the next start creates an Ed25519 key"
        )
    return pairs


def _create_host_key(path: Path) -> Any:
    key = asyncssh.generate_private_key("ssh-ed25519")
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    # The private half last: while it is missing, the next start creates both again.
    key.write_public_key(str(path) + ".pub")
    whole_file.replace(path, key.export_private_key())
    return key
