"""What tests of labs with a kernel for each node have in common."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator

import pytest

PR_SET_CHILD_SUBREAPER = 36  # include/uapi/linux/prctl.h


@pytest.fixture(scope="session", autouse=True)
def kernels_count_for_their_lane() -> Iterator[None]:
    """Kernels outlive the command that starts them: adopted and waited for here, what they took is
    in the CPU time of the lane."""
    assert ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
