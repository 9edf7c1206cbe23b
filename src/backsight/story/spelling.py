"""How an operation of the graph may be written in the text."""

from __future__ import annotations

import ast
from collections.abc import Callable

from backsight.naming.plain import class_name
from backsight.source.body import callee, dotted, expressions
from backsight.story.memory import is_module
from backsight.tape import modules_in

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
}
_PRODUCT = frozenset({"matmul", "mm", "bmm", "mv", "dot", "linear", "addmm", "einsum"})
_ALSO: dict[str, frozenset[str]] = {
    **dict.fromkeys(("mm", "bmm", "addmm", "mv", "dot", "linear"), _PRODUCT),
    "convolution": frozenset({"conv1d", "conv2d", "conv3d", "convtranspose1d", "convtranspose2d", "convtranspose3d"}),
    "linalgvectornorm": frozenset({"norm", "vectornorm"}),
    "mseloss": frozenset({"mseloss"}),
    "pow": frozenset({"square"}),
    "mul": frozenset({"multiply"}),
    "div": frozenset({"divide", "truedivide"}),
    **dict.fromkeys(("mkldnnrnnlayer", "cudnnrnn"), frozenset({"rnn", "gru", "lstm"})),
    "elu": frozenset({"selu", "celu"}),
    "nativelayernorm": frozenset({"layernorm"}),
    "nativebatchnorm": frozenset({"batchnorm1d", "batchnorm2d", "batchnorm3d", "batchnorm"}),
    "hardtanh": frozenset({"relu6", "clamp"}),
}


def is_spelled(operation: str, statement: ast.stmt, value: Callable[[str], object]) -> bool:
    """Whether the text of `statement` may run `operation`; `value` tells what a name stands for: modules count too."""
    wanted = _plain(operation)
    words = _words(statement, value)
    return wanted in words or bool(_ALSO.get(wanted, frozenset()) & words)


def _words(statement: ast.stmt, value: Callable[[str], object]) -> set[str]:
    operator = _OPERATORS.get(type(statement.op)) if isinstance(statement, ast.AugAssign) else None
    found = {operator} if operator else set()
    for node in expressions(statement):
        if isinstance(node, ast.BinOp):
            found.add(_OPERATORS.get(type(node.op), ""))
        elif isinstance(node, ast.Call):
            receiver, method = callee(node)
            name = dotted(node.func)
            found.add(_plain((dotted(receiver) or "").split(".")[-1] if method == "apply" else method))
            called = value(name) if name else None
            inside = [module for _, module in modules_in(called)] if is_module(called) else [called]
            found |= {_plain(class_name(type(each))) for each in inside}
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            found.add("copyslices")
    return found


def _plain(word: str) -> str:
    return word.replace("_", "").lower()
