"""What clients read and write: sysrepo's datastores, access control, filters and errors."""
