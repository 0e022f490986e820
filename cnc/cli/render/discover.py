"""What `cnc discover` prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cnc.cli.render.output import print_json
from cnc.cli.terminal import echo

if TYPE_CHECKING:
    from cnc.discover import Draft


def discovered(draft: Draft, text: str, output: Path | None, *, as_json: bool) -> None:
    """The draft itself, whose `text` is YAML; or what is in the file it was written to."""
    if as_json:
        from cnc.discover import as_data  # noqa: PLC0415

        print_json(as_data(draft))
        return
    if output is None:
        echo(text, nl=False)
        return
    parts = (
        ("switches", draft.switches),
        ("end stations", draft.end_stations),
        ("links", draft.links),
    )
    echo(f"wrote {output}: " + ", ".join(f"{what} {len(found)}" for what, found in parts))
    for remark in draft.remarks:
        echo(f"  {remark}")
    echo(f"Read the comments, add streams, then: cnc plan {output}")
