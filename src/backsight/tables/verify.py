"""What `backsight verify` prints."""

from __future__ import annotations

import ast
import inspect
import json
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from backsight.source import function_at
from backsight.source.body import dotted
from backsight.tables.cases import Case, Input, cases
from backsight.tables.printing import complain, show
from backsight.tables.signature import NoCase, is_function
from backsight.tables.target import TargetNotFound, found, module
from backsight.verification import Misshapen, NothingToVerify, Verification, verify, verify_second_order

EXAMPLE = "layers.py:MyFunction"


@dataclass(frozen=True)
class Options:
    """How to verify: what the options of the command say."""

    shapes: tuple[Input, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    dtype: torch.dtype | None = None
    seed: int | None = None
    seconds: float | None = None
    second_order: bool = False


def verify_target(target: str, options: Options, as_json: bool = False) -> int:
    """Print whether the gradients of what `target` names are right: `file.py:Function`, or all Functions of a file.

    Returns 0 if they are, 1 if one is wrong, and 2 if nothing, or not all that is the program's own, could be tested.
    """
    told: list[_Told] = []
    refused = False
    # What the program raises is printed: what Python itself then exits with, 1, would say that a gradient is wrong.
    try:
        named = list(_named(target))
    except TargetNotFound as error:
        named, refused = [], _say(error)
    except Exception:
        traceback.print_exc()
        return 2
    for name, each, beside in named:
        try:
            command = f"backsight verify {target}:{name}" if len(named) > 1 else ""
            told.append(_told(name, each, beside, options, command))
        except (NoCase, NothingToVerify) as error:
            refused = _say(error)
        except Exception:
            traceback.print_exc()
            refused = True
    if as_json:
        print(json.dumps([data for each in told for data in each.data()], indent=2))
    else:
        _show(told)
    reports = [report for each in told for report in each.reports]
    if any(each.is_wrong for each in told):
        return 1
    return 0 if reports and not refused and all(report.ok for report in reports) else 2


def _say(error: Exception) -> bool:
    complain(error)
    return True


def _show(told: Sequence[_Told]) -> None:
    for k, each in enumerate(told):
        show(*([""] if k else []), *each.lines(len(told) > 1))
    if any(each.case.made_up and each.is_wrong for each in told):
        show("\nThis rests on made-up inputs. If the program passes others, give them with --shape and --value.")


@dataclass(frozen=True)
class _Told:
    """One target with its reports: of first derivatives, and of second ones where they were asked for."""

    case: Case
    reports: tuple[Verification, ...]

    def lines(self, named: bool) -> Iterator[Any]:
        """Yield what is printed; the name where there are several."""
        from backsight.text.rich import Text

        if named:
            yield Text(self.case.name, "bold underline")
        if self.case.made_up:
            yield Text(f"made-up inputs: {self.case.made_up} (--shape gives others)", "dim")
        yield from self.reports

    @property
    def is_wrong(self) -> bool:
        return any(finding.severity != "note" for report in self.reports for finding in report)

    def data(self) -> Iterator[dict[str, Any]]:
        """Yield the reports as plain data."""
        for report in self.reports:
            yield {
                "target": self.case.name,
                "claim": report.claim,
                "ok": report.ok,
                "made_up": self.case.made_up,
                "checked": [vars(each) for each in report.checked],
                "skipped": [vars(each) for each in report.skipped],
                "findings": [
                    {key: getattr(each, key, None) for key in _FINDING} | {"evidence": list(map(str, each.evidence))}
                    for each in report.findings
                ],
            }


_FINDING = ("code", "severity", "title", "fix", "source", "operation", "input")


def _named(target: str) -> Iterator[tuple[str, Any, ModuleType | None]]:
    """Yield what is to be verified: name, object, and the module in which it stands."""
    place, _, path = target.rpartition(":")
    if place and path:
        beside = module(place)
        yield path, found(target, EXAMPLE, beside), beside
        return
    if _has_no_function(target):
        raise TargetNotFound(
            f"{target} defines no torch.autograd.Function, so it was not run. Name what to verify, as in {EXAMPLE}."
            f"{_defined(_names_in(target))}"
        )
    beside = module(target)
    functions = [each for each in vars(beside).values() if is_function(each) and each.__module__ == beside.__name__]
    if not functions:
        names = [name for name, each in vars(beside).items() if _is_defined_in(each, beside)]
        raise TargetNotFound(
            f"{target} defines no torch.autograd.Function. Name what to verify, as in {EXAMPLE}.{_defined(names)}"
        )
    for each in functions:
        if lacking := unwritten(each):
            complain(f"{each.__qualname__} is skipped: it defines no {lacking}.")
        else:
            yield each.__qualname__, each, beside


_PLAIN = frozenset({"Module", "Dataset", "IterableDataset", "Optimizer", "object", "NamedTuple", "Enum"})


def _has_no_function(file: str) -> bool:
    """Whether the text of a file shows that it defines no custom Function: to run it would run a training in vain.

    A class whose base comes from elsewhere may be one, and so may what a call makes.
    """
    tree = _parsed(file)
    if tree is None:
        return False
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    derived = {(dotted(base) or "?").rpartition(".")[2] for each in classes for base in each.bases}
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    made = any(isinstance(call.func, ast.Name) and call.func.id in ("type", "exec") and call.args[1:] for call in calls)
    return not made and derived <= {*_PLAIN, *(each.name for each in classes)}


def _parsed(file: str) -> ast.Module | None:
    try:
        return ast.parse(Path(file).read_bytes()) if file.endswith(".py") else None
    except (OSError, SyntaxError, ValueError):  # to be told where it is imported
        return None


def _names_in(file: str) -> list[str]:
    tree = _parsed(file)
    kinds = (ast.FunctionDef, ast.ClassDef)
    return [node.name for node in tree.body if isinstance(node, kinds)] if tree is not None else []


def _defined(names: Sequence[str]) -> str:
    return f" It defines {', '.join(names[:8])}." if names else ""


def _is_defined_in(value: Any, beside: ModuleType) -> bool:
    return callable(value) and getattr(value, "__module__", None) == beside.__name__


def _told(name: str, target: Any, beside: ModuleType | None, options: Options, command: str) -> _Told:
    """Verify one target; `command` is what verifies it alone, where there are several."""
    if is_function(target) and (lacking := unwritten(target)):
        raise NoCase(f"{name} defines no {lacking}: verify a class that derives from it.")
    tried: Sequence[Case] = cases(
        name, target, options.shapes, options.dtype, options.seed or 0, beside, options.values
    )
    failed: Exception | None = None
    for case in tried:
        try:
            told = _Told(case, tuple(_reports(case, options)))
            if case.made_up and (doubted := _doubted(told)):
                return _in_its_shapes(told, options, doubted)
            if options.shapes and command and (raised := _raised(told)):
                raise _DoubtfulError(raised)
            return told
        except NothingToVerify:
            raise
        except Exception as error:
            failed = failed or error
    first = tried[0]
    said = next(iter(str(failed).strip().splitlines()), "").rstrip(".:, ")
    why = said if isinstance(failed, _DoubtfulError) else f"{type(failed).__name__}: {said}"
    if first.made_up:
        raise NoCase(
            f"{name} could not be tested with made-up inputs ({first.made_up}): {why}. {first.own_inputs(command)}"
        )
    if options.shapes and command:
        raise NoCase(f"{name} was not tested: with these shapes, {why}. Give it its own: {command} --shape ...")
    assert failed is not None
    raise failed


class _DoubtfulError(Exception):
    """A finding about an input that was made up: perhaps it is the input that is wrong."""


def _in_its_shapes(told: _Told, options: Options, doubted: str) -> _Told:
    """Verify again with made-up inputs in the shapes that backward returns gradients in, as of a learned scalar.

    Raises:
        _DoubtfulError: if it is still the inputs that are in doubt, or they have no such shapes.
    """
    for _ in told.case.parameters:
        shapes = (each for report in told.reports for finding in report.findings for each in finding.evidence)
        asked = next((each for each in shapes if isinstance(each, Misshapen)), None)
        case = told.case.with_shape(asked.argument, asked.shape) if asked else None
        if case is None:
            break
        try:
            told = _Told(case, tuple(_reports(case, options)))
        except Exception:  # forward is not made for that
            break
        if not _doubted(told):
            return told
    raise _DoubtfulError(doubted)


def _raised(told: _Told) -> str:
    """Return what a backward raises, in one sentence."""
    found = (each for report in told.reports for each in report.findings if each.code == "BS414")
    return next((f"{each.title.rstrip('.')}: {each.evidence[0]}" for each in found), "")


def _doubted(told: _Told) -> str:
    """Return what a report has against an input that need not be as it was made up.

    A bias was given the shape of its input, or a mask, for which backward always returns None, was given numbers.
    """
    for each in (each for report in told.reports for each in report.findings):
        if each.code == "BS414" and "wrong shape" in each.title:
            return f"{each.title} {each.evidence[0]}"
        if each.code == "BS409" and getattr(each, "input", None) in told.case.options:
            return each.title
    return ""


def _reports(case: Case, options: Options) -> Iterator[Verification]:
    given = {"seconds": options.seconds, "seed": options.seed, **case.keywords}
    yield verify(case.function, *case.inputs, **given)
    if options.second_order:
        yield verify_second_order(case.function, *case.inputs, **given)


_METHODS = {"forward": ("forward",), "backward": ("backward", "vjp")}


def unwritten(function: type[torch.autograd.Function]) -> str:
    """Return `forward` or `backward` where a Function, a base of others, does not define it; "" where it has both."""
    return next((name for name, spelt in _METHODS.items() if not any(_written(function, each) for each in spelt)), "")


def _written(function: type, name: str) -> bool:
    found = inspect.getattr_static(function, name, None)
    if found is inspect.getattr_static(torch.autograd.Function, name, None):
        return False
    plain = inspect.unwrap(getattr(found, "__func__", found))
    if getattr(found, "__isabstractmethod__", False):
        return False
    body = function_at(plain.__code__) if inspect.isfunction(plain) else None
    return body is None or not isinstance(body.node, ast.FunctionDef) or not all(map(_is_stub, body.node.body))


def _is_stub(statement: ast.stmt) -> bool:
    """Whether a statement does nothing, or says that this is not implemented."""
    match statement:
        case ast.Pass() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Raise(exc=ast.Name(id=name)) | ast.Raise(exc=ast.Call(func=ast.Name(id=name))):
            return name == "NotImplementedError"
    return False
