"""Stream identification and translation (IEEE 802.1CB-2017 clause 6, 802.1CBcv-2021)."""
