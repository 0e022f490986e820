"""What the server allows clients: the container `limits` of tsn-netconf-server (docs/SECURITY.md).

Where a number is not the default there, it is about what the web workers allow
(docs/operate/uni.md). The backend itself keeps those of sessions, the server and its
processes the others; those of operations that are not supported are there because they belong to
the message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LIMITS: Mapping[str, Any] = {
    "max-sessions": 256,
    "reserved-sessions": 16,
    "max-sessions-per-user": 16,
    "sessions-memory-share": 50,
    "max-unauthenticated": 128,
    "unauthenticated-drop-start": 100,
    "unauthenticated-drop-rate": 30,
    "source-prefix-ipv4": 24,
    "source-prefix-ipv6": 56,
    "hello-timeout": 10,
    "idle-timeout": 3600,
    "max-message": 65_536,
    "max-messages-held": 16_777_216,
    "max-request-cpu": 10,
    "max-session-memory": 256,
    "max-confirm-timeout": 3600,
    "max-subscriptions-per-session": 16,
    "min-push-period": 100,
    "penalties": {
        "failed-login": 5,
        "no-login": 10,
        "access-refused": 10,
        "session-failure": 30,
        "min-penalty": 15,
        "max-penalty": 600,
        "max-hosts": 4096,
        "exempt": ["127.0.0.1/32", "::1/128"],
    },
}
