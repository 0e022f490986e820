"""Operational data for sysrepo, given as JSON text that libyang parses.

The bindings' own subscription takes dictionaries and makes each leaf by calls from Python into C;
libyang's parser takes a third of the time, most of it without the interpreter's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from _sysrepo import ffi, lib
from sysrepo.errors import check_call
from sysrepo.session import SysrepoSession
from sysrepo.util import c2str, str2c

LOG = logging.getLogger(__name__)


@contextmanager
def provide(
    session: Any, module: str, xpath: str, answer: Callable[[str | None], str], *, merge: bool
) -> Iterator[None]:
    """Answer requests for the top-level container `xpath` until the context ends.

    Calls `sr_oper_get_subscribe`, and `sr_unsubscribe` at the end. `answer` gets the XPath of the
    request and returns RFC 7951 JSON; "" for nothing. sysrepo frees the tree made of it. What
    `answer` raises reaches the client. `merge` keeps what the datastore has at `xpath` beside it.
    """

    def on_request(
        of: Any, _id: int, _module: Any, _path: Any, request: Any, _request_id: int, to: Any, _: Any
    ) -> int:
        # Nothing may be raised into C.
        asking = SysrepoSession(of, implicit=True)
        try:
            if text := answer(c2str(request)):
                with asking.get_ly_ctx() as context:
                    data = context.parse_data_mem(text, "json", parse_only=True, strict=True)
                    to[0] = ffi.cast("struct lyd_node *", data.cdata)
        except Exception as error:
            LOG.exception("no operational data at %s", xpath)
            asking.set_error(error)
            return int(lib.SR_ERR_CALLBACK_FAILED)
        return int(lib.SR_ERR_OK)

    # Both must live as long as sysrepo may call.
    callback = ffi.callback(
        ffi.typeof(lib.srpy_oper_data_cb), on_request, error=lib.SR_ERR_CALLBACK_FAILED
    )
    subscription = ffi.new("sr_subscription_ctx_t **")
    check_call(
        lib.sr_oper_get_subscribe,
        session.cdata,
        str2c(module),
        str2c(xpath),
        callback,
        ffi.NULL,
        lib.SR_SUBSCR_OPER_MERGE if merge else 0,
        subscription,
    )
    try:
        yield
    finally:
        lib.sr_unsubscribe(subscription[0])
