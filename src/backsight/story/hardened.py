"""A choice by the greatest of some values, which has no gradient: what trains in its place, or that it measures."""

from __future__ import annotations

import ast

from backsight.source import Body, parsed
from backsight.source.bindings import assigned
from backsight.source.body import callee, dotted, expressions, given_to, statement_at, statements
from backsight.source.cut_rules import rule_of
from backsight.source.definitions import values_of

_SOFT = frozenset({"softmax", "sigmoid", "gumbel_softmax", "Softmax", "exp"})
_SPREADS = frozenset({"one_hot", "scatter", "scatter_"})
"""What spreads indices over as many places again as they were chosen from."""


def hardened(body: Body, expression: str, line: int) -> str | None:
    """Say what trains where a function chooses by the greatest of some values, `one_hot(probs.argmax(-1))`."""
    if is_accuracy(body, expression, line):
        return "Use a loss that has a gradient, such as cross_entropy, in place of the accuracy"
    stack = [parsed(expression)]
    for node in stack:  # grows as we go
        if isinstance(node, ast.Name):
            stack += [each for each in values_of(body, node.id, line) if each not in stack]
        elif isinstance(node, ast.Call) and callee(node)[1] == "argmax":
            name = dotted(next(iter(given_to(node)), None))
            if name is None:
                return None
            made = (callee(c)[1] for v in values_of(body, name, line) for c in ast.walk(v) if isinstance(c, ast.Call))
            soft = name if any(each in _SOFT for each in made) else f"{name}.softmax(-1)"
            if not (hard := _spread(body, line)):
                return f"Use {soft} itself"
            return (
                f"Use {soft} itself, or {hard} + {soft} - {soft}.detach() to keep the choice and pass on its gradient"
            )
        elif isinstance(node, ast.Call):
            stack += [*node.args, *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
    return None


def is_accuracy(body: Body, expression: str, line: int) -> bool:
    """Whether an expression chooses indices, `probs.argmax(1)`, that the function compares with others by == or !=."""
    chosen = parsed(expression)
    inside = [each for each in ast.walk(chosen) if isinstance(each, ast.expr)] if chosen is not None else []
    if not any((rule := rule_of(each)) is not None and rule.kind == "index" for each in inside):
        return False
    wanted = {ast.dump(each) for each in inside if (rule := rule_of(each)) is not None and rule.kind == "index"}
    name = _assigned(body, line)
    statement = statement_at(body, line)
    if isinstance(statement, ast.Assign) and any(ast.dump(each) in wanted for each in _through(statement.value)):
        wanted |= {ast.dump(ast.parse(name, mode="eval").body)} if name else set()
    operands = (each for s in statements(body.node) for node in expressions(s) for each in _compared(node))
    return any(ast.dump(inner) in wanted for each in operands for inner in _through(each))


def _through(node: ast.expr) -> list[ast.expr]:
    """An expression, and what it is another dtype or shape of, innermost last: `best` of `best.float().view(-1)`."""
    found = [node]
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _KEEPING:
        found.append(node := node.func.value)
    return found


_KEEPING = frozenset(
    ("float", "long", "int", "to", "cpu", "cuda", "view", "reshape", "squeeze", "unsqueeze", "flatten", "detach")
)


def _compared(node: ast.expr) -> list[ast.expr]:
    """The operands of a comparison by == or !=; none of any other expression."""
    match node:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
            return [left, right]
        case ast.Call(func=ast.Attribute(value=value, attr="eq" | "ne"), args=[*given]):
            return [value, *given]
    return []


def _spread(body: Body, line: int) -> str:
    """The variable that gets a choice spread out again, of the shape of what it was chosen from; else empty."""
    statement = statement_at(body, line)
    value = statement.value if isinstance(statement, ast.Assign | ast.Return) else None
    kept = _through(value)[-1] if value is not None else None
    spreads = isinstance(kept, ast.Call) and callee(kept)[1] in _SPREADS
    return (_assigned(body, line) or "hard") if spreads else ""


def _assigned(body: Body, line: int) -> str:
    """Return the variable that a statement gives its value."""
    statement = statement_at(body, line)
    return next((name for target, _ in assigned(statement) if (name := dotted(target))), "")
