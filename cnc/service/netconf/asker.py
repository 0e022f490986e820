"""Who asks over NETCONF: calls to the core by the name of a token, whose SSH key the server saw."""

from __future__ import annotations

from typing import Any

from cnc.service.web.asking import Asking


class Asker:
    """The user of one session."""

    def __init__(self, asking: Asking, name: str, source: str) -> None:
        self._asking, self._name, self._source = asking, name, source

    async def call(self, call: str, **arguments: Any) -> Any:
        """The core's answer. Raises CallRefused."""
        given = {name: value for name, value in arguments.items() if value is not None}
        return await self._asking.call(call, given, token=self._name, source=self._source)
