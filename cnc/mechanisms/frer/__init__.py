"""Frame replication and elimination (IEEE 802.1CB-2017 clause 7)."""
