"""The command line of `scripts/long`; its usage is at the head of that script."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from tests.runner import repeat, table
from tests.runner.table import CHECKOUT, Long, TableError


def run(job: Long) -> int:
    """Run a job; docs/lab/benchmarks.md gets when, from which commit and with what result."""
    begun, commit = time.monotonic(), repeat.commit()
    environment = {**os.environ, **job.environment}
    status = subprocess.run(job.command, cwd=CHECKOUT, env=environment, check=False).returncode
    took = f"{(time.monotonic() - begun) / 60:.0f} min"
    result = "passed" if status == 0 else f"failed, exit code {status}"
    command = " ".join(
        [*(f"{name}={value}" for name, value in job.environment.items()), *job.command]
    )
    row = (job.name, repeat.today(), commit, f"`{command}`", result, took)
    repeat.append_row(repeat.PAGE, repeat.LONG, row, replace=True)
    return 1 if status else 0


def main(names: list[str]) -> int:
    """Exit code: 0 all passed, 1 one failed, 2 bad arguments."""
    try:
        jobs = table.load().long
    except TableError as error:
        print(f"scripts/long: {error}", file=sys.stderr)
        return 2
    if not names or (unknown := set(names) - jobs.keys()):
        reason = f"no job {', '.join(sorted(unknown))}" if names else "name a job"
        print(f"scripts/long: {reason}; there are {', '.join(jobs)}", file=sys.stderr)
        return 2
    if subprocess.run([CHECKOUT / "scripts/setup"], check=False).returncode != 0:
        return 1
    table.use_environment()
    return max(run(jobs[name]) for name in names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
