"""Remedies for two dtypes in one operation, which some refuse only in their backward: `huber_loss` of both floats."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from backsight.diagnosis.errors.remedies.remedy import Match, Remedy, remedy
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.wording import described, listed, shown
from backsight.findings.evidence import Fact
from backsight.naming.plain import namespace
from backsight.snapshot import survey
from backsight.source import Body, Place, assignments, read_at, statement_at
from backsight.source.ancestry import Ancestor, ancestors
from backsight.source.bindings import parameters_of
from backsight.source.body import callee, calls_in, dotted, expressions, keyword, statements
from backsight.source.edits import OR, on_line, put, write
from backsight.source.rewriting import rewritten, simple, with_flag
from backsight.story.evaluated import value_of
from backsight.story.failure import Level, around_engine
from backsight.story.memory import is_module, is_tensor, needs_gradient, storage_of
from backsight.story.sections import methods_of
from backsight.tape import Node, registered
from backsight.tape.rows import dtype_name
from backsight.tracing import current

CASTS = {torch.float32: "float", torch.float64: "double", torch.float16: "half", torch.bfloat16: "bfloat16"}


_FACTORIES = frozenset({"zeros", "ones", "empty", "full", "rand", "randn", "eye", "linspace"})
_HALVES = (torch.float16, torch.bfloat16)


@remedy(r"dtype|scalar type|should be the same")
def _made_without_dtype(found: Refusal, match: Match) -> Remedy | None:
    """What torch.zeros() makes is float32, and what autocast computes is not: give it the dtype of the other."""
    level, body, failing = found.level, found.level.body, found.level.statement
    low = [(text, each) for text, each in found.tensors if each.dtype in _HALVES and simple(text) == text]
    if body is None or failing is None or not low or found.is_custom:
        return None
    text, of = low[0][0], dtype_name(low[0][1].dtype)
    plain = [name for name, each in found.tensors if each.dtype == torch.float32 and not needs_gradient(each)]
    made = [place for name in plain for place in assignments(body, name, before=level.line)[-1:]]
    for statement in (failing, *(statement_at(body, *each.position) for each in made)):
        call = next(filter(_is_plain_factory, calls_in(statement)), None)
        if statement is None or call is None:
            continue
        known = statement is failing or text.split(".")[0] in parameters_of(body.node)
        what = body.text(call.func)
        line = with_flag(body, statement, call, "dtype", f"{text}.dtype")
        if not known and not assignments(body, text, before=statement.lineno):
            reads = {node: f"{text}.float()" for node in expressions(failing) if body.text(node) == text}
            line, statement = rewritten(body, failing, reads), failing
        if line:
            return Remedy(
                f"{what}() makes float32, and {text} is {of}, as autocast computes it: "
                f"{on_line(body.place(statement), line)}.",
                place=body.place(statement),
            )
    return None


def _is_plain_factory(call: ast.Call) -> bool:
    receiver, name = callee(call)
    return name in _FACTORIES and dotted(receiver) == "torch" and keyword(call, "dtype") is None


@remedy(r"same dtype|expected scalar type|dtypes match|[Ii]nput type .* should be the same|Found dtype")
def _other_dtype(found: Refusal, match: Match) -> Remedy | None:
    """Data of another dtype than the weights: cast where the program gets it, with what comes with it."""
    every = [each for _, each in found.tensors]
    weights = [each for each in every if isinstance(each, torch.nn.Parameter)]
    weight = next(iter([*weights, *filter(needs_gradient, every)]), None)
    if found.is_custom or weight is None or weight.dtype not in CASTS or torch.is_autocast_enabled(weight.device.type):
        return None
    odd = [each for _, each in found.tensors if each.dtype != weight.dtype and each.is_floating_point()]
    if not odd or any(needs_gradient(each) for each in odd):
        return None
    return _cast_above(found, odd, weight.dtype)


def _cast_above(found: Refusal, odd: list[torch.Tensor], dtype: torch.dtype) -> Remedy | None:
    """Where a function that still runs gives variables these tensors, the outermost that does."""
    casts = (_cast_at(level, odd, CASTS[dtype]) for level in reversed(found.failure.users)) if dtype in CASTS else ()
    return next(filter(None, casts), None)


def _cast_at(level: Level, odd: list[torch.Tensor], cast: str) -> Remedy | None:
    """Where a loop or an assignment gives variables these tensors: what to put below it."""
    tensor = odd[0]
    names = [name for name, value in level.variables.items() if value is tensor]
    for each in (each for each in statements(level.body) if each.lineno <= level.line):
        bound_here = _targets(each)
        if level.body is None or not any(name in bound_here for name in names):
            continue
        values = {name: level.value(name) for name in bound_here}
        alike = [name for name, value in values.items() if is_tensor(value) and value.dtype == tensor.dtype]
        if any(all(values[name] is not each for name in alike) for each in odd):
            continue
        line = f"{', '.join(alike)} = {', '.join(f'{name}.{cast}()' for name in alike)}"
        if isinstance(each, ast.For):
            where = f"as the first line of the loop on line {each.lineno}, put"
        elif isinstance(each, ast.Assign) and each is not level.statement:
            where = f"below line {each.end_lineno or each.lineno}, put"
        else:
            continue
        dtype = dtype_name(tensor.dtype)
        by = ", as NumPy's numbers are" if tensor.dtype == torch.float64 else ""
        return Remedy(
            f"{listed(alike, 3)} {'is' if len(alike) == 1 else 'are'} {dtype}{by}: {where} `{line}`"
            f"{put(line, 'below', level.body.place(each))}.",
            (shown(level.body.place(each), f"gets {listed(alike, 3)}, of dtype {dtype}."),),
            level.body.place(each),
        )
    return None


def _targets(statement: ast.stmt) -> list[str]:
    """The names that a loop or an assignment gives a value to, those of a tuple in their order."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    targets = [statement.target] if isinstance(statement, ast.For) else targets
    names = (node for each in targets for node in ast.walk(each) if isinstance(node, ast.Name))
    return [each.id for each in names if isinstance(each.ctx, ast.Store)]


class _Given(NamedTuple):
    """The operation, and what it has saved: the tensor to convert, and the one whose dtype it should have."""

    node: Node
    other: torch.Tensor
    kept: torch.Tensor


@remedy(r"Found dtype (?P<got>\w+) but expected (?P<due>\w+)")
def _of_two_dtypes(found: Refusal, match: Match) -> Remedy | None:
    given = _given(found, match)
    if given is None:
        return None
    name, kept = names_of(found.failure, [given.other, given.kept])
    place = _place(found, given)
    body, statement = read_at(place)
    text, like = (_called(found, body, statement, each) for each in (given.other, given.kept))
    what, beside = _told(text or name, given.other), _told(like or kept, given.kept)
    took = [shown(place, f"takes {what}, and {beside}.")] if place else [f"It was given {what}, and {beside}."]
    to = f"{like}.dtype" if like else str(given.kept.dtype)
    nodes = [node for node in expressions(statement) if text and dotted(node) == text]
    new = rewritten(body, statement, {nodes[0]: f"{text}.to({to})"}) if body and statement and len(nodes) == 1 else ""
    how = on_line(place, new) if new and place else f"{text or name}.to({to})"
    odd = [given.other, *_behind(found, given.other)] if not text else []
    above = next(filter(None, (_cast_above(found, [each], given.kept.dtype) for each in odd)), None)
    if above is not None:
        return Remedy(
            f"The backward of this operation needs one dtype. {above.fix}", (*took, *above.evidence), above.place
        )
    if not new and not text and name.startswith("self.") and body is not None and statement is not None:
        read = [node for node in expressions(statement) if dotted(node) == name]
        line = rewritten(body, statement, {read[0]: how}) if len(read) == 1 else ""
        how += str(write(body.place(statement), line)) if line else ""
    which = text or name or f"the {described(given.other)}"
    kept_in = _kept_in(found, like, given.kept) if like else None
    usual = f" {OR}Or {kept_in.fix}" if kept_in is not None else ""
    return Remedy(
        f"The backward of this operation needs one dtype. Convert {which} before it: {how}.{usual}",
        (*took, *_origin(found, text or name, given.other), *(kept_in.evidence if kept_in is not None else ())),
        place,
    )


def _behind(found: Refusal, tensor: torch.Tensor) -> list[torch.Tensor]:
    """What a tensor that no function holds any more has its dtype from: all that the loss is made of of that dtype."""
    held = list[torch.Tensor]()
    for level in found.failure.users if not needs_gradient(tensor) else ():
        names = ancestors(level.body, level.receiver, level.line) if level.receiver else {}
        every = [
            value
            for name in names
            if is_tensor(value := level.value(name)) and (value.dtype, value.numel()) == (tensor.dtype, tensor.numel())
        ]
        held += [each for each in every if not needs_gradient(each) and not any(each is other for other in held)]
    return held if len(held) == 1 else []


def _kept_in(found: Refusal, name: str, tensor: torch.Tensor) -> Remedy | None:
    """The one attribute of the program's object from which a tensor has an unusual dtype, made of the usual one."""
    usual = torch.get_default_dtype()
    level = next((each for each in found.failure.users if each.value(name) is tensor), None)
    if level is None or tensor.dtype == usual or usual not in CASTS:
        return None
    held: dict[tuple[str, str], torch.Tensor] = {}
    for each in ancestors(level.body, name, level.line):
        owner, dot, attribute = each.rpartition(".")
        value = level.value(each)
        every = [(attribute, value)] if dot and is_tensor(value) else _tensors_of(value)
        held |= {
            (owner if dot and is_tensor(value) else each, key): one for key, one in every if one.dtype == tensor.dtype
        }
    (owner, attribute), kept = next(iter(held.items()), (("", ""), None))
    places = [(b, p) for b in methods_of(type(level.value(owner))) for p in assignments(b, f"self.{attribute}")]
    if len(held) != 1 or len(places) != 1 or kept is None:
        return None
    (body, place), *_ = places
    statement = statement_at(body, *place.position)
    value = statement.value if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    cast = f"{simple(body.text(value))}.{CASTS[usual]}()" if value is not None else ""
    new = rewritten(body, statement, {value: cast}) if statement is not None and value is not None else ""
    told = _told(f"{owner}.{attribute}", kept)
    if not new:
        return None
    evidence = shown(place, f"makes {told}, from which {name} has its dtype.", "read")
    return Remedy(f"make {owner}.{attribute} {dtype_name(usual)}: {on_line(place, new)}.", (evidence,))


def _tensors_of(value: object) -> Sequence[tuple[str, torch.Tensor]]:
    """The tensors that an object of the program keeps as attributes, buffers among them."""
    inside = {**(namespace(value) or {}), **(registered(value, "_buffers") if is_module(value) else {})}
    return () if is_tensor(value) else [(name, each) for name, each in inside.items() if is_tensor(each)]


def _told(name: str, tensor: torch.Tensor) -> str:
    kind = described(tensor)
    return f"{name}{', ' * bool(name)}{'an' if kind[0] in 'iu' else 'a'} {kind}"


def _given(found: Refusal, match: Match) -> _Given | None:
    """The operation at which backward stopped: it comes to the newest of those that have saved both dtypes first."""
    roots = tuple(each for each in around_engine(found.failure).roots if is_tensor(each))
    wanted = {getattr(torch, match[each].lower(), None) for each in ("got", "due")}
    for node in survey(roots, frames=found.failure.frames).graph.nodes if roots else ():
        saved = [tensor for each in node.saved if (tensor := each.tensor()) is not None]
        if {each.dtype for each in saved} == wanted and len(saved) == 2:
            kept, other = sorted(saved, key=lambda each: (not needs_gradient(each), not each.is_floating_point()))
            return _Given(node, other, kept)
    return None


def _place(found: Refusal, given: _Given) -> Place | None:
    """The statement of the operation: as a watch has seen it, else the one on the way to the loss that reads both."""
    watch = current()
    if watch is not None and (line := watch.line_of(given.node)) is not None:
        return line.place
    for level in found.failure.users:
        behind = ancestors(level.body, level.receiver, level.line) if level.receiver else {}
        for each in (place for made in behind.values() for place in made.bound):
            statement = statement_at(level.body, *each.position)
            held = [value_of(level, node) for node in expressions(statement)]
            if all(any(_is_same(value, each) for value in held) for each in (given.other, given.kept)):
                return each
    return None


def _is_same(value: object, tensor: torch.Tensor) -> bool:
    """Whether a value is a tensor, or what that is detached from."""
    if value is tensor or not is_tensor(value) or not storage_of(value) == storage_of(tensor) is not None:
        return value is tensor
    return (value.dtype, value.shape, value.stride()) == (tensor.dtype, tensor.shape, tensor.stride())


def _called(found: Refusal, body: Body | None, statement: ast.stmt | None, tensor: torch.Tensor) -> str:
    """What a statement calls a tensor, if its function still runs."""
    for level in found.failure.users:
        if body is not None and level.body is not None and level.body.node is body.node:
            names = ((dotted(node), value_of(level, node)) for node in expressions(statement))
            return next((name for name, value in names if name and _is_same(value, tensor)), "")
    return ""


def _origin(found: Refusal, name: str, tensor: torch.Tensor) -> Iterator[Fact]:
    """What a tensor has its dtype from: the names of the same dtype that it was computed from, and nothing before."""
    for level in found.failure.users:
        if level.body is None or not _is_same(level.value(name), tensor):
            continue
        every = ancestors(level.body, name, level.line)
        held = {each: value for each in every if each != name and is_tensor(value := level.value(each))}
        alike = {each: value for each, value in held.items() if value.dtype == tensor.dtype}
        for each, value in alike.items():
            before = set(ancestors(level.body, each, every[each].read.line)) - {each}
            if not before & alike.keys():
                for place in _last(every[each]):
                    yield shown(place, f"gives {_told(each, value)}, from which {name} has its dtype.")
        if not alike and name in every:
            for place in _last(every[name]):
                yield shown(place, f"gives {_told(name, tensor)}.")
        return


def _last(ancestor: Ancestor) -> list[Place]:
    """The last statement that gives a variable a value before it is read; in a loop it may stand below."""
    every = sorted(ancestor.bound, key=lambda each: each.position)
    return [each for each in every if each.position < ancestor.read.position][-1:] or every[-1:]


@remedy(
    r"result type (\w+) can't be cast to the desired output type (Byte|Char|Short|Int|Long|Bool)"
    r"|Found dtype (Byte|Char|Short|Int|Long|Bool) but expected"
)
def _into_integers(found: Refusal, match: Match) -> Remedy | None:
    """A loss was given labels as integers, or a tensor of integers is changed by floats."""
    body, statement = found.level.body, found.level.statement
    if body is None or statement is None:
        return None
    whole = [(text, each) for text, each in found.tensors if not (each.is_floating_point() or each.is_complex())]
    if isinstance(statement, ast.AugAssign):
        text, into = body.text(statement.target), value_of(found.level, statement.target)
        if not is_tensor(into) or not any(into is each for _, each in whole):
            return None
        return Remedy(
            f"{text} holds {dtype_name(into.dtype)}, and cannot take other numbers in place: make it floating point "
            "where it is created."
        )
    given = found.below[-1].variables if found.below else {}
    target, scores = given.get("target"), given.get("input")
    if not is_tensor(target) or not is_tensor(scores) or scores.dtype not in CASTS:
        return None
    if target.is_floating_point() or target.is_complex():
        return None
    read = [node for node in expressions(statement) if value_of(found.level, node) is target]
    name = body.text(read[0]) if read else next((text for text, each in whole if each is target), "the target")
    cast = f"{simple(name)}.{CASTS[scores.dtype]}()"
    line = rewritten(body, statement, {read[0]: cast}) if len(read) == 1 else ""
    loss = found.below[-1].frame.f_code.co_name
    how = f": {on_line(found.level.place, line)}" if line else ""
    made = assignments(body, name, before=found.level.line)[-1:]
    maker = statement_at(body, *made[0].position) if made else None
    call = next(filter(_is_plain_factory, calls_in(maker)), None)
    line = with_flag(body, maker, call, "dtype", f"torch.{dtype_name(scores.dtype)}") if call and maker else ""
    if call is not None and line:
        how = f", as {body.text(call.func)}() makes of whole numbers: {on_line(made[0], line)}"
    needs = f"{loss}() needs a target in floating point, and {name} holds {dtype_name(target.dtype)}{how}."
    return Remedy(needs, place=made[0] if line and call is not None else None)
