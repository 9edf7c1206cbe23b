"""How an operation of the graph may be written in the text, and why its backward needs what it saved."""

from __future__ import annotations

import ast
from collections.abc import Callable

from backsight.diagnosis.evidence.memory import is_module
from backsight.naming.plain import class_name
from backsight.source.body import callee, dotted, expressions
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


_SPOKEN = {
    **dict.fromkeys(("mm", "bmm", "addmm", "mv", "dot"), "a matrix product"),
    **dict.fromkeys(("mkldnnrnnlayer", "cudnnrnn"), "a recurrent layer"),
    "convolution": "a convolution",
    "nativelayernorm": "a layer norm",
    "nativebatchnorm": "a batch norm",
    "pow": "a power",
    "mul": "a product",
    "div": "a quotient",
}


def spoken(operation: str) -> str:
    """The operation as a person would call it: `a matrix product` for `addmm`, `sigmoid` as it is."""
    return _SPOKEN.get(operation, operation)


_NEEDS_RESULT = {
    "relu": "the gradient of relu needs its result, to know which entries were positive",
}
_NEEDS_INPUT = {
    "mul": "the gradient of a product needs both factors",
    "div": "the gradient of a quotient needs both parts",
    "pow": "the gradient of a power needs the base",
    "convolution": "the gradient of a convolution needs its input and its weights",
    **dict.fromkeys(("mm", "bmm", "addmm", "mv", "dot"), "the gradient of a matrix product needs both factors"),
}


def why_saved(operation: str, result: bool) -> str:
    """Say why the backward of an operation needs what it saved.

    >>> why_saved("sigmoid", result=True)
    'the gradient of sigmoid is computed from its own result'
    """
    if result:
        return _NEEDS_RESULT.get(operation, f"the gradient of {spoken(operation)} is computed from its own result")
    return _NEEDS_INPUT.get(operation, f"the gradient of {spoken(operation)} is computed from what it was given")
