"""Warnings kept from the user while code of ours runs in the midst of a program.

`warnings.catch_warnings` and `warnings.filterwarnings` make Python forget what it has shown: each warning that is shown
once for a line would be shown once more. So a filter is put into its list by hand, and taken out again.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def hide(category: type[Warning] = Warning, message: str = "", module: str = "") -> tuple[Any, ...]:
    """Put in a filter that ignores what matches, before all others; return it, to be given to `show`.

    Args:
        category: the class of the warnings.
        message: a pattern that their text begins with.
        module: a pattern that the name of the module begins with to which they are attributed.
    """
    texts = [re.compile(pattern) if pattern else None for pattern in (message, module)]
    entry = ("ignore", texts[0], category, texts[1], 0)
    _list().insert(0, entry)
    return entry


def show(entry: tuple[Any, ...], *lists: list[Any]) -> None:
    """Take a filter out again, of the list that counts now and of others; later filters of the program's stay."""
    for filters in (_list(), *lists):
        for k, each in enumerate(filters):
            if each is entry:
                del filters[k]
                break


def is_hidden(entry: tuple[Any, ...]) -> bool:
    """Whether a filter is still there: the program may have taken it out, as by `warnings.resetwarnings`."""
    return any(each is entry for each in _list())


@contextmanager
def quietly(category: type[Warning] = Warning, message: str = "", module: str = "") -> Iterator[None]:
    """Hide warnings within; nothing that was shown before is shown once more for it.

    ```python
    with quietly(FutureWarning):
        import_what_warns()
    ```
    """
    here = _list()  # the program may put another into its place in another thread, and this one back later
    entry = hide(category, message, module)
    try:
        yield
    finally:
        show(entry, here)


def _list() -> list[Any]:
    return warnings.filters  # type: ignore[return-value]  # a list, though typed as a Sequence
