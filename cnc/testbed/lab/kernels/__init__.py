"""Labs in which each node is a kernel of its own, all of them in one virtual time."""
