"""The capabilities that do not depend on the modules installed (RFC 6241, section 8)."""

from __future__ import annotations

BASE_1_0 = "urn:ietf:params:netconf:base:1.0"
BASE_1_1 = "urn:ietf:params:netconf:base:1.1"

# RFC 6243, section 4.1: explicit is what was set, and no more.
BASIC_MODE = "explicit"
OTHER_MODES = ("report-all", "report-all-tagged", "trim")

CAPABILITIES = (
    BASE_1_0,
    BASE_1_1,
    *(
        f"urn:ietf:params:netconf:capability:{name}"
        for name in (
            "candidate:1.0",
            "confirmed-commit:1.1",
            "rollback-on-error:1.0",
            "validate:1.1",
            "startup:1.0",
            "xpath:1.0",
            f"with-defaults:1.0?basic-mode={BASIC_MODE}&also-supported={','.join(OTHER_MODES)}",
            "notification:1.0",
            "interleave:1.0",
            "with-operational-defaults:1.0",
        )
    ),
)
