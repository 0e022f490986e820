"""The channel of a worker to the core, found again when it was lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from cnc.service.channel import Channel, connected
from cnc.service.refused import CallRefused, Code

# Told of each token that the core has looked at, in the context of a request.
token_was_good: ContextVar[Callable[..., None]] = ContextVar(
    "token_was_good", default=lambda **_: None
)

# By which the channel refuses what the core has not seen.
_BEFORE_THE_CORE = frozenset({Code.UNAVAILABLE, Code.TOO_LARGE})

PAUSE_S = 15.0  # after this something is sent, so that a client that has gone is found


async def with_pauses(items: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
    """The items as they come, and None after each PAUSE_S in which none does."""
    coming = asyncio.ensure_future(anext(items, None))
    try:
        while True:
            done, _ = await asyncio.wait({coming}, timeout=PAUSE_S)
            if not done:
                yield None
                continue
            item = coming.result()
            if item is None:
                return
            yield item
            coming = asyncio.ensure_future(anext(items, None))
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
        await items.aclose()


class Elsewhere(Exception):
    """Another controller leads the network, and this call is for it."""

    def __init__(self, refused: CallRefused) -> None:
        super().__init__(str(refused))
        self.refused = refused


class Asking:
    """Calls to the core that listens on a socket, over one connection for all requests."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._channel: Channel | None = None
        self._held = AsyncExitStack()
        self._connecting = asyncio.Lock()

    async def call(
        self, call: str, arguments: Mapping[str, Any] | None = None, *, token: str, source: str
    ) -> Any:
        """The result. Raises CallRefused, and Elsewhere."""
        channel = await self._found()
        try:
            found = await channel.call(call, arguments, token=token, source=source)
        except CallRefused as refused:
            if "elsewhere" in refused.details:
                raise Elsewhere(refused) from refused
            if refused.code not in _BEFORE_THE_CORE:
                token_was_good.get()(is_good=refused.code is not Code.UNAUTHENTICATED)
            raise
        token_was_good.get()(is_good=True)
        return found

    async def follow(
        self, call: str, arguments: Mapping[str, Any] | None = None, *, token: str, source: str
    ) -> AsyncGenerator[Any, None]:
        """What comes. Raises CallRefused."""
        channel = await self._found()
        async for item in channel.follow(call, arguments, token=token, source=source):
            yield item

    async def close(self) -> None:
        await self._held.aclose()

    async def _found(self) -> Channel:
        async with self._connecting:
            if self._channel is None or self._channel.is_lost:
                await self._held.aclose()
                self._channel = await self._held.enter_async_context(connected(self._path))
            return self._channel
