"""`tsn-netconfd`, killed after so many steps of a commit, as a power cut might end it.

A step is what makes a lasting difference: a file or a directory written to disk, a file renamed or
removed, the running datastore replaced. After 0 steps nothing has been done yet.

Usage: netconfd_that_dies.py commit|confirm|cancel STEPS python -m agent.netconfd OPTION...
"""

from __future__ import annotations

import functools
import os
import signal
import sys

from agent.netconfd.broker.confirmed_commit import Commits
from agent.netconfd.broker.datastore import Datastores
from agent.netconfd.front.server import main


class Fate:
    """Counts the steps of one kind of commit and ends the process after the last allowed one."""

    def __init__(self, kind, steps):
        self._kind = kind
        self._left = steps
        self._begun = False

    def begin(self, kind):
        self._begun = kind == self._kind
        self._strike()

    def step(self):
        if self._begun:
            self._left -= 1
            self._strike()

    def _strike(self):
        if self._begun and not self._left:
            os.kill(os.getpid(), signal.SIGKILL)


def after(function, fate):
    @functools.wraps(function)
    def followed(*args, **kwargs):
        result = function(*args, **kwargs)
        fate.step()
        return result

    return followed


def before_each(fate):
    commit, cancel = Commits.commit, Commits.cancel

    async def fateful_commit(self, session, confirmation, persist_id):
        if confirmation is not None or persist_id is not None:
            fate.begin("confirm" if confirmation is None else "commit")
        await commit(self, session, confirmation, persist_id)

    async def fateful_cancel(self, session, persist_id):
        fate.begin("cancel")
        await cancel(self, session, persist_id)

    Commits.commit, Commits.cancel = fateful_commit, fateful_cancel


if __name__ == "__main__":
    kind, steps = sys.argv[1:3]
    fate = Fate(kind, int(steps))
    before_each(fate)
    for owner, name in (
        (os, "fsync"),
        (os, "replace"),
        (os, "unlink"),
        (Datastores, "copy"),
        (Datastores, "restore"),
    ):
        setattr(owner, name, after(getattr(owner, name), fate))
    # What follows the interpreter and -m, with which the server would have been started.
    sys.argv = sys.argv[5:]
    sys.exit(main())
