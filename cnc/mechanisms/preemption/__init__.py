"""Frames of best effort that give way to all others (IEEE 802.1Q-2022 6.7.2)."""
