"""One thread for each test process, and for those that it starts: the processes already share the cores."""

import os

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
