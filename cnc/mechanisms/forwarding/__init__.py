"""Static filtering entries and VLANs of bridged streams (IEEE 802.1Q-2022 8.8)."""
