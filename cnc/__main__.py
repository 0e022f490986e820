"""The command `cnc`, and `python -m cnc`."""

import sys


def main() -> None:
    """Run `cnc`; an installation without dependencies has not brought what it needs."""
    try:
        from cnc.cli import main as command_line  # noqa: PLC0415
    except ModuleNotFoundError as error:
        sys.exit(f"cnc: no Python package {error.name}; pip install tsn-control-plane")
    command_line()


if __name__ == "__main__":
    main()
