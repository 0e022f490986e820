"""`python -m agent.netconfd`."""

import sys

from agent.netconfd.server import main

sys.exit(main())
