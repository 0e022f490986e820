"""For all tests."""

import os
import signal

import pytest

from tests.runner import table

# Where a shell starts the tests in the background it is ignored, and by every child of theirs.
signal.signal(signal.SIGINT, signal.default_int_handler)
# The width of output does not depend on the terminal that the tests run in.
os.environ.pop("COLUMNS", None)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that tests/lanes.toml calls timing, and keep those of the lane that runs."""
    try:
        lanes = table.load()
    except table.TableError as error:
        raise pytest.UsageError(str(error)) from error
    for item in items:
        if lanes.is_timing(item.nodeid):
            item.add_marker(pytest.mark.timing)
    if lane := os.environ.get("TSN_TEST_LANE"):
        selected = [
            item
            for item in items
            if lanes.select(lane, item.nodeid, (marker.name for marker in item.iter_markers()))
        ]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(selected)])
        items[:] = selected
