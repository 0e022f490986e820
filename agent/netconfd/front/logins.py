"""Authentication: keys from files and from the configuration, passwords from PAM."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import re
import stat
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from agent.netconfd.front.authorized_keys import AuthorizedKeys, accepted_lines

LOG = logging.getLogger(__name__)

# A user name may become a file name, and goes into logs.
_USER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", re.ASCII)
# As in sshd_config's AuthorizedKeysFile.
USER_TOKEN = "%u"  # noqa: S105

# Password guessing: few attempts at once, and each takes time.
MAX_PASSWORD_CHECKS = 4
WRONG_PASSWORD_DELAY_S = 2.0
MAX_KEY_FILE_OCTETS = 65_536


class NoPam(Exception):
    """Password logins are enabled, but PAM is not available."""


class UnsafeFile(Exception):
    """Other users may have written the file, or may read the secret in it."""


class Pam:
    """Checks passwords with one PAM service. Raises NoPam."""

    def __init__(self, service: str) -> None:
        try:
            self._pam: Any = importlib.import_module("pam")
        except ImportError as error:
            raise NoPam(
                f"--pam needs the Python package python-pam (the extra `pam`): {error}"
            ) from None
        self._service = service
        self._checks = asyncio.Semaphore(MAX_PASSWORD_CHECKS)

    async def admits(self, user: str, password: str) -> bool:
        """Whether this is the user's password; a wrong one is answered after a delay."""
        async with self._checks:
            admitted = await asyncio.to_thread(self._check, user, password)
            if not admitted:
                await asyncio.sleep(WRONG_PASSWORD_DELAY_S)
        return admitted

    def _check(self, user: str, password: str) -> bool:
        authenticator = self._pam.PamAuthenticator()
        admitted = authenticator.authenticate(user, password, service=self._service)
        if not admitted:
            LOG.warning(
                "PAM service %s does not admit %s: %s", self._service, user, authenticator.reason
            )
        return bool(admitted)


class Logins:
    """The credentials of users, looked up at each login."""

    def __init__(
        self, key_files: str, configured_keys: Callable[[str], Awaitable[str]], pam: Pam | None
    ) -> None:
        """`key_files`: one path, or one a user if it has the token %u."""
        self._key_files = key_files
        self._configured_keys = configured_keys
        self.pam = pam

    async def keys_of(self, user: str) -> AuthorizedKeys | None:
        """The keys of this user; None if there are none."""
        if not is_user_name(user):
            return None
        text = await asyncio.to_thread(self._file_of, user) + await self._configured_keys(user)
        try:
            return AuthorizedKeys(text)
        except ValueError:
            # No line in it is a key.
            return None

    def _file_of(self, user: str) -> str:
        path = Path(self._key_files.replace(USER_TOKEN, user))
        try:
            return "".join(accepted_lines(read_trusted(path), path, time.time()))
        except FileNotFoundError:
            return ""
        except (OSError, UnsafeFile) as error:
            LOG.warning("no key for %s from %s: %s", user, path, error)
            return ""


def is_user_name(name: str) -> bool:
    """Whether this can name a user here: neither a path nor a control character."""
    return _USER_NAME.fullmatch(name) is not None


def read_trusted(path: Path) -> str:
    """A small text file that only root or this user can have written.

    What sshd asks of it under StrictModes: no other may write the file or a directory above it,
    nor, beyond that, where a link to it lies. Raises OSError or UnsafeFile.
    """
    named = Path(os.path.realpath(path.parent, strict=True))
    _refuse_others_changing(named)
    real = Path(os.path.realpath(path, strict=True))
    _refuse_others_changing(real.parent)
    descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnsafeFile(f"{path} is not a regular file")
        _refuse_others_writing(real, status)
        content = file.read(MAX_KEY_FILE_OCTETS + 1)
    if len(content) > MAX_KEY_FILE_OCTETS:
        raise UnsafeFile(f"{path} is longer than {MAX_KEY_FILE_OCTETS} octets")
    return content.decode(errors="replace")


def _refuse_others_changing(directory: Path) -> None:
    """Raise UnsafeFile if other users may replace its entries."""
    _refuse_others_writing(directory, directory.stat())
    for above in directory.parents:
        _refuse_others_writing(above, above.stat(), except_sticky=True)


def _refuse_others_writing(
    path: Path, status: os.stat_result, *, except_sticky: bool = False
) -> None:
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid not in {0, os.geteuid()}:
        raise UnsafeFile(f"{path} is owned by uid {status.st_uid}; chown it to root")
    # In a directory like /tmp, the entry of another can be neither renamed nor removed.
    if except_sticky and mode & stat.S_ISVTX:
        return
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UnsafeFile(f"{path} has mode {mode:o}, so others may write it; run chmod go-w")
