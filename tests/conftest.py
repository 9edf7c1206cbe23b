"""One thread for each test process, and for those that it starts: the processes already share the cores."""

import os

import hypothesis

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

hypothesis.settings.register_profile("no deadline", deadline=None)  # no test asserts on time
hypothesis.settings.load_profile("no deadline")
