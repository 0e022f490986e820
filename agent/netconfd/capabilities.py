"""What this server supports of its protocol (RFC 6241, section 8), whatever modules it has."""

from __future__ import annotations

from agent.sysrepo.data import DEFAULTS_MODES

BASE_1_0 = "urn:ietf:params:netconf:base:1.0"
BASE_1_1 = "urn:ietf:params:netconf:base:1.1"

DATASTORES = ("running", "candidate", "startup")
# Without :writable-running, running changes by <commit> alone.
EDITABLE = ("candidate",)
REPLACEABLE = ("candidate", "startup")
DEFAULT_OPERATIONS = ("merge", "replace", "none")
TEST_OPTIONS = ("test-then-set", "set", "test-only")
# Whose changes are seen as they happen. Operational data are read when they are asked for.
WATCHED = ("running", "startup")
# The only stream of notifications (RFC 5277, section 3.2.3).
STREAM = "NETCONF"

# RFC 6243, section 4.1: explicit is what was set, and no more.
BASIC_MODE = "explicit"
_OTHER_MODES = tuple(mode for mode in DEFAULTS_MODES if mode != BASIC_MODE)

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
            f"with-defaults:1.0?basic-mode={BASIC_MODE}&also-supported={','.join(_OTHER_MODES)}",
            "notification:1.0",
            "interleave:1.0",
            "with-operational-defaults:1.0",
        )
    ),
)
