"""`python -m agent.netconfd.broker`."""

import sys

from agent.netconfd.broker.service import main

sys.exit(main())
