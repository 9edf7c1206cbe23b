"""What is written with `async` and `await`, as what it reads like: `async for` is a loop, `await f(x)` is a call.

A coroutine runs its statements in their order, as any function does. So the nodes of its tree are those of a function,
and keep only their own names, by which `ast.unparse` writes them as they were.
"""

from __future__ import annotations

import ast


class AsyncFunctionDef(ast.FunctionDef):
    """`async def train(model):`"""


class AsyncFor(ast.For):
    """`async for batch in loader:`"""


class AsyncWith(ast.With):
    """`async with lock:`"""


class Await(ast.Call):
    """`await evaluate(model)`, which stands for what `evaluate` returns."""

    @property
    def value(self) -> ast.Call:
        """The call alone, which `ast.unparse` asks for."""
        return ast.Call(self.func, self.args, self.keywords)


_LIKE: dict[type[ast.AST], type[ast.AST]] = {
    ast.AsyncFunctionDef: AsyncFunctionDef,
    ast.AsyncFor: AsyncFor,
    ast.AsyncWith: AsyncWith,
}


def read_as_plain(tree: ast.Module) -> None:
    """Put in the place of each node of a coroutine one that is also of the plain kind."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        for name, held in ast.iter_fields(node):
            if isinstance(held, list):
                held[:] = map(_plain, held)
            else:
                setattr(node, name, _plain(held))
        stack += ast.iter_child_nodes(node)


def _plain(node: ast.AST) -> ast.AST:
    if isinstance(node, ast.Await) and isinstance(node.value, ast.Call):
        return ast.copy_location(Await(node.value.func, node.value.args, node.value.keywords), node)
    like = _LIKE.get(type(node))
    return node if like is None else ast.copy_location(like(**dict(ast.iter_fields(node))), node)
