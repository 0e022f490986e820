"""Cyclic queuing and forwarding (IEEE 802.1Q-2022 annex T), as the controller plans it."""
