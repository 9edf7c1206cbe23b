"""A context manager as a decorator of functions, generators and coroutines."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


def around(function: Function, context: Callable[[], AbstractContextManager[Any]]) -> Function:
    """Return `function` run inside a context of its own each time; of a generator or coroutine until it has ended."""

    @functools.wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        with context():
            return function(*args, **options)

    @functools.wraps(function)
    async def awaited(*args: Any, **options: Any) -> Any:
        with context():
            return await function(*args, **options)

    @functools.wraps(function)
    def generated(*args: Any, **options: Any) -> Generator[Any, Any, Any]:
        with context():
            return (yield from function(*args, **options))

    @functools.wraps(function)
    async def generated_later(*args: Any, **options: Any) -> AsyncGenerator[Any, Any]:
        with context():
            async with contextlib.aclosing(function(*args, **options)) as inner:
                step = inner.__anext__()
                while True:
                    try:
                        each = await step
                    except StopAsyncIteration:
                        return
                    try:
                        sent = yield each
                    except GeneratorExit:
                        raise
                    except BaseException as thrown:  # handed on, as `yield from` does
                        step = inner.athrow(thrown)
                    else:
                        step = inner.asend(sent)

    if inspect.iscoroutinefunction(function):
        return cast(Function, awaited)
    if inspect.isasyncgenfunction(function):
        return cast(Function, generated_later)
    return cast(Function, generated if inspect.isgeneratorfunction(function) else called)
