"""What `backsight verify` tests: a function, and inputs for it, given or made up."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from shlex import quote
from types import MappingProxyType, ModuleType
from typing import Any

import torch

from backsight.tables.signature import INPUTS, NoCase, Signature, is_function

GUESSES: tuple[tuple[int, ...], ...] = ((4, 3), (3, 3), (2, 3, 8, 8))
"""Shapes tried in this order where nothing tells the shapes of inputs."""

_UNDIFFERENTIATED = (0.5, 1)
"""What is tried for a parameter for which backward returns None, before a tensor: mostly it is an option."""


@dataclass(frozen=True)
class Case:
    """A call that is to be verified. `made_up` says what its inputs are where nobody gave them."""

    name: str
    function: Callable[..., Any]
    inputs: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)
    made_up: str = ""
    options: frozenset[str] = frozenset()
    """Parameters of which only one thing is known: that backward always returns None for them."""
    parameters: tuple[str, ...] = ()
    """The names of made-up inputs."""

    def with_shape(self, name: str, shape: tuple[int, ...]) -> Case | None:
        """Return the case with a made-up tensor in another shape, which must not be larger; None if it has none."""
        at = self.parameters.index(name) if name in self.parameters else len(self.inputs)
        old = self.inputs[at] if at < len(self.inputs) else None
        if not isinstance(old, torch.Tensor) or math.prod(shape) > old.numel():
            return None
        new = old.reshape(-1)[: math.prod(shape)].reshape(shape)
        inputs = (*self.inputs[:at], new, *self.inputs[at + 1 :])
        return replace(self, inputs=inputs, made_up=_in_words(self.parameters, inputs))

    def own_inputs(self, command: str = "") -> str:
        """Say how to give other inputs than those that were made up, by an example of other shapes.

        `command` is what comes before the options, where these must not be given to all functions of a file.
        """
        shapes: list[str] = []
        options: list[str] = []
        written: list[str] = []
        for name, value in zip(self.parameters, self.inputs, strict=False):
            if isinstance(value, torch.Tensor):
                shape = ("3" if shapes else "4,3") if len(self.inputs) > 1 else "2,8,16"
                shapes.append(f"--shape {shape}")
                written.append(f"torch.randn({shape.replace(',', ', ')})")
            elif name in self.options:
                options.append(f"--value {name}=...")
                written.append(name)
            else:
                options.append(f"--value {quote(f'{name}={value!r}')}")
                written.append(repr(value))
        shown = [command] if command else []
        given = f"({', '.join(written)}{',' * (len(written) == 1)})"
        return (
            f"Give it its own, for example `{' '.join([*shown, *shapes, *options])}`, or in a function beside it: "
            f'def {INPUTS}(): return {{"{self.name.rpartition(".")[2]}": {given}}}'
        )


def cases(
    name: str,
    target: Any,
    shapes: Sequence[Input],
    dtype: torch.dtype | None,
    seed: int,
    beside: ModuleType | None,
    values: Mapping[str, Any] = MappingProxyType({}),
) -> list[Case]:
    """Return the calls to try, the first that does not raise being the one: only guesses are several.

    Without a dtype, the inputs of a module are of that of its parameters, others float64, or float32 if that raises.

    `target` is a function, a `torch.autograd.Function`, a module or a class of modules. Its inputs are `values` by
    name and tensors of `shapes` for the others; else what `verify_inputs` returns, in its class or `beside` it; else
    made up. A parameter that is a number where the program calls it is that number. A function without parameters may
    return `(function, *inputs)`.

    Raises:
        NoCase: if it cannot be called, or its number of inputs is another.
    """
    function = _callable(name, target)
    generator = torch.Generator().manual_seed(seed)
    dtypes = [dtype] if dtype is not None else _dtypes(function)
    signature = Signature.of(name, function, target, beside)
    signature = replace(signature, known=signature.known | signature.checked(values))
    if shapes:
        taking = signature.taking(shapes, values)
        drawn = [{key: each.tensor(kind, generator) for key, each in taking.items()} for kind in dtypes]
        return [Case(name, function, signature.inputs(each)) for each in drawn]
    if not values and (case := _beside(function, target, signature, beside)):
        return [case]
    if not signature.required:
        return [_without_inputs(name, function)]
    first = _of_layer(function)
    guesses = [first] if first else [Input(shape) for shape in GUESSES]
    options = frozenset(each.name for each in signature.required) & signature.options - signature.known.keys()
    fills = [dict.fromkeys(options, each) for each in _UNDIFFERENTIATED] if options else []
    filled = [replace(signature, known=signature.known | fill) for fill in (*fills, {})]
    return [
        replace(_guessed(each, function, guess, kind, generator), options=options)
        for kind in dtypes
        for each in filled
        for guess in guesses
    ]


def _beside(function: Callable[..., Any], target: Any, signature: Signature, beside: ModuleType | None) -> Case | None:
    """Return the case that `verify_inputs` makes; None if there is none, or if it names other Functions alone."""
    own = getattr(target, INPUTS, None)
    maker = own or getattr(beside, INPUTS, None)
    if maker is None:
        return None
    made = maker() if callable(maker) else maker
    given, by_name = _of_name(signature.name, made)
    if signature.has(given):
        given = signature.inputs(given)
    elif isinstance(given, dict) and (is_function(target) or _names_others(given, beside)):
        return None  # the apply of a Function takes no keywords
    elif not (by_name or own or isinstance(given, dict)):
        signature.check_fit(given)
    return _given(signature.name, function, given)


def _names_others(given: Mapping[object, object], beside: ModuleType | None) -> bool:
    return bool(given) and all(isinstance(each, str) and hasattr(beside, each) for each in given)


def _dtypes(function: Callable[..., Any]) -> list[torch.dtype]:
    parameters = function.parameters() if isinstance(function, torch.nn.Module) else ()
    own = next((each.dtype for each in parameters if each.is_floating_point()), None)
    return [torch.float64, torch.float32] if own is None else [own]


@dataclass(frozen=True)
class Input:
    """A random input: its shape, and a dtype other than that of all. Integers are 0 or 1, which any table has."""

    shape: tuple[int, ...]
    dtype: torch.dtype | None = None

    @classmethod
    def read(cls, text: str) -> Input:
        """Read `4,3`, `4x3`, `scalar` or `4:int64`.

        Raises:
            ValueError: if it is none of these.
        """
        sizes, _, dtype = text.partition(":")
        kind = dtype_of(dtype) if dtype else None
        if sizes in ("scalar", "()"):
            return cls((), kind)
        try:
            shape = tuple(int(size) for size in sizes.replace("x", ",").strip(",()").split(","))
        except ValueError:
            raise ValueError(f"{text!r} is not a shape; write 4,3 or scalar, or 4:int64 for integers") from None
        if any(size < 0 for size in shape):
            raise ValueError(f"{text!r} has a negative size")
        return cls(shape, kind)

    def tensor(self, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
        """Return a random tensor, of `dtype` unless it has one of its own."""
        kind = self.dtype or dtype
        if kind.is_floating_point or kind.is_complex:
            wide = torch.complex128 if kind.is_complex else torch.float64
            return torch.randn(self.shape, generator=generator, dtype=wide).to(kind)
        return torch.randint(2, self.shape, generator=generator).to(kind)

    def __str__(self) -> str:
        return "×".join(map(str, self.shape)) or "scalar"


def dtype_of(text: str) -> torch.dtype:
    """Read the name of a dtype.

    Raises:
        ValueError: if there is none of that name.
    """
    found = getattr(torch, text.removeprefix("torch."), None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"{text!r} is not a dtype; write float64, float32, complex128 or int64, for example")
    return found


def _callable(name: str, target: Any) -> Any:
    """Return what is to be called: `apply` of a Function, an object of a class."""
    if not isinstance(target, type):
        if not callable(target):
            raise NoCase(f"{name} is a {type(target).__name__} and is not callable.")
        return target
    if is_function(target):
        return target.apply
    try:
        made = target()
    except TypeError as error:
        raise NoCase(
            f"{name} is a class, and creating one without arguments raises {error}. Verify a function that returns an "
            f"instance and its input instead: def case(): return {name.rpartition('.')[2]}(...), torch.randn(4, 3)"
        ) from None
    if not callable(made):
        raise NoCase(f"{name} is a class whose instances are not callable.")
    return made


def _given(name: str, function: Callable[..., Any], inputs: Any) -> Case:
    if isinstance(inputs, dict):
        return Case(name, function, (), inputs)
    return Case(name, function, tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,))


def _without_inputs(name: str, function: Callable[..., Any]) -> Case:
    """Return the case that a function without parameters makes, or the function itself."""
    made = function()
    if isinstance(made, tuple) and made and callable(made[0]) and not isinstance(made[0], torch.Tensor):
        return _given(name, made[0], made[1] if len(made) == 2 and isinstance(made[1], dict) else made[1:])
    return Case(name, function)


def _of_name(name: str, made: Any) -> tuple[Any, bool]:
    """Return the inputs of one function, and whether they are given by its name: `{"RowNorm": (x, 1e-8)}`."""
    keys = (name, name.rpartition(".")[2]) if isinstance(made, dict) else ()
    return next(((made[key], True) for key in keys if key in made), (made, False))


def _of_layer(function: Callable[..., Any]) -> Input | None:
    """Return an input for a module, by the first of its layers whose sizes tell."""
    for layer in function.modules() if isinstance(function, torch.nn.Module) else ():
        if isinstance(layer, torch.nn.Linear):
            return Input((4, layer.in_features))
        if isinstance(layer, torch.nn.Embedding):
            return Input((4,), torch.int64)
        if isinstance(layer, torch.nn.LayerNorm):
            return Input((4, *layer.normalized_shape))
        for dimensions, kind in enumerate((torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d), start=1):
            if isinstance(layer, kind):
                return Input((2, layer.in_channels, *(8,) * dimensions))
    return None


def _guessed(
    signature: Signature, function: Callable[..., Any], each: Input, dtype: torch.dtype, generator: torch.Generator
) -> Case:
    tensors = {p.name: each.tensor(dtype, generator) for p in signature.required if p.name not in signature.known}
    inputs = signature.inputs(tensors)
    names = tuple(p.name for p in signature.parameters)
    return Case(signature.name, function, inputs, {}, _in_words(names, inputs), parameters=names)


def _in_words(names: Sequence[str], inputs: Sequence[Any]) -> str:
    """Return `x 4×3, eps = 0.5`."""
    return ", ".join(
        f"{name} {Input(tuple(value.shape))}" if isinstance(value, torch.Tensor) else f"{name} = {value!r}"
        for name, value in zip(names, inputs, strict=False)
    )
