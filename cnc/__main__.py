"""`python -m cnc` is `cnc`."""

from cnc.cli import main

main()
