"""Snippets of training code, as the frames of a traceback would show them."""

from __future__ import annotations

import itertools
import linecache
import textwrap
import types
from collections.abc import Callable, Iterator

import pytest

from backsight.source import Body, function_at


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """`code` and every code object compiled within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


@pytest.fixture(scope="session")
def code_of() -> Callable[..., types.CodeType]:
    """Registers a source text the way a notebook does, and gives the code object named in it."""
    numbers = itertools.count()

    def compiled(source: str, name: str = "<module>") -> types.CodeType:
        text = textwrap.dedent(source).lstrip("\n")
        file = f"<snippet {next(numbers)}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        return next(code for code in codes(compile(text, file, "exec")) if code.co_name == name)

    return compiled


@pytest.fixture(scope="session")
def body_of(code_of: Callable[..., types.CodeType]) -> Callable[..., Body]:
    def body(source: str, name: str = "<module>") -> Body:
        found = function_at(code_of(source, name))
        assert found is not None
        return found

    return body


@pytest.fixture(scope="session")
def line_of() -> Callable[[Body, str], int]:
    """The number of the first line that contains a text."""
    return lambda body, text: next(number for number, line in enumerate(body.lines, 1) if text in line)
