"""Gate control lists (IEEE 802.1Q-2022 8.6.8.4), and how late gates open."""
