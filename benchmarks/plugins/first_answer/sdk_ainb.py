"""The same with the SDK, whose folder is the argument."""

import sys

sys.path.insert(0, sys.argv[1])

from plughost_sdk import ainb

ainb.Plugin().run()
