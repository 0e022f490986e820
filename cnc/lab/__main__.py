"""`python -m cnc.lab INTENT`: make what the switches of a lab start from, and keep it in the cache.

A guest of scripts/vm sees this machine's cache: what is made here, on a processor that is not
emulated, the guest need not make. `scripts/demo` runs this before it boots one.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cnc import intent as intents
from cnc.errors import CncError
from cnc.lab.template import prepare

if __name__ == "__main__":
    try:
        prepare(intents.load(Path(sys.argv[1])))
    except CncError as error:
        sys.stderr.write(f"cnc: {error}\n")
        sys.exit(error.exit_code)
