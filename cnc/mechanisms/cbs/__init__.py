"""The credit-based shaper (IEEE 802.1Q-2022 8.6.8.2) and strict priority (8.6.8.1), as the
controller plans them."""
