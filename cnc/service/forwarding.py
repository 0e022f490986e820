"""Changes that a standby is asked for go to the controller that leads, as they came.

The core sends them: workers have no network. It trusts the one certificate that the lease names,
and says by `Via` (RFC 9110 7.6.3) that it has forwarded: who gets that forwards no further.
"""

from __future__ import annotations

import http.client
import ssl
from typing import Any
from urllib.parse import urlsplit

from cnc.service.calls import VIA, Forward
from cnc.service.lease.member import Lease
from cnc.service.refused import CallRefused, Code

# What of an answer is more than its body.
_HEADERS = (
    *("Allow", "Content-Type", "ETag", "Location", "Retry-After", "WWW-Authenticate"),
    "Accept-Patch",
)
_TIMEOUT_S = 30.0
_ANSWER_MAX_OCTETS = 1 << 20


def forwarded(its: Forward, leader: Lease, token: str) -> dict[str, Any]:
    """What the leader answers: `status`, `headers`, `body`. Raises CallRefused (UNAVAILABLE)."""
    where = urlsplit(leader.url)
    connection = http.client.HTTPSConnection(
        where.hostname or "", where.port, context=_trusting(leader), timeout=_TIMEOUT_S
    )
    own = {"authorization": f"Bearer {token}", "via": VIA}
    headers = {**{str(name): text for name, text in its.headers.items()}, **own}
    try:
        connection.request(its.method, its.path, its.body.encode(), headers)
        answer = connection.getresponse()
        octets = answer.read(_ANSWER_MAX_OCTETS + 1)
        if len(octets) > _ANSWER_MAX_OCTETS:
            raise ValueError(f"it answers with more than {_ANSWER_MAX_OCTETS} octets")
        body = octets.decode()
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise CallRefused(
            Code.UNAVAILABLE,
            f"{leader.url}, which leads the network, gives no answer: "
            f"{error or type(error).__name__}",
            hint="it may have done what was asked: ask again with the same Idempotency-Key",
            details={"retry_after_s": 1},
        ) from error
    finally:
        connection.close()
    kept = {name: value for name in _HEADERS if (value := answer.headers.get(name)) is not None}
    return {"status": answer.status, "headers": kept, "body": body}


def _trusting(leader: Lease) -> ssl.SSLContext:
    """TLS with whoever has the key of this certificate, which also one of a CA may have made."""
    context = ssl.create_default_context(cadata=leader.certificate)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context
