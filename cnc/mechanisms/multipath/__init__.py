"""Multipath TCP at end stations (RFC 8684): by which ports connections go, and what for."""
