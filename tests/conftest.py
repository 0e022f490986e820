"""For all tests."""

import signal

# Where a shell starts the tests in the background it is ignored, and by every child of theirs.
signal.signal(signal.SIGINT, signal.default_int_handler)
