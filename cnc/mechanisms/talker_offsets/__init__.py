"""When talkers send, and how late they are."""
