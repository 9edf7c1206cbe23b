"""One warning of PyTorch's is kept away while hooks of ours are there, and Python forgets nothing for it."""

import warnings

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
