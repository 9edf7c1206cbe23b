"""One thread for each test process, and for those that it starts; and a browser for those that look at pages."""

import atexit
import functools
import gc
import os
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import aside
import hypothesis
import pytest
from sharded import left_out
from shared_pages import Pages, complaining

from backsight.tables import doctor

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # the processes already share the cores

# Hundreds of processes import torch: each would compile it anew where bytecode may not be kept. Those that keep theirs
# are as a user's, whose output is buffered too.
for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"):
    os.environ.pop(name, None)
sys.dont_write_bytecode = False

gc.disable()  # until all tests are collected: a collection looks at all modules so far, and there is nothing to free

hypothesis.settings.register_profile("no deadline", deadline=None)  # no test asserts on time
hypothesis.settings.load_profile("no deadline")

# What `backsight run` says of a PyTorch once a day is no part of what tests compare.
cache = Path(tempfile.mkdtemp(prefix="backsight-cache-"))
atexit.register(shutil.rmtree, cache, ignore_errors=True)
(cache / "backsight").write_text("a file, so that no folder can be made here, and nothing is said")
os.environ["XDG_CACHE_HOME"] = str(cache)


@functools.cache
def lost():
    """The features that this PyTorch lacks, each with why, as `backsight doctor` tells them."""
    return {part.name: part.why for part in doctor._features() if part.state == "lost"}


def skip_where_it_is_lost(item):
    """Skip a test that needs some features, or with none named all of them, of a PyTorch that lacks one."""
    for marker in item.iter_markers("needs"):
        lacking = [feature for feature in marker.args or lost() if feature in lost()]
        if lacking:
            pytest.skip(f"PyTorch {version('torch')} lacks {', '.join(lacking)}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    out = {*left_out(config, items)}
    config.hook.pytest_deselected(items=[*out])
    items[:] = [each for each in items if each not in out]


of_tests, libraries = aside.OfTests(), aside.Libraries()


def pytest_collection_finish(session):
    """Keep what was collected out of sight of the collector, and of searches for names, which look into all modules.

    With twelve thousand tests in the process each of those would take half a second.
    """
    of_tests.set_aside()
    libraries.set_aside()
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if sys.modules.get(item.module.__name__) is not item.module:
        libraries.bring_back(of_tests.bring_back(item.module))
    skip_where_it_is_lost(item)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    if nextitem is None or nextitem.module is not item.module:
        # What a file of tests leaves behind, caches above all, is out of sight of those that follow: a search for names
        # looks into all objects, and among those of hours it would take seconds.
        of_tests.set_aside()
        libraries.set_aside()
        gc.collect()
        leave_no_hook_of_all_modules()
        gc.freeze()


def leave_no_hook_of_all_modules():
    """Remove what a release that nobody detached leaves until its next call; compilers guard these tables."""
    torch = sys.modules.get("torch")
    for name, table in vars(torch.nn.modules.module).items() if torch is not None else ():
        if name.startswith("_global_") and isinstance(table, dict):
            table.clear()


_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = ("--no-sandbox", "--in-process-gpu")  # what is drawn needs no process of its own


@pytest.fixture(scope="module")
def browser():
    """Chromium. It runs for one file of tests at a time: meanwhile no other event loop can run in this thread."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="PAGES ARE NOT TESTED: pip install playwright")
    with sync_api.sync_playwright() as playwright:
        program = next(filter(None, map(shutil.which, _CHROMIUM)), None)
        if program is None and not Path(playwright.chromium.executable_path).exists():
            pytest.skip("PAGES ARE NOT TESTED: apt install chromium, or playwright install chromium")
        chromium = playwright.chromium.launch(executable_path=program, args=list(_ARGUMENTS))
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def kept_pages(browser):
    kept = Pages(browser)
    yield kept
    kept.close()


@pytest.fixture
def pages(kept_pages):
    """The pages of the browser, of which those that a test opens are its own until its end."""
    yield kept_pages
    kept_pages.put_back()


@pytest.fixture
def visit(pages, tmp_path):
    """Return a function that opens a page as a reader does, in a window of 1280 by 800.

    ```python
    page = visit(html, color_scheme="dark")
    page.get_by_role("button", name="fit").click()
    ```

    At the end of the test no page may have complained, asked for another file, or shown a dialog.
    """
    complaints = []

    def visit(text, name="page.html", **options):
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        page = pages.open(complaining(complaints, file.as_uri().__eq__), **options)
        page.goto(file.as_uri())
        return page

    yield visit
    assert complaints == []
