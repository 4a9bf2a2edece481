"""Settings of the whole test run. No heavy imports: one test file alone starts at once."""

from __future__ import annotations

import os

# The tests are about values, not speed; two spinning thread pools on few cores slow them down.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
