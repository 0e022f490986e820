"""One client's session: framing, messages, and the operations that a client asks for."""
