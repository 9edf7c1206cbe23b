"""What has to be tried once on a GPU: bounded in time and memory, the most important first, with a table at the end."""

from __future__ import annotations

import faulthandler
import gc
import signal
import sys
import threading
import warnings

import at_hand
import pytest
import torch
from at_hand import DEVICE, REHEARSAL, SECONDS

MEMORY = 16 << 30
"""Bytes of the device that the tests may take."""

ORDER = (
    "statistics",
    "desks",
    "recording",
    "run",
    "capture",
    "births",
    "traces",
    "release",
    "memory",
    "profile",
    "ranks",
)
"""The files of this folder, `test_device_*.py`, by importance: time on a device may end early."""


def pytest_collection_modifyitems(config, items):
    """Put the most important first; without a device leave one test of each file, which says what is not tried."""
    here = [(at, item) for at, item in enumerate(items) if item.get_closest_marker("device")]
    ordered = sorted((item for _, item in here), key=lambda item: ORDER.index(item.path.stem.split("_")[2]))
    for (at, _), item in zip(here, ordered, strict=True):
        items[at] = item
    if DEVICE or not here:
        return
    subjects: dict[str, list[pytest.Item]] = {}
    rest: set[pytest.Item] = set()
    for item in ordered:
        subjects.setdefault(item.get_closest_marker("device").args[0], []).append(item)
    for subject, tests in subjects.items():
        shown = next((item for item in tests if not item.get_closest_marker("skipif")), tests[0])
        shown.add_marker(pytest.mark.skip(reason=f"no CUDA device: NOT TRIED: {subject}, {len(tests)} tests"))
        rest.update(item for item in tests if item is not shown)
    items[:] = [item for item in items if item not in rest]
    config.hook.pytest_deselected(items=list(rest))


@pytest.fixture(scope="session", autouse=True)
def bounded_memory():
    """Take no more of the device than is allowed."""
    if DEVICE.startswith("cuda"):
        whole = torch.cuda.get_device_properties(DEVICE).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, MEMORY / whole))
    yield


@pytest.fixture(autouse=True)
def bounded(request):
    """Begin with an empty device and the same random state, and end a test that takes too long."""

    def too_long(*_):
        raise TimeoutError(f"longer than {SECONDS} s")

    torch.manual_seed(0)
    _emptied()
    timed = threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")
    before = signal.signal(signal.SIGALRM, too_long) if timed else None
    if timed:
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        faulthandler.dump_traceback_later(3 * SECONDS, exit=True, file=sys.__stderr__)
    yield
    if timed:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        faulthandler.cancel_dump_traceback_later()
    _emptied()


@pytest.fixture
def told(record_property):
    """Return a function that puts a figure into the table at the end: `told("3 waits a step")`."""
    return lambda text: record_property("told", text)


@pytest.fixture
def quietly():
    """Warnings of backsight itself fail the test: that something is given up, above all."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*(Triton|backsight|not recorded|nothing more).*")
        yield


def pytest_terminal_summary(terminalreporter):
    """Print one line a test: what came out, how long it took, what it told."""
    found = [
        (outcome, report)
        for outcome in ("passed", "failed", "error", "skipped", "xfailed")
        for report in terminalreporter.stats.get(outcome, ())
        if "tests/device/" in report.nodeid and (report.when == "call" or outcome in ("error", "skipped"))
    ]
    if not DEVICE or not found:
        return
    torch_ = f"PyTorch {torch.__version__}"
    name = "the CPU: a rehearsal" if REHEARSAL else torch.cuda.get_device_name(DEVICE)
    terminalreporter.section(f"on {name}, {torch_}")
    for outcome, report in sorted(found, key=lambda each: each[1].start):
        test = report.nodeid.removeprefix("tests/device/test_device_").replace(".py::test", "")
        notes = "; ".join(text for key, text in report.user_properties if key == "told")
        if outcome == "skipped" and isinstance(report.longrepr, tuple):
            notes = report.longrepr[2].removeprefix("Skipped: ")
        terminalreporter.write_line(f"{outcome:8} {report.duration:5.1f} s  {test}  {notes}".rstrip())


def _emptied():
    sys.last_exc = sys.last_value = sys.last_traceback = None  # frames of a test that failed hold what it made
    gc.collect()
    if at_hand.DEVICE.startswith("cuda"):
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
