"""The kernel of one network namespace: what belongs to no mechanism alone."""
