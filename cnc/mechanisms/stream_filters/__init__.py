"""Per-stream filtering and policing (IEEE 802.1Q-2022 8.6.5.2)."""
