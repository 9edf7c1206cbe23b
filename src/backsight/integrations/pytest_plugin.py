"""The pytest plugin: an autograd error is explained in the report of the test that it failed; `no_leaked_graphs`.

Loaded by pytest of its own accord where backsight is installed, so that it must cost nothing: torch is imported only by
tests that do so themselves, and a test that passes is not looked at. With `--backsight` a test that such an error has
failed is run once more, under an exact watch, in a forked process. `-p no:backsight` switches all of it off.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.runner import runtestprotocol

if TYPE_CHECKING:
    from backsight.diagnosis import LiveGraphs
    from backsight.diagnosis.live import LiveGraph

TITLE = "backsight explains"

_FIXTURE = "no_leaked_graphs"
_WIDEST = 110
_MORE = "(`pytest --backsight` reruns such a test under a watch that sees what happens.)"
_WATCHED = "`backsight run -m pytest {}` watches its first run."


@pytest.fixture
def no_leaked_graphs() -> None:
    """Fail the test if autograd graphs that it made are still alive when it ends.

    ```python
    def test_training_keeps_no_graph(no_leaked_graphs):
        trainer.fit(epochs=2)
    ```

    What fixtures hold counts as well. Everywhere: `pytestmark = pytest.mark.usefixtures("no_leaked_graphs")`.
    """


@pytest.hookimpl(hookwrapper=True)  # the old style, as an older pytest would take a new wrapper for a plain hook
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, None]:
    """Around the test itself, so that it is the test that fails, and its fixtures are still there."""
    if _FIXTURE not in getattr(item, "fixturenames", ()):
        yield
        return
    said, before = "", None
    try:
        before = _alive()
    except Exception as failure:  # what is raised here would end the whole session
        said = _failed(failure)
    outcome = yield
    if outcome.excinfo is not None:  # its traceback holds what the test has made
        return
    try:
        said = said or _leaked(before)
    except Exception as failure:
        said = _failed(failure)
    if said:
        outcome.force_exception(pytest.fail.Exception(said, pytrace=False))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("backsight").addoption(
        "--backsight",
        action="store_true",
        help="rerun a test that failed with an autograd error, under an exact watch, and explain what it saw",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test, and again if it has to be explained; what counts and is reported is the first run."""
    if not item.config.getoption("--backsight", False) or not hasattr(item, "_initrequest"):
        return None
    from backsight.random_state import random_state

    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    begin = random_state()
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    took = sum(report.duration for report in reports)
    for report in reports:
        for number, (title, text) in enumerate(report.sections):
            if title == TITLE:
                report.sections[number] = _again(item, nextitem, text, begin, took)
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _again(
    item: pytest.Item, nextitem: pytest.Item | None, text: str, begin: Callable[[], None], took: float
) -> tuple[str, str]:
    """Run a test once more, watched, and return its explanation; what was said before, and why, if there is none."""
    from backsight.integrations.second_run import NotRun, second_run

    try:
        told = second_run(item, nextitem, TITLE, begin, took)
    except NotRun as reason:
        return TITLE, f"{text}\n(Not rerun: {reason}. {_WATCHED.format(item.nodeid)})"
    if told:
        return f"{TITLE}, rerun under its watch", told
    return TITLE, f"{text}\n(Under the watch, the test did not fail this way: this explanation is from the first run.)"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Add the explanation to the report of a test that an autograd error has failed."""
    outcome = yield
    if call.excinfo is None or "torch" not in sys.modules:
        return
    report = outcome.get_result()
    if not report.failed:  # skipped, or expected to fail
        return
    try:
        explanation = _explanation(call.excinfo.value, item.config)
    except Exception as failure:  # the report has to come out, whatever is wrong with us
        explanation = f"backsight could not explain this error: {type(failure).__name__}"
    if explanation:
        report.sections.append((TITLE, explanation))


def _explanation(error: BaseException, config: pytest.Config) -> str:
    """Return what is to be said of an error; nothing if it is none of PyTorch's."""
    from backsight.diagnosis import UNKNOWN, explain
    from backsight.findings.printing.terminal import as_text

    if not isinstance(error, Exception):
        return ""
    finding = explain(error)
    if finding.code == UNKNOWN and finding.source is None:
        return ""
    more = "" if finding.exact or config.getoption("--backsight", False) else f"\n{_MORE}"
    if not config.pluginmanager.has_plugin("terminalreporter"):  # a worker of xdist
        return as_text(finding, width=_WIDEST) + more
    terminal = config.get_terminal_writer()
    return as_text(finding, width=min(terminal.fullwidth, _WIDEST), color=terminal.hasmarkup) + more


def _alive() -> LiveGraphs | None:
    """Return the graphs that are alive; None as long as nobody has imported torch."""
    if "torch" not in sys.modules:
        return None
    from backsight.diagnosis import graphs

    gc.collect()  # what only waits to be collected is not leaked
    return graphs(names=False)


def _leaked(before: LiveGraphs | None) -> str:
    """Return what to say of the graphs that came to stay; nothing if there are none."""
    if "torch" not in sys.modules:
        return ""
    from backsight.diagnosis import LiveGraphs, graphs
    from backsight.diagnosis.live import Held

    gc.collect()
    held = []
    for each in graphs().held:
        new = tuple(graph for graph in each.graphs if not any(_is_part(graph, then) for then in before or ()))
        if new:
            held.append(Held(new, each.bytes if new == each.graphs else sum(graph.bytes for graph in new)))
    if not held:
        return ""
    leaked = LiveGraphs(tuple(held), sum(each.bytes for each in held))
    return f"autograd graphs from this test are still alive:\n{leaked}"


def _failed(failure: Exception) -> str:
    return f"backsight could not look for live graphs: {type(failure).__name__}: {failure}"


def _is_part(graph: LiveGraph, then: LiveGraph) -> bool:
    """Whether a graph is what is left of an earlier one: operations are numbered as they are made."""
    return then.first <= graph.first and graph.last <= then.last
