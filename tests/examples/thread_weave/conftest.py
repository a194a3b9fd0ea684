from __future__ import annotations

import sys

from tests.support import ROOT

sys.path.append(str(ROOT / "plugins/thread-weave/lib"))
