"""The limits for clients, as the module tsn-netconf-server configures them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The limits for clients. `idle_timeout_s` 0 means no limit."""

    max_sessions: int
    max_sessions_per_user: int
    max_unauthenticated: int
    hello_timeout_s: int
    idle_timeout_s: int
    max_message_octets: int
    max_held_octets: int


@dataclass(frozen=True)
class Client:
    """A client to call (RFC 8071)."""

    address: str
    port: int
