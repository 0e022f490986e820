"""Pictures of a plan: `text` for a terminal, `svg` for a browser."""

from __future__ import annotations

from cnc.chart.drawing import View, svg
from cnc.chart.terminal import text

__all__ = ["View", "svg", "text"]
