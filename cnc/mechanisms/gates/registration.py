"""Gate control lists, as the controller registers them."""

from __future__ import annotations

from cnc.mechanism import Registered
from cnc.mechanisms.gates.measured import MEASURED

MECHANISM = Registered(name="gates", measured=MEASURED)
