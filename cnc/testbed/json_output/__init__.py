"""What `cnc lab` prints with --json, as `cnc.json_output` has it of the other commands."""
