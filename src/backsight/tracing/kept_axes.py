"""Which axes of what a function of PyTorch's is given its result has: one small rule a kind of function.

Axes have numbers, and 0 stands for one of which nothing is known. A rule returns those of the result, or None where it
cannot tell. It goes by where the axes stand, and never by sizes that happen to be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import torch

Axes = tuple[int, ...]
PLAIN = (torch.Tensor, torch.nn.Parameter)


class Book(Protocol):
    """Who knows the axes of each tensor."""

    def of(self, tensor: torch.Tensor) -> Axes: ...

    def fresh(self) -> int: ...

    def unify(self, one: int, other: int) -> None: ...


@dataclass(slots=True)
class Given:
    """A call: what it was given, and the shape of its (first) result."""

    book: Book
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    shape: tuple[int, ...]

    def tensor(self, at: int, name: str = "") -> torch.Tensor | None:
        found = self.args[at] if len(self.args) > at else self.kwargs.get(name)
        return found if type(found) in PLAIN else None

    def axes(self, at: int, name: str = "") -> Axes | None:
        tensor = self.tensor(at, name)
        return None if tensor is None else self.book.of(tensor)

    def number(self, at: int, name: str) -> int | None:
        found = self.args[at] if len(self.args) > at else self.kwargs.get(name)
        return found if type(found) is int else None


Rule = Callable[[Given], "Axes | None"]
RULES: dict[str, Rule] = {}


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def add(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return add


_SAME = frozenset(
    {"abs", "neg", "exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "square"}
    | {"relu", "gelu", "silu", "elu", "selu", "mish", "leaky_relu", "softplus", "softsign", "logsigmoid", "hardtanh"}
    | {"dropout", "softmax", "log_softmax", "layer_norm", "batch_norm", "group_norm", "instance_norm", "rms_norm"}
    | {"normalize", "clone", "contiguous", "detach", ".data", "float", "double", "half", "bfloat16", "to", "type_as"}
    | {"clamp", "clip", "cumsum", "cumprod", "flip", "roll", "nan_to_num", "cpu", "cuda", "long"}
    | {"rand_like", "randn_like", "zeros_like", "ones_like", "full_like", "bernoulli", "dropout1d", "dropout2d"}
    | {"masked_fill", "tril", "triu", "bool", "int", "round", "sign", "reciprocal", "erf", "sort", "logit", "glu"}
)
_VIEWS = frozenset({"view", "reshape", "flatten", "unflatten", "squeeze", "view_as", "reshape_as"})
KEEP_ALL = _SAME | _VIEWS | {"expand", "expand_as"}
"""Those whose result has all the axes of their first argument, if it has its shape."""


@_rule(*_SAME)
def _same(given: Given) -> Axes | None:
    axes = given.axes(0, "input")
    return axes if axes is not None and len(axes) == len(given.shape) else None


ELEMENTWISE = frozenset(
    {"add", "radd", "iadd", "sub", "rsub", "isub", "subtract", "mul", "rmul", "imul", "multiply", "div", "rdiv"}
    | {"truediv", "rtruediv", "itruediv", "divide", "pow", "rpow", "maximum", "minimum", "where", "lerp", "addcmul"}
    | {"eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}
    | {"binary_cross_entropy", "binary_cross_entropy_with_logits"}
)


@_rule(*ELEMENTWISE)
def _elementwise(given: Given) -> Axes | None:
    """Those that are aligned are one axis, where all have as many; what is padded on the left tells nothing."""
    found = [each for each in given.args[:3] if type(each) in PLAIN]
    if given.kwargs:
        found += [each for each in given.kwargs.values() if type(each) in PLAIN]
    if len(found) == 1:
        axes = given.book.of(found[0])
        return axes if len(axes) >= len(given.shape) else (0,) * len(given.shape)
    found.sort(key=torch.Tensor.dim, reverse=True)
    out = [0] * len(given.shape)
    for each in found:
        axes = given.book.of(each)
        if len(axes) > len(out):  # a loss that is one number
            out = [0] * len(axes)
        for at in range(len(axes)):
            known = out[at + len(out) - len(axes)]
            if known and axes[at] and len(axes) == len(out):
                given.book.unify(known, axes[at])
            elif not known and len(axes) == len(out):
                out[at] = axes[at]
    return tuple(out)


@_rule("cross_entropy", "nll_loss")
def _classes(given: Given) -> Axes | None:
    """The scores have an axis of classes after that of the samples, and their targets have none."""
    scores, target = given.axes(0, "input"), given.axes(1, "target")
    if scores is None or target is None:
        return None
    if len(scores) == len(target) + 1 and len(target):
        for one, other in zip((scores[0], *scores[2:]), target, strict=True):
            given.book.unify(one, other)
    return target if len(target) == len(given.shape) else None


@_rule("linear")
def _linear(given: Given) -> Axes | None:
    axes, weight = given.axes(0, "input"), given.axes(1, "weight")
    return (*axes[:-1], weight[0]) if axes and weight and len(weight) == 2 else None


@_rule("matmul", "rmatmul", "mm", "bmm")
def _matmul(given: Given) -> Axes | None:
    one, other = given.axes(0), given.axes(1)
    if one is None or other is None or len(one) < 2 or len(other) < 2:
        return None
    if len(one) == len(other):
        for left, right in zip(one[:-2], other[:-2], strict=True):
            given.book.unify(left, right)
        return (*one[:-1], other[-1])
    return (*one[:-1], other[-1]) if len(other) == 2 else None


@_rule("embedding")
def _embedding(given: Given) -> Axes | None:
    axes, weight = given.axes(0, "input"), given.axes(1, "weight")
    return (*axes, weight[1]) if axes is not None and weight else None


@_rule("embedding_bag")
def _embedding_bag(given: Given) -> Axes | None:
    axes, weight = given.axes(0, "input"), given.axes(1, "weight")
    return (axes[0], weight[1]) if axes is not None and len(axes) == 2 and weight else None


@_rule("conv1d", "conv2d", "conv3d", "max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d", "interpolate")
def _of_images(given: Given) -> Axes | None:
    """The samples stay samples; other axes stay what they are while they keep their size, or become new ones."""
    tensor = given.tensor(0, "input")
    axes = None if tensor is None else given.book.of(tensor)
    if tensor is None or axes is None or len(axes) != len(given.shape):
        return None
    weight = given.axes(1, "weight")
    channels = weight[0] if weight and len(weight) == len(axes) else axes[1]
    rest = zip(axes[2:], tensor.shape[2:], given.shape[2:], strict=True)
    return (axes[0], channels, *(at if a == b else given.book.fresh() if at else 0 for at, a, b in rest))


@_rule("gru", "lstm", "rnn_tanh", "rnn_relu")
def _recurrent(given: Given) -> Axes | None:
    axes = given.axes(0)
    return None if axes is None or len(axes) != len(given.shape) else (*axes[:-1], given.book.fresh())


@_rule("gru_cell", "lstm_cell", "rnn_tanh_cell", "rnn_relu_cell")
def _of_cells(given: Given) -> Axes | None:
    """The samples stay, whether or not those of the state are known."""
    axes = given.axes(0)
    return (axes[0], given.book.fresh()) if axes is not None and len(axes) == len(given.shape) == 2 else None


@_rule("multi_head_attention_forward", "scaled_dot_product_attention")
def _attention(given: Given) -> Axes | None:
    axes = given.axes(0, "query")
    return (*axes[:-1], 0) if axes is not None and len(axes) == len(given.shape) else None


@_rule("transpose", "swapaxes", "swapdims", "t", ".T", ".mT")
def _transpose(given: Given) -> Axes | None:
    axes = given.axes(0, "input")
    if axes is None or len(axes) < 2:
        return axes
    first, second = given.number(1, "dim0"), given.number(2, "dim1")
    if first is None or second is None:
        first, second = -2, -1
        if len(given.args) > 1 or given.kwargs:
            return None
    out = list(axes)
    out[first], out[second] = axes[second], axes[first]
    return tuple(out)


@_rule("permute")
def _permute(given: Given) -> Axes | None:
    axes = given.axes(0, "input")
    order = given.kwargs.get("dims", given.args[1:])
    order = order[0] if len(order) == 1 and not isinstance(order[0], int) else order
    return None if axes is None else tuple(axes[at] for at in order)


@_rule("unsqueeze")
def _unsqueeze(given: Given) -> Axes | None:
    axes, at = given.axes(0, "input"), given.number(1, "dim")
    if axes is None or at is None:
        return None
    at = at if at >= 0 else at + len(axes) + 1
    return (*axes[:at], 0, *axes[at:])


@_rule(*_VIEWS)
def _view(given: Given) -> Axes | None:
    """The entries stay in their order: those axes stay that begin or end both shapes."""
    tensor = given.tensor(0, "input")
    if tensor is None:
        return None
    axes = given.book.of(tensor)
    return tuple([axes[at] if at >= 0 else 0 for at in _left_in_place(tensor.shape, given.shape)])


@lru_cache(maxsize=1024)
def _left_in_place(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[int, ...]:
    """Return for each axis of a shape which one it is of the shape before; -1 for none."""
    old = [at for at, n in enumerate(before) if n != 1]
    new = [at for at, n in enumerate(after) if n != 1]
    out = [-1] * len(after)
    for front in (0, -1):
        while old and new and before[old[front]] == after[new[front]]:
            out[new.pop(front)] = old.pop(front)
    return tuple(out)


@_rule("expand", "expand_as", "broadcast_to")
def _expand(given: Given) -> Axes | None:
    axes = given.axes(0, "input")
    return None if axes is None else (*(0,) * (len(given.shape) - len(axes)), *axes)


@_rule("sum", "mean", "amax", "amin", "max", "min", "prod", "std", "var", "logsumexp", "argmax", "argmin", "all", "any")
def _reduction(given: Given) -> Axes | None:
    if given.tensor(1) is not None:
        return _elementwise(given)
    return _without(given, given.args[1] if len(given.args) > 1 else given.kwargs.get("dim", given.kwargs.get("axis")))


@_rule("norm")
def _norm(given: Given) -> Axes | None:
    return _without(given, given.args[2] if len(given.args) > 2 else given.kwargs.get("dim"))


def _without(given: Given, dims: Any) -> Axes | None:
    axes = given.axes(0, "input")
    if axes is None or dims is None:
        return None
    gone = [dims] if type(dims) is int else list(dims)
    places = {at % len(axes) for at in gone if type(at) is int}
    if len(given.shape) == len(axes):
        return tuple(0 if at in places else each for at, each in enumerate(axes))
    return tuple(each for at, each in enumerate(axes) if at not in places)


@_rule("stack")
def _stack(given: Given) -> Axes | None:
    axes, at = _joined(given), given.number(1, "dim") or 0
    if axes is None:
        return None
    at = at if at >= 0 else at + len(axes) + 1
    return (*axes[:at], given.book.fresh(), *axes[at:])


@_rule("cat", "concat", "concatenate")
def _cat(given: Given) -> Axes | None:
    axes, at = _joined(given, given.number(1, "dim") or 0), given.number(1, "dim") or 0
    if not axes:
        return None
    out = list(axes)
    out[at] = given.book.fresh()
    return tuple(out)


def _joined(given: Given, but: int | None = None) -> Axes | None:
    """Return the axes of the first of some tensors, which are those of all of them."""
    found = given.args[0] if given.args else given.kwargs.get("tensors")
    if not isinstance(found, list | tuple) or not found or any(type(each) not in PLAIN for each in found):
        return None
    out = list(given.book.of(found[0]))
    for each in found[1:]:
        axes = given.book.of(each)
        for at in range(len(out)) if len(out) == len(axes) else ():
            if but is None or at != but % len(out):
                given.book.unify(out[at], axes[at])
                out[at] = out[at] or axes[at]
    return tuple(out)


@_rule("chunk", "split", "unbind", "topk")
def _pieces(given: Given) -> Axes | None:
    axes = given.axes(0, "input")
    if axes is None:
        return None
    return axes if len(axes) == len(given.shape) else None


@_rule("gather", "take_along_dim", "index_select", "take")
def _gather(given: Given) -> Axes | None:
    axes, index = given.axes(0, "input"), given.axes(2, "index")
    at = given.number(1, "dim")
    if axes is None or index is None or at is None:
        return None
    if len(axes) == len(index):
        return index
    return (*axes[:at], *index, *axes[at + 1 :]) if at >= 0 and len(index) == 1 else None


@_rule("select")
def _select(given: Given) -> Axes | None:
    axes, at = given.axes(0, "input"), given.number(1, "dim")
    return None if axes is None or at is None else tuple(each for n, each in enumerate(axes) if n != at % len(axes))


@_rule("getitem")
def _getitem(given: Given) -> Axes | None:
    axes = given.axes(0)
    wanted = given.args[1] if len(given.args) > 1 else None
    if axes and type(wanted) in (int, slice):
        return axes if type(wanted) is slice else axes[1:]
    parts = list(wanted) if type(wanted) is tuple else [wanted]
    taken = indices = 0
    for each in parts:
        taken += each is not None and each is not Ellipsis
        indices += type(each) in PLAIN or type(each) is list
        if isinstance(each, torch.Tensor) and each.dtype in (torch.bool, torch.uint8):
            return None
    if axes is None or indices > 1:
        return None
    whole = [slice(None)] * (len(axes) - taken)
    dots = next((at for at, each in enumerate(parts) if each is Ellipsis), len(parts))
    parts[dots : dots + 1] = whole
    out: list[int] = []
    left = list(axes)
    for each in parts:
        if each is None:
            out.append(0)
        elif type(each) is slice:
            out.append(left.pop(0))
        elif type(each) in PLAIN:
            left.pop(0)
            out += given.book.of(each)
        elif type(each) is int:
            left.pop(0)
        else:
            return None
    return tuple(out)


OF_TWO = frozenset({"linear", "matmul", "rmatmul", "mm", "bmm"})
OF_ONE = (
    _SAME
    | _VIEWS
    | {
        *("transpose", "swapaxes", "swapdims", "t", ".T", ".mT", "permute", "unsqueeze", "expand", "broadcast_to"),
        *("sum", "mean", "amax", "amin", "prod", "std", "var", "logsumexp", "argmax", "argmin", "all", "any"),
    }
)
"""Those of whose result the shapes, and where the axes of one tensor or two stand, tell all."""


def applied(rule: Rule | None, given: Given) -> Axes | None:
    """Return what a rule says of a call; None where there is none, or it does not know this form of the call."""
    try:
        return rule(given) if rule is not None else None
    except (IndexError, TypeError, ValueError):
        return None
