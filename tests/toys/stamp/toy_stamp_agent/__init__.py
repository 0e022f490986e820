"""A stamp: a last line in the file that another mechanism keeps of each bridge."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from toy_label_agent import Part, mechanism

YANG = Path(__file__).with_name("toy-stamp.yang")
NODE = "toy-stamp:stamp"


@dataclass(frozen=True, slots=True)
class Stamp(Part):
    """One line, or none."""


MECHANISM = mechanism(
    "stamp",
    Stamp,
    1,
    lambda component: (component[NODE],) if NODE in component else (),
    lambda lines: {NODE: lines[0]} if lines else {},
)
