"""What `backsight verify` tests: a function, and inputs for it, given or made up."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType, ModuleType
from typing import Any, TypeGuard

import torch

from backsight.tables.passed import never_differentiated, passed
from backsight.text import counted, listed

INPUTS = "verify_inputs"
"""The name of a function beside the one that is verified, or in its class, that returns the inputs."""

GUESSES: tuple[tuple[int, ...], ...] = ((4, 3), (3, 3), (2, 3, 8, 8))
"""Shapes tried in this order where nothing tells the shapes of inputs."""

_PLAIN: dict[Any, Any] = {int: 2, float: 0.5, bool: True, "int": 2, "float": 0.5, "bool": True}
"""What is given for a parameter that its annotation says to be a number."""

_UNDIFFERENTIATED = (0.5, 1)
"""What is tried for a parameter for which backward returns None, before a tensor: mostly it is an option."""


class NoCase(Exception):
    """There is nothing that could be called. The message says why and what to write."""


@dataclass(frozen=True)
class Case:
    """A call that is to be verified. `made_up` says what its inputs are where nobody gave them."""

    name: str
    function: Callable[..., Any]
    inputs: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)
    made_up: str = ""
    options: frozenset[str] = frozenset()
    """Parameters for which backward always returns None."""


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
    own, common = getattr(target, INPUTS, None), getattr(beside, INPUTS, None)
    maker = own or common
    if maker is not None and not values:
        made = maker() if callable(maker) else maker
        given, by_name = _of_name(name, made)
        if not (by_name or own or isinstance(made, dict)):
            signature.check_fit(given)
        if by_name or not isinstance(given, dict) or not _is_function(target) or signature.has(given):
            return [_given(name, function, signature.inputs(given) if signature.has(given) else given)]
    wanted = signature.required
    if not wanted:
        return [_without_inputs(name, function)]
    first = _of_layer(function)
    guesses = [first] if first else [Input(shape) for shape in GUESSES]
    options = [each.name for each in wanted if each.name in signature.options and each.name not in signature.known]
    fills = [dict.fromkeys(options, each) for each in _UNDIFFERENTIATED] if options else []
    return [
        _guessed(name, function, wanted, each, kind, generator, signature.known | fill, signature.options)
        for kind in dtypes
        for fill in (*fills, {})
        for each in guesses
    ]


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
    if _is_function(target):
        return target.apply
    try:
        made = target()
    except TypeError as error:
        raise NoCase(
            f"{name} is a class, and creating one without arguments raises {error}. Write a function that returns an "
            f"instance and its input: def case(): return {name.rpartition('.')[2]}(...), torch.randn(4, 3)"
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


@dataclass(frozen=True)
class Signature:
    """The positional parameters of a function, and what is known of them without a look at shapes."""

    name: str
    parameters: tuple[inspect.Parameter, ...]
    open: bool
    """Whether it takes any number of inputs, or nothing says how many."""
    known: dict[str, Any]
    """Parameters that are no tensors in the program, with what it passes."""
    options: frozenset[str]
    """Parameters for which backward always returns None."""

    @classmethod
    def of(cls, name: str, function: Callable[..., Any], target: Any, beside: ModuleType | None) -> Signature:
        called = function.forward if isinstance(function, torch.nn.Module) else function
        drop = 0
        if _is_function(target):
            called = target.forward
            drop = int(target.setup_context is torch.autograd.Function.setup_context)  # ctx
        try:
            declared = list(inspect.signature(called).parameters.values())[drop:]
            unsure = any(each.kind is each.VAR_POSITIONAL for each in declared)
        except (TypeError, ValueError):  # a builtin: one input is the best guess
            declared, unsure = [inspect.Parameter("input", inspect.Parameter.POSITIONAL_ONLY)], True
        kept = tuple(
            each.replace(kind=each.POSITIONAL_ONLY)
            for each in declared
            if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD, each.VAR_POSITIONAL)
        )
        names = [each.name for each in kept]
        known = {each.name: _PLAIN[each.annotation] for each in kept if each.annotation in _PLAIN}
        known |= {key: value for key, value in passed(name, names, beside).items() if key in names}
        none = never_differentiated(target) if _is_function(target) else ()
        return cls(name, kept, unsure, known, frozenset(names[i] for i in none if i < len(names)))

    @property
    def required(self) -> list[inspect.Parameter]:
        """What has to be given: the parameters without a default."""
        return [each for each in self.parameters if each.default is each.empty]

    def has(self, given: Any) -> bool:
        """Whether this is a dict of its parameters."""
        return isinstance(given, dict) and bool(given) and given.keys() <= {each.name for each in self.parameters}

    def checked(self, values: Mapping[str, Any]) -> dict[str, Any]:
        for key in values:
            if not self.has({key: None}):
                raise NoCase(f"{self.name} has no parameter {key!r}: {self._takes()}.")
        return dict(values)

    def taking(self, shapes: Sequence[Input], values: Mapping[str, Any]) -> dict[Any, Input]:
        """Return the shapes by parameter: of all that has no value, or of what is not known to be a number.

        Raises:
            NoCase: if there are more shapes or fewer.
        """
        if self.open:
            return dict(enumerate(shapes))
        free = [each for each in self.parameters if each.name not in values]
        least = sum(each.default is each.empty for each in free)
        tensors = [each for each in free if each.default is each.empty and each.name not in self.known]
        if not least <= len(shapes) <= len(free):
            free = tensors
            if len(shapes) != len(free):
                number = counted(len(shapes), "shape")
                raise NoCase(
                    f"{self._takes()}, but {number} {'is' if len(shapes) == 1 else 'are'} given. Repeat --shape for "
                    f"each tensor, and give what is no tensor by name: {self._example()}."
                )
        return {each.name: shape for each, shape in zip(free, shapes, strict=False)}

    def check_fit(self, given: Any) -> None:
        """Refuse inputs that are those of another function in the file.

        Raises:
            NoCase: if they are too few or too many, or have a tensor where the program has none.
        """
        inputs = given if isinstance(given, (tuple, list)) else (given,)
        by_name = f'To give each its own: return {{"{self.name}": (...)}}'
        if not self.open and not len(self.required) <= len(inputs) <= len(self.parameters):
            raise NoCase(f"{self._takes()}, but {INPUTS}() returns {len(inputs)}. {by_name}.")
        for each, value in zip(self.parameters, inputs, strict=False):
            if isinstance(value, torch.Tensor) and each.name in self.known:
                raise NoCase(
                    f"{INPUTS}() returns a tensor for `{each.name}` of {self.name}, which is {self.known[each.name]!r} "
                    f"in the program. {by_name}."
                )

    def inputs(self, given: Mapping[Any, Any]) -> tuple[Any, ...]:
        """Return the inputs by position: those given, what is known, and defaults up to the last of these."""
        if self.open:
            return tuple(given.values())
        every = [given.get(each.name, self.known.get(each.name, each.default)) for each in self.parameters]
        last = max(
            (i for i, each in enumerate(self.parameters) if each.name in given or each.default is each.empty),
            default=-1,
        )
        return tuple(every[: last + 1])

    def _takes(self) -> str:
        names = [each.name for each in self.parameters]
        return f"{self.name} takes {listed(names, len(names))}" if names else f"{self.name} takes no inputs"

    def _example(self) -> str:
        option = next((each for each in self.parameters if each.name in self.known | dict.fromkeys(self.options)), None)
        option = option or next(iter(self.parameters[1:]), None)
        return f"--value {option.name}={self.known.get(option.name, 0.5)}" if option else "--value NAME=0.5"


def _is_function(target: Any) -> TypeGuard[type[torch.autograd.Function]]:
    return isinstance(target, type) and issubclass(target, torch.autograd.Function)


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
    name: str,
    function: Callable[..., Any],
    wanted: list[inspect.Parameter],
    each: Input,
    dtype: torch.dtype,
    generator: torch.Generator,
    known: Mapping[str, Any],
    options: frozenset[str],
) -> Case:
    inputs = tuple(known[p.name] if p.name in known else each.tensor(dtype, generator) for p in wanted)
    said = (
        f"{p.name} {each}" if isinstance(value, torch.Tensor) else f"{p.name} = {value!r}"
        for p, value in zip(wanted, inputs, strict=True)
    )
    return Case(name, function, inputs, made_up=", ".join(said), options=options)
