"""Send the streams of a file on the controller of a lab of kernels, for a trace:
`python -m cnc.testbed.cli.trace_on_controller FILE DURATION_NS STATE_DIR FLOW [TCP_FLOW...]`.

$TSN_OUT is the directory for what was recorded, or for why nothing was sent.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path

from cnc import app
from cnc.errors import CncError
from cnc.testbed.app.tracing import REFUSED, Sending, ready
from cnc.testbed.cli.sending import plan_to_send, say
from cnc.testbed.lab.platform import Platform
from cnc.testbed.traffic.trace import record


def main() -> int:
    file, duration_ns, state_dir, flow, *tcp = sys.argv[1:]
    directory = Path(os.environ["TSN_OUT"])
    try:
        document = app.load(Path(file))
        plan_for = partial(plan_to_send, document=document, state_dir=Path(state_dir))
        sending = Sending(
            *(Path(file), document, int(duration_ns), Path(state_dir), flow, plan_for, say), tcp=tcp
        )
        record.send(*ready(sending), sending.duration_ns, directory)
    except CncError as error:
        refused = {"message": str(error), "hint": error.hint}
        (directory / REFUSED).write_text(json.dumps(refused))
        return error.exit_code
    Platform.here().write(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
