"""Which expressions cut autograd, which pass a gradient on and which never carry one: tables, and how they are read."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from backsight.source.bindings import COMPREHENSIONS, target_names
from backsight.source.body import callee, is_constant, keyword, last_name
from backsight.source.changes import is_tensor_data
from backsight.source.imports import is_gradient_call, library

Kind: TypeAlias = Literal[
    "detach",  # .detach(), .data
    "number",  # .item(), .tolist(), .numpy(), float(): the value leaves PyTorch
    "copy",  # torch.tensor(x) and its like
    "index",  # argmax, max(...)[1], nonzero: positions
    "integer",  # .long(), .to(torch.int64)
    "comparison",  # ==, >, .eq()
    "rounding",  # a gradient that is zero everywhere
    "gradient",  # .grad and autograd.grad without create_graph
    "no_grad",  # no_grad(), inference_mode(), set_grad_enabled(False)
    "frozen",  # requires_grad_(False)
]


@dataclass(frozen=True)
class Rule:
    """Why an expression cuts autograd; `always` is false where a gradient, or at least a graph, may still pass."""

    kind: Kind
    why: str
    always: bool = True


def _each(names: str, kind: Kind, why: str, always: bool = True) -> dict[str, Rule]:
    return {name: Rule(kind, why.format(name), always) for name in names.split()}


# Methods, and functions of torch by the same name.
_METHODS = {
    **_each("detach detach_", "detach", "{} returns a tensor that is detached from the graph"),
    **_each("item", "number", "{} returns a Python number, which has no gradient"),
    **_each("tolist", "number", "{} returns Python numbers, which have no gradient"),
    **_each("numpy", "number", "{} leaves PyTorch for NumPy, which records no graph"),
    **_each("new_tensor from_numpy", "copy", "{} makes a new tensor, detached from the graph"),
    **_each(
        "argmax argmin argsort argwhere nonzero multinomial searchsorted bucketize",
        "index",
        "{} returns integer indices, which have no gradient",
    ),
    **_each("count_nonzero bincount one_hot", "integer", "{} returns integers, which have no gradient"),
    **_each("long int short byte char", "integer", "{} casts to integers, which have no gradient"),
    **_each("bool", "integer", "{} casts to booleans, which have no gradient"),
    **_each(
        "eq ne gt ge lt le greater greater_equal less less_equal not_equal isclose isnan isinf isfinite signbit "
        "logical_and logical_or logical_not logical_xor any",
        "comparison",
        "{} returns booleans, which have no gradient",
    ),
    **_each("round floor ceil trunc sign sgn fix", "rounding", "{} has a gradient of zero everywhere", always=False),
}

# Functions called by a bare name, or on torch or numpy.
_FUNCTIONS = {
    **_each("float", "number", "{} returns a Python number, which has no gradient"),
    **_each(
        "tensor Tensor FloatTensor DoubleTensor",
        "copy",
        "{} copies the values into a new tensor, detached from the graph",
    ),
    **_each(
        "LongTensor IntTensor", "copy", "{} copies the values into a new tensor of integers, detached from the graph"
    ),
    **_each("as_tensor", "copy", "{} copies the values of lists and arrays, detached from any graph", always=False),
    **_each("array asarray", "number", "{} leaves PyTorch for NumPy, which records no graph"),
}
_WITHOUT_ARGUMENTS = frozenset({"item", "tolist", "detach", "detach_", "long", "int", "short", "byte", "char", "bool"})

_ORDERINGS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
# The second result of these is a tensor of positions.
_WITH_INDICES = frozenset({"max", "min", "topk", "sort", "kthvalue", "mode", "median", "cummax", "cummin", "nanmedian"})
_INDICES = Rule("index", "the second result is integer indices, which have no gradient")

_INTEGER_TYPES = frozenset(
    {"int8", "int16", "int32", "int64", "uint8", "int", "long", "short", "bool"}
    | {"LongTensor", "IntTensor", "BoolTensor"}
)
_CAST = Rule("integer", "a tensor of this dtype has no gradient")
_DATA = Rule("detach", ".data returns the values alone, detached from the graph")
_MATH = Rule("number", "math returns a Python number, which has no gradient")
_COMPARISON = Rule("comparison", "a comparison gives booleans, which have no gradient")
_GRAD = Rule("gradient", ".grad has no graph unless backward ran with create_graph=True")
_AUTOGRAD_GRAD = Rule("gradient", "without create_graph=True, autograd.grad returns gradients without a graph")
FROZEN = Rule("frozen", "requires_grad is turned off here")
_NO_GRAD = Rule("no_grad", "nothing is recorded here, so what it computes has no graph")
_NO_GRAD_IF = Rule("no_grad", "nothing is recorded here when the argument is false", always=False)

# What these read of a tensor is its form, not its values.
_FORM_ATTRIBUTES = frozenset({"shape", "dtype", "device", "ndim", "requires_grad", "is_leaf", "grad_fn", "names"})
_FORM_CALLS = frozenset(
    {"size", "dim", "numel", "nelement", "ndimension", "stride", "len", "range", "isinstance", "id", "print"}
    | {"zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "new_zeros", "new_ones"}
    | {"zeros", "ones", "empty", "eye", "arange", "linspace", "rand", "randn", "randint", "randperm"}
)
# The position of a mask, of indices or of labels among the arguments of a method; one further on as torch's function.
_BARE_ARGUMENT = (
    {"masked_fill": 0, "masked_select": 0, "masked_scatter": 0, "gather": 1, "index_select": 1, "scatter": 1}
    | {"scatter_add": 1, "index_add": 1, "take_along_dim": 0, "take": 0, "cross_entropy": 0, "nll_loss": 0}
    | {"where": -1}  # torch.where(condition, a, b)
)
_BARE_KEYWORDS = frozenset(
    {"mask", "attn_mask", "attention_mask", "index", "indices", "labels", "dim", "dtype", "device"}
)


def rule_of(node: ast.expr) -> Rule | None:
    """The rule by which `node` cuts autograd, judged by its own form alone; None when it does not."""
    match node:
        case ast.Attribute(attr="data") if is_tensor_data(node):
            return _DATA
        case ast.Attribute(attr="grad") if not library(node):
            return _GRAD
        case ast.Attribute(attr="indices", value=value) if gives_indices(value, 1):
            return _INDICES
        case ast.Subscript(value=value, slice=ast.Constant(value=1)) if gives_indices(value, 1):
            return _INDICES
        case ast.Compare(ops=ops) if any(isinstance(each, _ORDERINGS) for each in ops):
            return _COMPARISON
        case ast.Call():
            return _rule_of_call(node)
    return None


def gives_indices(value: ast.expr, position: int | None) -> Rule | None:
    """The rule for the result at `position` of `value`, unpacked: `_, best = scores.max(1)`."""
    if position == 1 and isinstance(value, ast.Call) and callee(value)[1] in _WITH_INDICES:
        return _INDICES
    return None


def grad_mode(context: ast.expr) -> Rule | Literal["on"] | None:
    """What a context manager or decorator does to grad mode: a rule where it turns recording off, "on" where on."""
    call = context if isinstance(context, ast.Call) else None
    name = last_name(call.func if call else context)
    argument = call.args[0] if call and call.args else keyword(call, "mode") if call else None
    if name == "enable_grad":
        return "on"
    if name == "no_grad":
        return _NO_GRAD
    if name == "inference_mode":
        return "on" if is_constant(argument, False) else _NO_GRAD
    if name == "set_grad_enabled" and argument is not None:
        return "on" if is_constant(argument, True) else _NO_GRAD if is_constant(argument, False) else _NO_GRAD_IF
    return None


def is_inference(context: ast.expr) -> bool:
    """Whether a context manager or decorator begins or ends inference mode."""
    return last_name(context.func if isinstance(context, ast.Call) else context) == "inference_mode"


def carriers(node: ast.expr) -> Iterator[tuple[ast.expr, frozenset[str]]]:
    """The parts of `node` that may carry a gradient into its value, each with the names that are local to it."""
    nothing: frozenset[str] = frozenset()
    match node:
        case ast.Subscript(value=value):
            yield value, nothing
        case ast.IfExp(body=body, orelse=orelse):
            yield from ((body, nothing), (orelse, nothing))
        case ast.Lambda(body=body, args=arguments):
            yield body, frozenset(each.arg for each in ast.walk(arguments) if isinstance(each, ast.arg))
        case ast.Call():
            yield from ((each, nothing) for each in _carrying_arguments(node))
        case ast.Compare():
            return
        case _ if isinstance(node, COMPREHENSIONS):
            yield from _comprehension_carriers(node)
        case _:
            yield from ((child, nothing) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))


def reads_form(node: ast.expr) -> bool:
    """Whether `node` reads the form of a tensor and not its values: `x.shape`, `len(x)`, `zeros_like(x)`."""
    if isinstance(node, ast.Call):
        return callee(node)[1] in _FORM_CALLS
    return isinstance(node, ast.Attribute) and node.attr in _FORM_ATTRIBUTES


def _rule_of_call(call: ast.Call) -> Rule | None:
    receiver, name = callee(call)
    if name == "requires_grad_":
        return FROZEN if is_constant(call.args[0] if call.args else keyword(call, "requires_grad"), False) else None
    if is_gradient_call(call):
        return None if is_constant(keyword(call, "create_graph"), True) else _AUTOGRAD_GRAD
    if name in ("to", "type") and receiver is not None:
        wanted = [*call.args, keyword(call, "dtype")]
        return _CAST if any(each is not None and last_name(each) in _INTEGER_TYPES for each in wanted) else None
    values = [each for each in call.args if not _is_literal(each)]
    if library(call.func) == "math":  # only the rounding ones: math.sqrt(d) is nearly always of a number
        return _MATH if name in _METHODS and values else None
    if receiver is None or library(receiver):
        # A tensor made of constants is a new leaf that cuts nothing.
        return _FUNCTIONS.get(name) or _METHODS.get(name) if values else None
    if name in _WITHOUT_ARGUMENTS and call.args:
        return None  # `self.item(ids)` is a module of that name
    return _METHODS.get(name)


def _is_literal(node: ast.expr) -> bool:
    return not any(isinstance(each, ast.Name) for each in ast.walk(node))


def _carrying_arguments(call: ast.Call) -> Iterator[ast.expr]:
    receiver, name = callee(call)
    is_function = receiver is None or bool(library(receiver))
    bare = _BARE_ARGUMENT.get(name, len(call.args)) + is_function
    yield call.func
    yield from (each for position, each in enumerate(call.args) if position != bare)
    yield from (each.value for each in call.keywords if each.arg not in _BARE_KEYWORDS)


def _comprehension_carriers(node: ast.expr) -> Iterator[tuple[ast.expr, frozenset[str]]]:
    generators: list[ast.comprehension] = getattr(node, "generators", [])
    local = target_names(*(generator.target for generator in generators))
    element = node.value if isinstance(node, ast.DictComp) else getattr(node, "elt", node)
    yield element, local
    if not any(_passes_on(each, local) for each in (element, *(generator.iter for generator in generators[1:]))):
        return
    yield from ((generator.iter, local if number else frozenset()) for number, generator in enumerate(generators))


def _passes_on(value: ast.expr, names: Collection[str]) -> bool:
    """Whether a gradient of one of these names goes into a value: not in `h.detach().clone()` of `h`."""
    stack = [value]
    while stack:
        node = stack.pop()
        if reads_form(node) or ((rule := rule_of(node)) and rule.always):
            continue
        if isinstance(node, ast.Name) and node.id in names:
            return True
        stack.extend(child for child, _ in carriers(node))
    return False
