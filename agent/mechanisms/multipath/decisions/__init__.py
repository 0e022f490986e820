"""Which paths a connection has, and why: pure functions of what is configured and measured.

The algorithms are those of "NexGen S-MPTCP: Next Generation Smart Multipath TCP Controller" (Singh
et al., IEEE Access 10, 2022). Where its text and its listings disagree, a docstring states the
reading. A value that a machine does not have is None, and decides nothing.
"""
