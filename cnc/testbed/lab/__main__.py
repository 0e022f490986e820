"""`python -m cnc.testbed.lab INTENT`: build the sysrepo template of a lab's switches in the cache.

A guest of scripts/vm uses this machine's cache: a template built here, on a processor that is not
emulated, saves the guest the work. `scripts/demo` runs this before it boots one.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cnc import intent as intents
from cnc.errors import CncError
from cnc.testbed.lab.template import prepare

if __name__ == "__main__":
    try:
        prepare(intents.load(Path(sys.argv[1])))
    except CncError as error:
        sys.stderr.write(f"cnc: {error}\n")
        sys.exit(error.exit_code)
