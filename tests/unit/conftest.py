"""For the unit tests."""

from __future__ import annotations

import hypothesis

# No test depends on how busy the machine is, and hypothesis allows an example 200 ms by default.
hypothesis.settings.register_profile("busy", deadline=None)
hypothesis.settings.load_profile("busy")
