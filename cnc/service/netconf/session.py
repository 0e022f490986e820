"""One session of the server: its calls, one after the other."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from socket import socket
from typing import Any
from xml.sax.saxutils import escape

from cnc.service.netconf import edits, messages, modules, reads
from cnc.service.netconf.asker import Asker
from cnc.service.netconf.errors import REFUSED, RpcRefused, error_of
from cnc.service.netconf.messages import OK, Broken, Message
from cnc.service.uni.shown import MODULE
from cnc.service.web.operations import Operations

LOG = logging.getLogger(__name__)

_ROOT, _ACTION = f"{MODULE}:cnc-config", "remove_streams"
_NAMESPACE = f"urn:ieee:std:802.1Q:yang:{MODULE}"
# Of an operation that must have the answer of its backend, and has it at once.
_NOTHING_TO_DO = frozenset({"hold", "close-session"})


_OPERATIONS = Operations(Asker.call)


class Session:
    """Answers one session until its end closes."""

    def __init__(self, asker: Asker, kill: Callable[[int], None]) -> None:
        """`kill` ends the session with a number."""
        self._asker, self._kill = asker, kill

    async def run(self, end: socket) -> None:
        """Answer until the other end is closed."""
        reader, writer = await asyncio.open_unix_connection(sock=end)
        try:
            while (message := await messages.read(reader)) is not None:
                name = message.head.get("call")
                if name in messages.UNANSWERED:
                    continue
                writer.write((await self._answer(name, message)).encoded())
                await writer.drain()
        except Broken as error:
            LOG.warning("a session of the NETCONF server is closed: it sent %s", error)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, name: Any, message: Message) -> Message:
        number = message.head.get("content_id")
        if number is not None and number != modules.content_id():
            return Message({"other-modules": True})
        try:
            return Message(OK, await self._performed(name, message))
        except REFUSED as refused:
            return Message({"errors": [error_of(refused)]})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            # What libyang has printed has all of it: the session's process was taken over.
            raise Broken(f"a call {name!r} that is none") from error

    async def _performed(self, name: Any, message: Message) -> bytes:
        head = message.head
        match name:
            case "capabilities":
                return json.dumps(modules.capabilities()).encode()
            case "modules":
                return modules.exported()
            case "read":
                config_only = head["operation"] == "get-config"
                found = await reads.read(self._asker, head["instances"], config_only=config_only)
                return json.dumps(found).encode()
            case "edit":
                edit = messages.object_of(message.body)
                await edits.apply(self._asker, edit, head["default_operation"])
            case "execute":
                return await self._executed(messages.object_of(message.body))
            case "kill-session":
                await self._killed(head["session_id"])
            case "lock" | "unlock":
                raise RpcRefused(
                    "operation-not-supported",
                    "running is never locked: each edit is done as a whole or not at all, and one "
                    "CUC does not hold up another",
                )
            case _ if name not in _NOTHING_TO_DO:
                raise RpcRefused("operation-not-supported", f"{name} is not supported here")
        return b""

    async def _executed(self, operation: Mapping[str, Any]) -> bytes:
        """The output of an RPC, or of the one action, as XML."""
        ((name, given),) = operation.items()
        if name == _ROOT:
            (domain,) = given["domain"]
            (cuc,) = domain["cuc"]
            keys = domain["domain-id"], cuc["cuc-id"]
            result = await _OPERATIONS.remove(self._asker, *keys, cuc[_ACTION])
        else:
            operation_name = name.removeprefix(f"{MODULE}:")
            result = await _OPERATIONS.perform(self._asker, operation_name, given)
        return f'<result xmlns="{_NAMESPACE}">{escape(result)}</result>'.encode()

    async def _killed(self, number: int) -> None:
        role = (await self._asker.call("who"))["role"]
        if role != "admin":
            raise RpcRefused("access-denied", f"kill-session is not for tokens of the role {role}")
        self._kill(number)
