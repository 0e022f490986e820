"""-v and -vv: what `cnc` does, on the error stream."""

from __future__ import annotations

import click

from cnc.support.format import printable


def is_verbose() -> bool:
    """Whether -v asks for everything."""
    import logging  # noqa: PLC0415

    return logging.getLogger("cnc").isEnabledFor(logging.INFO)


def listen(context: click.Context, _option: click.Parameter, count: int) -> None:
    """1: each request to a switch and what it took; 2: the messages as well.

    Our own rooms log here, and only them: what SSH libraries log of logins stays unsaid.
    """
    if count and not context.resilient_parsing:
        import logging  # noqa: PLC0415

        class Printable(logging.Formatter):
            """Messages are a switch's own words as well."""

            def format(self, record: logging.LogRecord) -> str:
                return printable(super().format(record))

        logger = logging.getLogger("cnc")
        level = logging.INFO if count == 1 else logging.DEBUG
        if not logger.handlers:
            handler = logging.StreamHandler()
            handler.setFormatter(
                Printable("%(asctime)s.%(msecs)03d %(message)s", datefmt="%H:%M:%S")
            )
            logger.addHandler(handler)
            logger.propagate = False
            logger.setLevel(level)
        logger.setLevel(min(level, logger.level))  # -v may stand before and behind the command
