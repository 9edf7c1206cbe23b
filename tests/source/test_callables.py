"""Which functions an expression stands for that is handed over."""

import pytest

from backsight.source.body import calls_in, functions, statements
from backsight.source.callables import callables

START = """
from functools import partial
def scale(factor, grad): ...
def other(grad): ...
def made(factor):
    def hook(grad): ...
    return hook
def also(factor):
    return lambda grad: grad
class Base:
    def __call__(self, grad): ...
class Hook(Base):
    def limit(self, grad): ...
    short = lambda self, grad: grad
def attach(tensor, given):
    tensor.register(given)
hook = Hook()
kept = partial(scale, 2)
"""

HANDED_OVER = {
    "register(lambda g: g)": [("<lambda>", True, 0)],
    "register(scale)": [("scale", True, 0)],
    "register(partial(scale, 2))": [("scale", False, 1)],
    "register(kept)": [("scale", False, 1)],
    "register(made(2))": [("hook", True, 0)],
    "register(also(2))": [("<lambda>", True, 0)],
    "register(Hook())": [("__call__", False, 0)],
    "register(hook.limit)": [("limit", True, 0)],
    "register(hook.short)": [("<lambda>", True, 0)],
    "register(scale if fast else other)": [("scale", True, 0), ("other", True, 0)],
    "hooks = {'a': scale, 'b': other}\nregister(hooks[name])": [("scale", True, 0), ("other", True, 0)],
    "for name, each in {'a': scale}.items():\n    register(each)": [("scale", True, 0)],
    "for each in (scale, other):\n    register(each)": [("scale", True, 0), ("other", True, 0)],
    "attach(x, other)": [("other", True, 0)],
    "hooks = dict(a=made(2))\nregister(hooks['a'])": [("hook", True, 0)],
    "register(print)": [],
}


@pytest.mark.parametrize("last", HANDED_OVER)
def test_callables(body_of, last):
    source = f"{START}{last}\n" if "attach(" in last else f"{START.replace('register', 'enter')}{last}\n"
    body = body_of(source)
    bodies = list(functions(body.file))
    calls = ((each, call) for each in bodies for one in statements(each.node) for call in calls_in(one))
    around, call = next((b, c) for b, c in calls if b.text(c.func).endswith("register"))
    found = [
        (getattr(each.body.node, "name", ""), each.has_name, each.count)
        for each in callables(call.args[0], around, bodies)
    ]
    assert found == HANDED_OVER[last]
