"""Documents that take seconds in a network of thousands of streams: each is made by a process of
its own, from the state of the service, so that no decision waits for one.

`python -m cnc.service.aside DIRECTORY page` writes the data of the page, `… diff A B` what differs
between the plans of two rollouts: JSON, compressed by gzip.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import os
import sys
from pathlib import Path
from typing import Any

from cnc.errors import CncError
from cnc.service.calls import DocumentGet
from cnc.service.refused import CallRefused, Code

_LIMIT_S = 120.0
_NICE = 10  # after all that decides
_LEVEL = 4


class Aside:
    """Makes them, one at a time. The data of the page is kept until there is another plan."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._one = asyncio.Lock()
        self._page: tuple[int, dict[str, str]] | None = None

    @staticmethod
    def has(asked: DocumentGet) -> bool:
        """Whether a document is one of these."""
        return asked.name == "page" or (asked.name == "diff" and asked.after is not None)

    async def get(self, asked: DocumentGet, decided: int) -> Any:
        """The document, of the plan with the number of its decision. Raises CallRefused."""
        if asked.name == "diff":
            if asked.number is None:
                raise CallRefused(Code.INVALID, "diff after a rollout needs the number of another")
            async with self._one:
                found = await self._made("diff", str(asked.after), str(asked.number))
            return json.loads(gzip.decompress(found))
        async with self._one:
            if self._page is None or self._page[0] != decided:
                packed = base64.b64encode(await self._made("page")).decode()
                self._page = decided, {"gzip": packed}
            return self._page[1]

    async def _made(self, *what: str) -> bytes:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "cnc.service.aside", str(self._directory), *what),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(_LIMIT_S):
                out, trouble = await process.communicate()
        except TimeoutError:
            raise CallRefused(
                Code.UNAVAILABLE, f"{what[0]}: not made within {_LIMIT_S:g} s"
            ) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            lines = trouble.decode(errors="replace").strip().splitlines() or ["no reason given"]
            raise CallRefused(Code.UNAVAILABLE, f"{what[0]}: {lines[-1]}")
        return out


def _page(directory: Path) -> str:
    from cnc.page.data import page_data  # noqa: PLC0415
    from cnc.service import state  # noqa: PLC0415

    with state.opened(directory) as (store, _):
        # The number first: data that are newer than it says are asked for once more, at worst.
        number, plan = int(store.noted("decided") or 0), store.plan()
    if plan is None:
        raise CncError("there is no plan yet")
    return json.dumps({**page_data(plan), "number": number}, separators=(",", ":"))


def _diff(directory: Path, before: int, after: int) -> str:
    from cnc import app  # noqa: PLC0415
    from cnc.json_output.comparison import Difference  # noqa: PLC0415
    from cnc.json_output.document import dump_json  # noqa: PLC0415
    from cnc.plans.difference import difference  # noqa: PLC0415

    with app.open_history(directory) as history:
        one, other = (history.plan_of(number) for number in (before, after))
    if one is None or other is None:
        raise CncError("one of the rollouts has no plan in the history")
    found = difference(one, other)
    return dump_json(Difference.model_validate(found), indent=None)


def _main(directory: str, what: str, *numbers: str) -> int:
    os.nice(_NICE)
    try:
        path = Path(directory)
        text = _page(path) if what == "page" else _diff(path, *map(int, numbers))
    except CncError as error:
        sys.stderr.write(f"{error}\n".replace("\n", " ") + "\n")
        return 1
    sys.stdout.buffer.write(gzip.compress(text.encode(), _LEVEL))
    return 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
