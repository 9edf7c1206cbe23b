"""BS219: the result of a computation stands where only a leaf can, or values without a graph."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy
import torch
from torch.utils.data import get_worker_info

from backsight.diagnosis.errors.copied import (
    Kept,
    copied_in,
    fix_of_copy,
    held_as,
    pruned,
    results_kept,
    told_of_pruning,
)
from backsight.diagnosis.errors.flagged import Flag, fix_of_flag
from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.evidence.gradients import Held, made
from backsight.diagnosis.evidence.results_listed import appended, detached_parts, origins, run_in_turn
from backsight.diagnosis.evidence.spoken import names_of, passed
from backsight.diagnosis.evidence.workers import Computed, computed_in_worker, told_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import listed, shown, tensor_of
from backsight.findings.evidence import Fact
from backsight.snapshot import survey
from backsight.source import Place, only, read_at
from backsight.source.bindings import assigned, bound, uses
from backsight.source.body import block_of, callee, calls_in, dotted, expressions, functions, keyword, statements
from backsight.source.edits import OR, on_line, sentence, wrap, write
from backsight.source.imports import library
from backsight.source.rewriting import rewritten, simple
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level
from backsight.story.files import user_files
from backsight.story.handed import Handed, handed
from backsight.story.in_pytorch import Part, back_in, in_pytorch
from backsight.story.memory import base_of, is_module, is_tensor, maker_of, needs_gradient, shape_of
from backsight.story.routes import reaches_otherwise
from backsight.tape import ENGINE_CALLS
from backsight.text import as_code
from backsight.tracing import current

_ASSIGNED = (ast.Name, ast.Attribute, ast.Subscript)
_COLLATE = os.path.join("torch", "utils", "data", "_utils", "collate.py")


@explains(
    "BS219",
    r"(?P<copied>support the deepcopy protocol)",
    r"(?P<values>Can't call numpy\(\) on Tensor that requires grad)",
    r"(?P<flag>you can only change requires_grad flags of leaf variables)",
    r"(?P<out>functions with out=\.\.\. arguments don't support automatic differentiation)",
)
def result_refused(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the tensor, the statement that computed it, and what to write instead."""
    refused = Refused(failure, str(match.lastgroup))
    return explanation(
        refused.title,
        refused.evidence(),
        refused.fix,
        source=refused.in_worker.place if refused.in_worker else failure.source,
        exact=bool(refused.text or refused.tensor is not None),
    )


@dataclass(frozen=True, eq=False)
class Refused:
    """What was refused, and for what: "copied", "values" for NumPy, "flag" or "out"."""

    failure: Failure
    use: str

    @cached_property
    def _found(self) -> tuple[str, torch.Tensor | None]:
        return next(_tensors(self.failure, self.use), ("", None))

    @property
    def text(self) -> str:
        """What the user's statement calls it; empty if it stands for more than it."""
        return self._found[0]

    @property
    def tensor(self) -> torch.Tensor | None:
        return self._found[1]

    @cached_property
    def parts(self) -> tuple[str, list[torch.Tensor]] | None:
        """The only list of results that the statement computes from, where no tensor is what it passes to NumPy."""
        level = self.failure.user
        if self.use != "values" or level is None or self.text:
            return None
        names = {each.name for each in uses(level.statement) if not each.binds}
        read = {name: level.value(name) for name in names if not any(each.startswith(f"{name}.") for each in names)}
        if any(is_module(each) or (is_tensor(each) and needs_gradient(each)) for each in read.values()):
            return None
        if level.body is not None:
            parts = [node for node in expressions(level.statement) if isinstance(node, ast.Subscript)]
            read |= {level.body.text(node): value_of(level, node) for node in parts}
        lists = {name: list(value) for name, value in read.items() if type(value) is list or type(value) is tuple}
        numbers = (int, float)
        every = {
            name: [one for one in each if type(one) not in numbers]
            for name, each in lists.items()
            if all(is_tensor(one) or type(one) in numbers for one in each)
        }
        if self.name:  # as PyTorch's frames tell
            every = {name: each for name, each in every.items() if any(one is self.tensor for one in each)}
        return only((name, each) for name, each in every.items() if any(needs_gradient(one) for one in each))

    @cached_property
    def in_worker(self) -> Computed | None:
        """What a worker of a DataLoader computed, whose frames are not here."""
        return computed_in_worker(self.failure) if self.failure.user is None else None

    @cached_property
    def name(self) -> str:
        if self.use == "values" and (told := told_of(self.failure)):
            return told[0][0]
        if self.in_worker is not None:
            return self.in_worker.name
        if self.tensor is None or self.failure.user is None:
            return self.text
        if self.text:
            name, known = Held(self.failure, self.failure.user, self.text, self.tensor).name, self._handed
            return known.name if known is not None and known.given is not None and name.endswith("]") else name
        name, held = names_of(self.failure, [self.tensor])[0], self._held
        return name if self.hook or name.endswith(held.removeprefix(self.copied)) else held

    @cached_property
    def _handed(self) -> Handed | None:
        """Who gave the tensor to the function that sets its flag."""
        return handed(self.failure, self.tensor) if self.use == "flag" else None

    @cached_property
    def _held(self) -> str:
        return held_as(self.failure, self.copied, self.tensor) if self.tensor is not None else ""

    @property
    def path(self) -> str:
        """What the statement that copies can call it."""
        return self._held if self._held and not self.hook else self.name

    @property
    def hook(self) -> str:
        """The module by whose hook what is copied holds it; empty if it holds it itself."""
        return before if (before := self._held.partition("._forward_hooks[")[0]) != self._held else ""

    @cached_property
    def made(self) -> Place | None:
        """Where it was computed: as a watch has seen it, else as the text shows."""
        if self.tensor is None or self.failure.user is None or maker_of(self.tensor) is None:
            return None
        watch = current()
        line = watch.line_of(survey((self.tensor,), frames=self.failure.frames).graph.roots[0]) if watch else None
        return line.place if line is not None and line.text else self._read

    @cached_property
    def stored(self) -> Place | None:
        """The statement that gave the variable its value, or the attribute."""
        if self.tensor is None or self.failure.user is None:
            return None
        if self.made is not None and self._binds(self.made):
            return self.made
        return self.filled[0] if self.filled is not None else self._read

    @cached_property
    def filled(self) -> tuple[Place, str] | None:
        """The only statement that puts an entry into the dict or list that holds it, `self.maps[name] = attention`, and
        the same with the entry detached."""
        container, bracket, _ = self.name.rpartition("[")
        attribute, found = container.rpartition(".")[2], list[tuple[Place, str]]()
        for body in (each for file in user_files(self.failure) for each in functions(file)) if bracket else ():
            for each in statements(body.node):
                for target, value in assigned(each):
                    held = dotted(target.value) if isinstance(target, ast.Subscript) else None
                    if held is not None and held.rpartition(".")[2] == attribute:
                        new = rewritten(body, each, {value: f"{simple(body.text(value))}.detach()"})
                        found.append((body.place(each), new))
        return only(found)

    @cached_property
    def _read(self) -> Place | None:
        """What the text says of it."""
        if self.tensor is None or self.failure.user is None:
            return None
        origin = made(Held(self.failure, self.failure.user, self.text or self.name, self.tensor))
        return origin.place if origin else None

    def _binds(self, place: Place) -> bool:
        """Whether a statement assigns the attribute, whatever the object is called there."""
        statement = read_at(place)[1]
        owner, _, attribute = self.name.rpartition(".")
        names = (each.rpartition(".") for each in bound(statement)) if statement is not None else ()
        return any(last == attribute and bool(first) is bool(owner) for first, _, last in names)

    @cached_property
    def copied(self) -> str:
        """What the user's line calls the object that is copied."""
        return copied_in(self.failure) if self.use == "copied" else ""

    @cached_property
    def kept(self) -> list[Kept]:
        """Every result that it keeps, with the refused one among them."""
        found = results_kept(self.failure.user, self.copied) if self.failure.user else []
        return found if any(f"{self.path}[".startswith(f"{each.path}[") for each in found) else []

    @cached_property
    def is_pruned(self) -> bool:
        """Whether it is a weight that pruning computes."""
        owner, _, attribute = self.name.rpartition(".")
        holder = self.failure.user.value(owner) if owner and self.failure.user else None
        return self.use == "copied" and is_module(holder) and pruned(holder, attribute)

    @property
    def _is_emptied(self) -> bool:
        """Whether the statement that gives the variable its value makes an empty container."""
        return self.stored is not None and self.stored.text.endswith(("= []", "= {}"))

    @property
    def are_several(self) -> bool:
        """Whether more is refused than one attribute of a kind of module: all of it is told, and detached."""
        return len(self.kept) > 1 and (self.is_pruned or len({each.name for each in self.kept}) > 1)

    @property
    def is_carried(self) -> bool:
        """Whether the statement that stores it reads it, too: `self.h = self.cell(x, self.h)`."""
        statement = read_at(self.stored)[1]
        found = uses(statement) if statement is not None else []
        return bool({each.name for each in found if each.binds} & {each.name for each in found if not each.binds})

    @property
    def title(self) -> str:
        name = as_code(self.name) or "A tensor"
        match self.use:
            case "values" if self.parts is not None:
                return f"{as_code(self.parts[0])} holds tensors that require grad, but NumPy arrays carry no gradient."
            case "copied" if self.are_several:
                every = listed([as_code(each.path) for each in self.kept], 4)
                what = "are" if all(each.kind is torch.Tensor for each in self.kept) else "are or hold"
                return (
                    f"{every} {what} non-leaf tensors: they cannot be copied, because the copies would have no graph."
                )
            case "copied":
                return f"{name} is a non-leaf tensor: it cannot be copied, because the copy would have no graph."
            case "values":
                return f"{name} requires grad, but NumPy arrays carry no gradient."
            case "flag":
                return (
                    f"{name} is a non-leaf tensor, so its requires_grad cannot be set: it requires grad because "
                    "its inputs do."
                )
        if self._is_sample:
            name = as_code(self.name) or "A sample of the dataset"
            return f"{name} requires grad, but DataLoader workers can only pass values."
        return f"{name} requires grad, but a result written to out= has no gradient."

    @property
    def wanted(self) -> bool:
        """What `requires_grad` was to be; PyTorch adds how to be without a gradient where it was to be False."""
        return "var.detach()" not in self.failure.message

    @property
    def _runs_model(self) -> bool:
        """Whether the refused expression itself runs a module."""
        level = self.failure.user
        return level is not None and any(
            self.text in level.body.text(node) or level.body.text(node) in self.text
            for node in calls_in(level.statement)
            if level.body and self.text and is_module(value_of(level, node.func))
        )

    @property
    def _is_sample(self) -> bool:
        """Whether a DataLoader's worker put it into a batch."""
        files = [level.frame.f_code.co_filename for level in self.failure.levels]
        return any(_COLLATE in each for each in (self.failure.message, *files))

    @cached_property
    def differentiated(self) -> tuple[Level, Level] | None:
        """The backward of a custom Function in which it is refused, and the line that runs it to take a gradient with a
        graph of its own: what that backward computes must be differentiable, too."""
        levels = self.failure.levels
        at = next((k for k in range(len(levels) - 1, -1, -1) if levels[k].runs_custom("backward")), None)
        if at is None or self.failure.user not in levels[at:]:
            return None
        engine = next((k for k in range(at, -1, -1) if levels[k].frame.f_code in ENGINE_CALLS), None)
        if engine is None or levels[engine].variables.get("create_graph") is not True:
            return None
        asking = next((each for each in reversed(levels[:engine]) if each in self.failure.users), None)
        return (levels[at], asking) if asking is not None else None

    @cached_property
    def back(self) -> Place | None:
        """The statement that makes a tensor again of the values of what is trained."""
        level = self.failure.user
        if self.use != "values" or level is None or level.body is None or not self._owned:
            return None
        return back_in(level.body, level.line)

    @cached_property
    def _owned(self) -> list[str]:
        """What an optimizer trains of the leaves that it is computed from."""
        results = (self.tensor,) if self.tensor is not None else ()
        leaves = survey(results, frames=self.failure.frames).graph.leaves if results else ()
        return [leaf.name for leaf in leaves if leaf.owner and leaf.name]

    @property
    def _trained(self) -> list[str]:
        """What an optimizer trains of the leaves that it is computed from, if the loss reaches them by it alone."""
        values = self.parts[1] if self.parts else [self.tensor]
        results = tuple(each for each in values if needs_gradient(each))
        graph = survey(results, frames=self.failure.frames).graph if results else None
        leaves = [leaf for leaf in graph.leaves if leaf.owner] if graph else []
        reached = reaches_otherwise(self.failure, {id(leaf.tensor()) for leaf in leaves})
        return [leaf.name for leaf in leaves if leaf.name] if reached is False else []

    def evidence(self) -> Iterator[Fact]:
        """Where it is computed, and where it is refused."""
        level = self.failure.user
        if self.differentiated is not None and level is not None:
            backward, asking = self.differentiated
            function = backward.function.rpartition("<locals>.")[2]
            yield shown(asking.place, f"runs {function} with create_graph=True, so it is differentiated as well.")
            yield shown(level.place, "passes it to NumPy.")
            return
        if self.in_worker is not None and self.in_worker.place != self.failure.told:
            yield shown(self.in_worker.place, self.in_worker.why, "read")
        if self.parts is not None and level is not None:
            yield from origins(level, *self.parts)
            yield shown(level.place, "passes what is computed from them to NumPy.")
            return
        if self.made is not None and (level is None or self.made.position != level.place.position):
            shape = f", {tensor_of(shape_of(self.tensor))}" if self.tensor is not None else ""
            yield shown(self.made, f"computes {as_code(self.name) or 'it'}{shape}.")
        if self.is_pruned:
            yield told_of_pruning(self.kept, self.name.rpartition(".")[2])
        elif self.use == "copied" and self.stored and self.stored != self.made and not self._is_emptied:
            yield shown(self.stored, "keeps it attached to its graph.")
        if level is not None:
            which = "them" if self.are_several else "it"
            whole = f", through a hook of {as_code(self.hook)}" if self.hook else ""
            whole = f"copies {self.copied}, which holds {which}{whole}."
            whole = whole if self.copied not in ("", self.name) else "copies it."
            yield from passed(self._handed)
            says = {
                "copied": whole,
                "values": "passes it to NumPy.",
                "flag": f"sets requires_grad to {self.wanted}, which only works on a leaf.",
                "out": "computes with out=.",
            }
            yield shown(level.place, says[self.use])
            if self.back is not None and self.back.line != level.line:
                yield shown(self.back, "makes a tensor of it again, which has no graph.")

    def _written(self, values: str) -> str:
        """How the array is made of the values, as the statement that asks for it."""
        level = self.failure.user
        body, statement = (level.body, level.statement) if level is not None else (None, None)
        if level is None or body is None or statement is None:
            return values
        if arrays := [each for each in calls_in(statement) if callee(each)[1] == "numpy"]:
            own = [each for each in arrays if (of := callee(each)[0]) is not None and body.text(of) == self.text]
            new = rewritten(body, statement, dict.fromkeys(own, values)) if own else ""
            return on_line(level.place, new) if new else values
        read = [each for each in expressions(statement) if self.text and body.text(each) == self.text]
        new = rewritten(body, statement, dict.fromkeys(read, values)) if read else ""
        return f"{values}{write(level.place, new) if new else ''}"

    @property
    def fix(self) -> str:
        if self.in_worker is not None:
            return self.in_worker.fix
        name, level = self.name or "tensor", self.failure.user
        plain = simple(name)
        match self.use:
            case "copied":
                return fix_of_copy(self, plain)
            case "values":
                return self._fix_of_values(name)
            case "flag" if level is not None:
                return fix_of_flag(Flag(self.failure, level, self.text, name, self.tensor, self.wanted))
        if self._is_sample:
            where = "call detach() where it computes them, or compute under torch.no_grad()"
            return f"Make the dataset return values: {where}."
        how = self._without_out
        if self.tensor is not None and maker_of(self.tensor) is None:
            return f"Drop out={how}. {plain}.detach() would silence the error, but this result would not train {name}."
        return f"Drop out={how}. {OR}Or pass only values, {plain}.detach(), if you need no gradient."

    def _fix_of_values(self, name: str) -> str:
        level, parts, text = self.failure.user, self.parts, simple(self.text or name)
        if self.differentiated is not None and level is not None:
            return _differentiable(level, self.text or name)
        moved = ".cpu()" if self.tensor is not None and self.tensor.device.type != "cpu" else ""
        # a worker has the loader's items alone, and no loss
        beside = reaches_otherwise(self.failure) if get_worker_info() is None else None
        trained = self._trained if beside else ()
        if level is not None and (beside is False or trained):
            arrays = {**_arrays(level), **({parts[0]: "several"} if parts else {})}
            lines = in_pytorch(level.body, level.place.line, self.text, arrays, _alike(level)) if level.body else ""
            read, values = (parts[0], "detached values") if parts else (name, f"{text}.detach().numpy()")
            if not (parts or self.name):
                read, values = "it", "detached values"
            why = "" if trained else f", because the loss depends on {read} only through this result"
            lost = f"this loss would not train {listed(trained, 3)}" if trained else "the loss would have no graph"
            how = lines or f"use {read} itself, and the functions of torch"
            return f"Compute it in PyTorch{why}: {how}. With {values}, {lost}."
        if parts is not None and level is not None:
            return self._fix_of_list(level, *parts, beside=bool(beside))
        values = f"{text}.detach(){moved}.numpy()"
        if beside is None and self.back is not None:
            return (
                f"If a loss depends on what line {self.back.line} makes of it, compute it in PyTorch, from {name} on: "
                f"with {values}, that loss would not train {listed(self._owned, 3)}. If none does, {values} is right."
            )
        written, other = self._written(values), "Compute a loss that depends on them in PyTorch instead."
        if self._runs_model and level is not None:
            block = "with torch.no_grad():"
            block = f"put line {level.place.line} inside `{block}`{wrap(level.place, block)}"
            then = "" if beside else f" {other}"
            return f"For its values only: {written}. {OR}Or {block}: then no graph is recorded.{then}"
        if beside:
            written = sentence(written) if written.startswith("on line") else f"Write {written}"
            return f"{written}: the result enters the loss as a constant, and the loss reaches the model without it."
        cheaper = " If you need no gradient at all, compute it under torch.no_grad()." if self.made else ""
        return f"For its values only: {written}. {other}{cheaper}"

    def _fix_of_list(self, level: Level, name: str, parts: list[torch.Tensor], *, beside: bool) -> str:
        """How the values are taken of a list of results."""
        kept = appended(level, name)
        detached = on_line(kept.place, kept.detached) if kept is not None and kept.detached else ""
        if kept is not None and kept.stepped and detached:
            return (
                f"Keep the values alone: {detached}. backward() does not go through the list, which would keep every "
                "graph in memory."
            )
        then = "" if beside else " If a loss depends on them, compute it in PyTorch instead."
        if kept is not None and detached and run_in_turn(parts):
            then = f" {OR}Or, if backward() runs on each by itself, keep no graphs in {kept.name}: {detached}."
        return f"For its values only: on line {level.line}, {detached_parts(level, name, parts)}.{then}"

    @property
    def _without_out(self) -> str:
        """The failing statement without out=, to which the result is assigned where nothing else reads that tensor."""
        level = self.failure.user
        body, statement = (level.body, level.statement) if level is not None else (None, None)
        call = only(each for each in calls_in(statement) if keyword(each, "out") is not None)
        if level is None or body is None or statement is None or call is None:
            return ""
        given = [
            *map(body.text, call.args),
            *(f"{k.arg}={body.text(k.value)}" for k in call.keywords if k.arg != "out"),
        ]
        out, new = keyword(call, "out"), f"{body.text(call.func)}({', '.join(given)})"
        if not isinstance(statement, ast.Expr) or statement.value is not call or not isinstance(out, _ASSIGNED):
            line = rewritten(body, statement, {call: new})
        elif _is_all_of_it(level, out):
            line = f"{body.text(out)} = {new}"
        else:
            return f", and use the result of `{new}` wherever {body.text(out)} is read"
        return f": {on_line(level.place, line)}" if line and all(each.arg for each in call.keywords) else ""


def _is_all_of_it(level: Level, out: ast.expr) -> bool:
    """Whether to assign to what a result is written to does the same: no view of a tensor, and no caller's own."""
    held = value_of(level, out)
    code, plain = level.frame.f_code, base_of(held) is None
    if isinstance(out, ast.Name):
        given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return plain and out.id not in given and (out.id in code.co_varnames or code.co_name == "<module>")
    return plain and isinstance(out, ast.Attribute)


def _differentiable(level: Level, text: str) -> str:
    """How a backward computes what is differentiated again."""
    lines = in_pytorch(level.body, level.line, text, _arrays(level)) if level.body else ""
    return (
        f"Compute the gradient with PyTorch operations, which can be differentiated again"
        f"{f': {lines}' if lines else f', from {text} on'}. {simple(text)}.detach() would silence the error, but the "
        "second derivative would take what is computed from it as constant."
    )


def _tensors(failure: Failure, use: str) -> Iterator[tuple[str, torch.Tensor | None]]:
    """What may have been refused, the likeliest first: what the statement names, then what PyTorch's frames hold."""
    level, said = failure.user, ""
    for node in _operands(level, use) if level else ():
        value = value_of(level, node) if level else None
        text = level.body.text(node) if level and level.body else ""
        if is_tensor(value) and needs_gradient(value):
            yield text, value
        said = said or ("" if value is not None else text)
    for each in reversed(failure.levels):
        held = (each.variables.get(name) for name in ("self", "tensor", "obj"))
        yield from (("", value) for value in held if each is not level and is_tensor(value) and needs_gradient(value))
    if said and use in ("values", "flag"):
        yield said, None


def _alike(level: Level) -> list[Part]:
    """The statements below that pass NumPy the results of calls of the same tensors, in the same form: they would fail
    next."""
    body, failing = level.body, level.statement
    if body is None or not isinstance(failing, ast.Assign):
        return []
    every = [(each, _results_passed(each)) for each in block_of(body, failing) if each.lineno >= level.line]
    wanted = next((form for each, form in every if each is failing), None)
    alike = [each for each, form in every if wanted is not None and form == wanted and each is not failing]
    return [Part(body, each.lineno, frozenset()) for each in alike]


def _results_passed(statement: ast.stmt) -> tuple[str, str, str] | None:
    """What NumPy does with the results of calls, over what, and of what they are: `np.sum([f(x) for x in xs])`."""
    call = statement.value if isinstance(statement, ast.Assign) else None
    given = only(call.args) if isinstance(call, ast.Call) and library(call.func) == "numpy" else None
    match given:
        case ast.ListComp(elt=ast.Call(args=args) as inner, generators=[each]) if library(inner.func) != "numpy":
            return ast.dump(call.func), ast.dump(each), repr([*map(ast.dump, args)])  # type: ignore[union-attr]
    return None


def _arrays(level: Level) -> dict[str, str]:
    """The variables that hold arrays of NumPy's, with the kind of their numbers."""
    every = level.variables.items()
    return {name: value.dtype.kind for name, value in every if isinstance(value, numpy.ndarray)}


def _operands(level: Level, use: str) -> Iterator[ast.expr]:
    """The expressions of the failing statement that may stand for it."""
    statement = level.statement
    if isinstance(statement, ast.Assign) and use == "flag":
        yield from (each.value for each in statement.targets if isinstance(each, ast.Attribute))
    calls = list(calls_in(statement))
    if use in ("values", "flag"):
        methods = [node for node in calls if callee(node)[1] in ("numpy", "requires_grad_", "__array__")]
        here = [node for node in methods if (node.lineno, node.col_offset) == (level.line, level.column)] or methods
        found = [receiver for node in here if (receiver := callee(node)[0]) is not None]
        yield from found
        calls = [] if found else calls
    for node in calls:
        yield from node.args
