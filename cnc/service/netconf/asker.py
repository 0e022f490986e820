"""Who asks over NETCONF: calls to the core by the name of a token and the SSH key that the server
saw, so that a session ends to be one when its token has another key."""

from __future__ import annotations

from typing import Any

from cnc.service.web.asking import Asking


class Asker:
    """The user of one session."""

    def __init__(self, asking: Asking, name_and_key: str, source: str) -> None:
        """`name_and_key`: as `Access.asker_named` takes it."""
        self._asking, self._name_and_key, self._source = asking, name_and_key, source

    async def call(self, call: str, **arguments: Any) -> Any:
        """The core's answer. Raises CallRefused."""
        given = {name: value for name, value in arguments.items() if value is not None}
        return await self._asking.call(call, given, token=self._name_and_key, source=self._source)
