"""What `cnc lab` prints: text for people, JSON for programs; a module a command."""
