"""`python -m agent.netconfd`."""

import sys

from agent.netconfd.front.server import main

sys.exit(main())
