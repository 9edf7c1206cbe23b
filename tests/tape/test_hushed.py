"""One warning of PyTorch's is kept away while hooks of ours are there, and Python forgets nothing for it."""

import linecache
import warnings

from backsight.quiet import quietly
from backsight.source.body import body_around
from backsight.tape import Hushed

OURS = (
    "Using `torch.compile(module)` when there are global hooks on modules (e.g., from `register_module_forward_hook`)"
)


def warn(text):
    warnings.warn(text, UserWarning, stacklevel=1)


def test_what_was_shown_is_not_shown_once_more():
    shown = []
    before = warnings.showwarning
    warnings.showwarning = lambda *given, **named: shown.append(str(given[0]))
    filters = list(warnings.filters)
    warnings.filters[:] = [("default", None, Warning, None, 0)]
    try:
        warn("of the program")
        hushed = Hushed(), Hushed()
        warn("of the program")
        warn(OURS)
        hushed[0].remove()
        warn(OURS)
        hushed[1].remove()
        warn("of the program")
        assert shown == ["of the program"]
        assert warnings.filters == [("default", None, Warning, None, 0)]
        warn(OURS)
        assert shown == ["of the program", OURS]
    finally:
        warnings.filters[:] = filters
        warnings.showwarning = before


def test_a_program_that_is_looked_at_is_told_each_warning_once():
    shown = []
    before = warnings.showwarning
    warnings.showwarning = lambda *given, **named: shown.append(str(given[0]))
    filters = list(warnings.filters)
    warnings.filters[:] = [("default", None, Warning, None, 0)]
    source = "def f(x):\n    '\\d'\n    return x\n" + f"# {object()}\n"
    linecache.cache["<given>"] = len(source), None, source.splitlines(True), "<given>"
    try:
        for _ in range(3):
            warn("of the program")
            assert body_around("<given>", 2) is not None
            with quietly():
                warn("ours")
        assert shown == ["of the program"]
        assert warnings.filters == [("default", None, Warning, None, 0)]
    finally:
        warnings.filters[:] = filters
        warnings.showwarning = before


def test_a_filter_goes_though_the_program_puts_in_another_list():
    before = warnings.filters
    try:
        with quietly():
            warnings.filters = list(before)
        assert list(warnings.filters) == list(before)
    finally:
        warnings.filters = before
