"""What `scripts/test` does: lanes of tests from one table, run side by side and accounted for."""
