"""What holds sysrepo: datastores, locks, commits, access control, state and events."""
