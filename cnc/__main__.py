"""The command `cnc`, and `python -m cnc`."""

import sys

from cnc.errors import CncError


def main() -> None:
    """Run `cnc`; an installation without dependencies has not brought what it needs, and
    a mechanism of another package may be broken."""
    try:
        from cnc.cli import main as command_line  # noqa: PLC0415
    except ModuleNotFoundError as error:
        sys.exit(f"cnc: no Python package {error.name}; pip install tsn-control-plane")
    except CncError as error:
        sys.exit(f"cnc: {error}; {error.hint}")
    command_line()


if __name__ == "__main__":
    main()
