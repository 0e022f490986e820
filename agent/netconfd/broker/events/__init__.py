"""Notifications: their sources, the log that replays them, and subscriptions (RFC 5277)."""
