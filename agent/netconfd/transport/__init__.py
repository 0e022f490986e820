"""SSH, its logins and host keys, and the framing of NETCONF messages (RFC 6242)."""
