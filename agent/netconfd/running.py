"""A part of the running configuration that the server itself obeys."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import sysrepo

log = logging.getLogger(__name__)


def follow(
    session: sysrepo.SysrepoSession, xpath: str, use: Callable[[dict[str, Any]], None]
) -> None:
    """Hand the container at `xpath` to `use`, now and after each change, until the session stops.

    The container comes as RFC 7951 JSON, defaults and all. Later calls come from sysrepo's thread,
    soon after the commit that made the change. Raises SysrepoError.
    """
    module = xpath.lstrip("/").partition(":")[0]

    def read(reader: Any) -> None:
        with reader.get_data_ly(xpath) as data:
            text = data.print_mem("json", with_siblings=True, include_implicit_defaults=True)
        use(json.loads(text)[xpath.lstrip("/")])

    def changed(reader: Any, event: str, _request_id: int, _private: Any) -> None:
        try:
            read(reader)
        except Exception:
            # The library would not say it; what was in force stays in force.
            log.exception("cannot take over the new %s (%s)", xpath, event)

    session.subscribe_module_change_unsafe(module, xpath, changed, done_only=True)
    read(session)
