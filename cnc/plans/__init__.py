"""Plans as files, what follows from one, and what differs between two."""
