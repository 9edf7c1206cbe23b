"""The forward operation behind a node, put together again from what the node saved.

Nothing is recorded during the forward pass. A derivative depends only on what its formula uses, and that is what the
node keeps; an argument that was not kept can therefore be anything of the right shape.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from backsight.tape import input_metadata
from backsight.walkthrough._torch import saved
from backsight.walkthrough.arguments import argument_names
from backsight.walkthrough.formulas import Formula

# Operations whose formula uses only the result: what the argument was, told from the result.
INVERSES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "exp": torch.log,
    "exp2": torch.log2,
    "expm1": torch.log1p,
    "sigmoid": torch.logit,
    "tanh": torch.atanh,
    "sqrt": torch.square,
    "rsqrt": lambda result: result**-2,
    "reciprocal": torch.reciprocal,
    "relu": torch.clone,
    "_softmax": torch.log,
    "_log_softmax": torch.clone,
    "_safe_softmax": torch.log,
    "logsumexp": torch.clone,
}


# Arguments that are not kept and on which no derivative depends.
INDIFFERENT: dict[str, Any] = {"half_to_float": False, "momentum": 0.1, "memory_format": None}


_LAYOUT = "it depends on the memory layout of its argument, which is not saved"
_TRIANGLE = "its backward assumes a triangular argument, so it does not describe a change of one element alone"
_PLACE = "where two values go to one place, which of them wins is not kept"

# Operations with which a comparison would show nothing, each with the reason.
UNSUITED = {
    "as_strided": _LAYOUT,
    "as_strided_scatter": _LAYOUT,
    "max_unpool2d": _PLACE,
    "max_unpool3d": _PLACE,
    "cholesky_inverse": _TRIANGLE,
    "triangular_solve": _TRIANGLE,
    "linalg_solve_triangular": _TRIANGLE,
    "linalg_lu_solve": _TRIANGLE,
    "linalg_pinv": "its threshold is not kept",
    "copysign": "it jumps at zero, where a sign has no derivative",
    "scatter_reduce": "its forward-mode formula does not cover every reduction",
}


class NotRebuilt(LookupError):
    """The operation cannot be put together again; the message says why."""


@dataclass(frozen=True)
class Operation:
    """A forward operation with all its arguments; `inputs` are those behind the node's edges, in their order.

    Called with other tensors in place of `inputs` it returns the tuple of its results.
    """

    operator: Any
    arguments: dict[str, Any]
    names: tuple[str, ...]
    inputs: tuple[torch.Tensor, ...]

    def __call__(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = dict(self.arguments)
        for name, tensor in zip(self.names, inputs, strict=True):
            argument, _, position = name.rstrip("]").partition("[")
            if position:
                given[argument] = [*given[argument]]
                given[argument][int(position)] = tensor
            else:
                given[argument] = tensor
        positional, keywords = [], {}
        for argument in self.operator._schema.arguments:
            if argument.kwarg_only:
                keywords[argument.name] = given[argument.name]
            else:
                positional.append(given[argument.name])
        results = self.operator(*positional, **keywords)
        return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def rebuilt(node: Any, formula: Formula | None) -> Operation:
    """Return the operation whose backward `node` is.

    Raises:
        NotRebuilt: if what the node kept does not tell.
    """
    if formula is None:
        raise NotRebuilt("backsight found no formula for it in PyTorch")
    operator = _operator(formula)
    if torch.Tag.nondeterministic_seeded in operator.tags:
        raise NotRebuilt("it is random: a rerun would draw other numbers")
    if reason := UNSUITED.get(formula.operator[0]):
        raise NotRebuilt(reason)
    edges = tuple(node.next_functions)
    names = argument_names(node, formula)
    behind = dict(zip(names, edges, strict=True))
    arguments = {a.name: _argument(node, a, behind, formula) for a in operator._schema.arguments}
    if arguments.get("hermitian"):
        raise NotRebuilt("its argument must be Hermitian, and one element alone cannot change in such a matrix")
    inputs = {name: _tensor(arguments, name) for name, (producer, _) in behind.items() if producer is not None}
    if any(x.is_complex() for x in inputs.values()):
        raise NotRebuilt("its arguments are complex")
    # What is no input may be written into, whatever the schema says: the running statistics of a batch normalization.
    arguments = {name: _own(value) if name not in inputs else value for name, value in arguments.items()}
    # Contiguous: forward mode would write tangents into the overlapping memory of an expanded tensor.
    return Operation(operator, arguments, tuple(inputs), tuple(x.contiguous() for x in inputs.values()))


def _own(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _operator(formula: Formula) -> Any:
    name, overload = formula.operator
    try:
        # transpose_ and its like would change the shape of what they are called with: the plain operation will do.
        return getattr(getattr(torch.ops.aten, name.rstrip("_")), overload)
    except AttributeError:
        raise NotRebuilt(f"there is no operation {name}.{overload} to call") from None


def _argument(node: Any, argument: Any, behind: dict[str, tuple[Any, int]], formula: Formula) -> Any:
    """Return the value of one argument: as saved, or one of the right shape that serves as well."""
    name, kind = argument.name, str(argument.type)
    if "Tensor" in kind:
        return _tensors(node, argument, behind, formula)
    try:
        return saved(node, name)
    except LookupError:
        pass
    expected = input_metadata(node)[0]
    if name in ("size", "shape"):
        return list(expected.shape)
    if name == "dtype" and formula.operator[0] == "_to_copy":
        return expected.dtype
    if name == "eps" and formula.operator[0] == "native_layer_norm":
        return _layer_norm_eps(node)
    if name in INDIFFERENT:
        return INDIFFERENT[name]
    if argument.has_default_value():
        return argument.default_value
    if kind == "number":
        return 1  # a scalar that was not kept: the derivative does not depend on it
    if name == "output_size" and (spatial := re.search(r"(\d)d", formula.operator[0])):
        return list(expected.shape)[-int(spatial[1]) :]
    raise NotRebuilt(f"its argument {name!r} is not kept")


def _layer_norm_eps(node: Any) -> float:
    """Return what was added to the variance: it is not kept, but its result is (rstd = 1 / sqrt(var + eps))."""
    x, rstd = _kept(node, "input"), _kept(node, "result2")
    rows = x.reshape(rstd.numel(), -1).double()
    return float((rstd.double().reshape(-1) ** -2 - rows.var(1, correction=0)).mean())


def _tensors(node: Any, argument: Any, behind: dict[str, tuple[Any, int]], formula: Formula) -> Any:
    name, kind = argument.name, str(argument.type)
    listed = [key for key in behind if key.startswith(f"{name}[")]
    if listed:
        return [_like(behind[key]) if behind[key][0] is not None else None for key in listed]
    kept = _kept(node, name)
    if kept is not None:
        return kept
    edge = behind.get(name, (None, 0))
    if edge[0] is None:
        return None if "Optional" in kind else _any(node)
    if "_saved_result" in dir(type(node)):
        return _from_result(node, formula.operator[0])
    if name != "bias" and (outputs := _kept_outputs(node, formula)):
        raise NotRebuilt(f"it keeps {outputs[0]!r}, which does not determine {name!r}")
    return _like(edge)


def _kept(node: Any, name: str) -> Any:
    try:
        value = saved(node, name)
    except LookupError as error:
        if "packed" in str(error):
            raise NotRebuilt(str(error)) from None
        return None
    if isinstance(value, torch.Tensor):
        return value.detach()
    return list(value) if isinstance(value, tuple) else value


def _kept_outputs(node: Any, formula: Formula) -> list[str]:
    """Return the tensors that were kept and are no arguments, but results on which the derivative may depend."""
    arguments = {argument.name for argument in _operator(formula)._schema.arguments}
    kept = (name.removeprefix("_raw_saved_") for name in dir(type(node)) if name.startswith("_raw_saved_"))
    return [name for name in kept if name not in arguments]


def _from_result(node: Any, name: str) -> torch.Tensor:
    result = _kept(node, "result")
    if name not in INVERSES or not isinstance(result, torch.Tensor):
        raise NotRebuilt("it keeps its result, which does not determine its argument")
    argument = INVERSES[name](result)
    if not bool(torch.isfinite(argument).all()):
        raise NotRebuilt("its result is at the end of its range, which does not determine its argument")
    return argument


def _like(edge: tuple[Any, int]) -> torch.Tensor:
    """Return some tensor of the shape of what `edge` leads to."""
    expected = input_metadata(edge[0])[edge[1]]
    made = torch.linspace(0.25, 0.75, max(1, _elements(expected.shape)), dtype=torch.float64, device=expected.device)
    return made[: _elements(expected.shape)].reshape(tuple(expected.shape)).to(expected.dtype)


def _any(node: Any) -> torch.Tensor:
    """Return a tensor of the shape of the node's output, in place of one that the derivative does not depend on."""
    expected = input_metadata(node)[0]
    return torch.full(tuple(expected.shape), 0.5, dtype=expected.dtype, device=expected.device)


def _elements(shape: Sequence[int]) -> int:
    return int(torch.Size(shape).numel())


def _tensor(arguments: dict[str, Any], name: str) -> torch.Tensor:
    argument, _, position = name.rstrip("]").partition("[")
    value = arguments.get(argument)
    if position and isinstance(value, list):
        value = value[int(position)]
    if not isinstance(value, torch.Tensor):
        raise NotRebuilt(f"its argument {name!r} is not kept")
    return value
