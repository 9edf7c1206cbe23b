"""BS226: a function that torch.vmap maps over a batch does what differs from sample to sample in Python."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from backsight.diagnosis._torch import VMAP, unwrapped
from backsight.diagnosis.errors.mapped_loop import rounds
from backsight.diagnosis.errors.masked_write import masked_write
from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.evidence.selected import as_tensor, selected, whole
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import if_known, shown
from backsight.findings.evidence import Fact
from backsight.naming.plain import class_name, namespace
from backsight.source import Body, Place, assignments, only, statement_at
from backsight.source.bindings import uses
from backsight.source.body import (
    block_of,
    blocks,
    callee,
    calls_in,
    dotted,
    expressions,
    functions,
    given_to,
    is_compound,
    is_stored,
    statements,
)
from backsight.source.definitions import values_of
from backsight.source.edits import OR, Edit, lines_of, on_line, put, remove, write
from backsight.source.imports import library
from backsight.source.rewriting import rewritten, rewritten_line, simple, unparsed
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level, failure_of, message_of
from backsight.story.files import calls_in_files, user_files
from backsight.story.memory import is_module, is_tensor, shape_of, storage_of
from backsight.story.sections import methods_of
from backsight.tape import modules_in, registered

_LIKE = frozenset({"zeros", "ones", "empty", "full"})
_ITEM = re.compile(r"\.(\d+)")
_READS = {"item", "tolist", "numpy"}
_NUMBERS = {"float", "int", "bool", "range", "round", "list"}


@dataclass(frozen=True, eq=False)
class Mapped:
    """The function that is mapped, as far as it is the user's, and the call that maps it."""

    failure: Failure

    @cached_property
    def at(self) -> int:
        """The number of the level in which PyTorch maps a function; -1 where none does."""
        return max((k for k, level in enumerate(self.failure.levels) if level.frame.f_code is VMAP), default=-1)

    @cached_property
    def inner(self) -> Level | None:
        """The innermost function of the user's that runs under vmap."""
        levels = self.failure.levels
        return next((each for each in self.failure.users if self.at < 0 or levels.index(each) > self.at), None)

    @cached_property
    def outer(self) -> Level | None:
        """The function of the user's that calls what maps."""
        levels = self.failure.levels
        first = next((k for k, each in enumerate(levels) if each.frame.f_code is VMAP), -1)
        return next((each for each in self.failure.users if levels.index(each) < first), None)

    @cached_property
    def call(self) -> tuple[Body, ast.stmt, ast.Call] | None:
        """The statement that calls vmap, and that call; None where the text does not show it."""
        level = self.outer
        body, statement = (level.body, level.statement) if level else (None, None)
        if level is None or body is None or statement is None:
            return None
        for node in calls_in(statement):
            if callee(node)[1] == "vmap":
                return body, statement, node
        for node in calls_in(statement):
            name = dotted(node.func)
            owner, _, attribute = (name or "").rpartition(".")
            for method in methods_of(type(level.value(owner))) if owner and level.value(owner) is not None else ():
                for each in statements(method.node):  # self.step = vmap(...)
                    value = each.value if isinstance(each, ast.Assign) else None
                    to = dotted(each.targets[0]) if isinstance(each, ast.Assign) else ""
                    if to == f"self.{attribute}" and isinstance(value, ast.Call) and callee(value)[1] == "vmap":
                        return method, each, value
            for value in values_of(body, name, level.line) if name and "." not in name else ():
                if isinstance(value, ast.Call) and callee(value)[1] == "vmap":
                    made = statement_at(body, value.lineno, value.col_offset)
                    return (body, made, value) if made is not None else None
        return None

    @property
    def called_at(self) -> Place | None:
        """What maps it."""
        calling = self.outer.place if self.outer is not None else None
        return self.call[0].place(self.call[1]) if self.call is not None else calling

    @property
    def place(self) -> Place | None:
        """The failing statement of the function."""
        return self.inner.place if self.inner is not None else None

    @property
    def statement(self) -> ast.stmt | None:
        return self.inner.statement if self.inner is not None else None

    @property
    def body(self) -> Body | None:
        return self.inner.body if self.inner is not None else None

    def told(
        self, title: str, evidence: Sequence[Fact | None], fix: str, culprit: Place | None, *, exact: bool
    ) -> Finding:
        lines, known = (*evidence, if_known(self.called_at, "maps it.")), exact and culprit is not None
        return explanation(title, lines, fix, source=culprit or self.failure.source, exact=known)

    def sample(self, before: int, shape: tuple[int, ...] | None = None) -> str:
        """A tensor of one sample that the mapped function has before a line, of this shape where there is one: what it
        is given, and what the failing statement reads, first; empty where there is none."""
        level = self.inner
        if level is None or level.body is None:
            return ""
        code = level.frame.f_code
        given = code.co_varnames[: code.co_argcount]
        bound_in = dict.fromkeys(use.name for each in statements(level.body.node) for use in uses(each) if use.binds)
        made = [name for name in bound_in if assignments(level.body, name, before=before)]
        inside = [pair for name in given for pair in _parts(name, level.value(name))]
        every = [*((name, level.value(name)) for name in (*given, *made)), *inside]
        read = {dotted(node) for node in expressions(level.statement)}
        known = [(name, shape_of(value)) for name, value in every if _is_of_a_sample(value)]
        known.sort(key=lambda each: (each[1] != shape, each[0] not in given, each[0] not in read))
        return known[0][0] if known else ""


def _parts(name: str, value: object) -> Iterator[tuple[str, object]]:
    """What a dict, a list or an object holds, by how it is written."""
    if type(value) is dict:
        yield from ((f"{name}[{key!r}]", each) for key, each in value.items())
    elif type(value) is list or type(value) is tuple:
        yield from ((f"{name}[{k}]", each) for k, each in enumerate(value))
    elif not is_tensor(value):
        yield from ((f"{name}.{key}", each) for key, each in (namespace(value) or {}).items())


def _is_of_a_sample(value: object) -> bool:
    """Whether a tensor is one that vmap has wrapped: its memory, that of all samples, is not to be seen."""
    return is_tensor(value) and storage_of(value) is None


def is_under_vmap(error: BaseException) -> bool:
    """Whether an error comes from vmap: some of its texts are those of plain tensors too."""
    return message_of(error).startswith("vmap:") or Mapped(failure_of(error)).at >= 0


@explains(
    "BS226",
    r"vmap: (?P<written>\S.*?)\(self, \*extra_args\) is not possible",
    r"output with shape \[(?P<small>[\d, ]*)\] doesn't match the broadcast shape",
    r"vmap: called (?P<random>random) operation while in randomness error mode",
    r"vmap: Cannot ask for (?P<different>different) inplace randomness on an unbatched tensor",
    r"vmap: It looks like you're attempting to use a Tensor in some data-dependent (?P<flow>control flow)",
    r"vmap: It looks like you're (?:either \(1\) )?calling (?P<item>\.item\(\)) on a Tensor",
    r"vmap: We do not support batching operators that can \w+ (?P<dynamic>dynamic) shape",
    when=is_under_vmap,
)
def vmap(failure: Failure, match: re.Match[str]) -> Finding:
    """Say which statement of the mapped function cannot run for all samples at once, and how to write it."""
    said = {key for key, value in match.groupdict().items() if value is not None}
    mapped = Mapped(failure)
    if "random" in said:
        return _random(mapped)
    if "flow" in said:
        return _condition(mapped)
    if "item" in said:
        return _number(mapped)
    if "dynamic" in said:
        return _dynamic(mapped)
    return _written(mapped)


def _written(mapped: Mapped) -> Finding:
    """A tensor that all samples share is written with values that differ between them."""
    level, body, name = mapped.inner, mapped.body, _target(mapped.statement)
    writing = if_known(mapped.place, f"writes a different value per sample into {name or 'it'}.")
    base = name.partition("[")[0]
    if level is None or body is None or not base:
        fix = "Create the written tensor from a per-sample tensor: x.new_zeros(3) instead of torch.zeros(3)."
        title = "vmap: a tensor that all samples share is modified in place with per-sample values."
        return mapped.told(title, [writing], fix, mapped.place, exact=False)
    places = assignments(body, base, before=level.line + 1)
    made = next((each for each in reversed(places) if each != level.place), None)
    if made is None:
        x = mapped.sample(level.line, shape_of(level.value(base)))
        copy = f" Or write into a per-sample copy: {base} + torch.zeros_like({x})." if x else ""
        return mapped.told(
            f"{base} comes from outside the mapped function: all samples share it, but each writes its own values.",
            [writing],
            f"Return the values instead: vmap stacks what the function returns.{copy}",
            level.place,
            exact=level.value(base) is not None,
        )
    return mapped.told(
        f"{base} is one tensor for all samples, but each sample writes its own values into it.",
        [shown(made, f"creates {base} without the batch dimension."), writing],
        _batched(mapped, body, made, base),
        made,
        exact=True,
    )


def _target(statement: ast.stmt | None) -> str:
    """What a statement writes to: `out` of `out[i] = x`, `out += x` and `out.add_(x)`."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    for target in targets:
        node = target.value if isinstance(target, ast.Subscript) else target
        if isinstance(statement, ast.AugAssign) or isinstance(target, ast.Subscript):
            return dotted(node) or ""
    for receiver, method in map(callee, calls_in(statement)):
        if receiver is not None and method.endswith("_") and not method.endswith("__"):
            return dotted(receiver.value if isinstance(receiver, ast.Subscript) else receiver) or ""
    return ""


def _batched(mapped: Mapped, body: Body, made: Place, name: str) -> str:
    """The statement that makes a tensor, so that each sample has its own."""
    statement, x = statement_at(body, *made.position), mapped.sample(made.line)
    value = statement.value if isinstance(statement, ast.Assign) else None
    if not x:
        return f"Create {name} from a tensor of the sample, with its new_zeros() or torch.zeros_like()."
    if not isinstance(value, ast.Call):
        new = f"{name} = {name} + torch.zeros_like({x})"
        return f"Give each sample its own before writing to it: {new}{put(new, 'below', made) if statement else ''}."
    maker = callee(value)[1] if library(value.func) == "torch" else ""
    how, new = "Give each sample its own", f"{name} = {body.text(value)} + {x}.new_zeros(())"
    if maker in _LIKE:
        given = [*map(body.text, value.args), *(f"{k.arg}={body.text(k.value)}" for k in value.keywords if k.arg)]
        how, new = "Create it from a per-sample tensor", f"{name} = {x}.new_{maker}({', '.join(given)})"
    elif maker.endswith("_like"):
        how, new = "Create it like a per-sample tensor of the same shape", f"{name} = torch.{maker}({x})"
    alone = isinstance(statement, ast.Assign) and [*map(dotted, statement.targets)] == [name]
    return f"{how}: {new}{write(made, new) if alone else ''}."


def _random(mapped: Mapped) -> Finding:
    """Random numbers, and vmap is not told whether each sample gets its own."""
    module, mended = _running(mapped), 'vmap(..., randomness="different")'
    name = names_of(mapped.failure, [module])[0] if module is not None else ""
    kind = class_name(type(module)) if module is not None else ""
    path = _ITEM.sub(r"[\1]", name)  # of a Sequential
    who = f"{path} ({kind})" if path else f"A {kind}" if kind else "The function"
    if mapped.call is not None and (text := mapped.call[0].text(mapped.call[2])).endswith(")"):
        mended = f'{text[:-1]}, randomness="different")'
        mended += str(_instead(*mapped.call[:2], {mapped.call[2]: mended}))
    also = " The layer draws in training mode only: model.eval() disables it." if kind else ""
    return mapped.told(
        f"{who} draws random numbers under vmap, which does not know whether samples share them.",
        [if_known(mapped.place, "draws random numbers.")],
        f'To draw different numbers per sample: {mended}. randomness="same" shares them.{also}',
        mapped.called_at or mapped.place,
        exact=mapped.call is not None,
    )


def _instead(body: Body, statement: ast.stmt, changes: Mapping[ast.expr, str]) -> Edit:
    """A statement with some of its expressions written anew, as an edit."""
    return write(body.place(statement), rewritten(body, statement, changes))


def batch_norm_mapped(failure: Failure) -> Finding | None:
    """A batch norm under vmap: PyTorch refuses to update its statistics, in words of the batch or of the buffer."""
    mapped = Mapped(failure)
    refused = re.search("Batch norm got a batched tensor|would mutate a captured Tensor", failure.message)
    found = refused and mapped.at >= 0 and keeps_statistics(_running(mapped))
    return replace(_norm(mapped), code="BS226") if found else None


def _norm(mapped: Mapped) -> Finding:
    """A batch norm, whose running statistics all samples share: where each is made, and what to make instead."""
    module, instead = _running(mapped), ""
    name = _ITEM.sub(r"[\1]", names_of(mapped.failure, [module])[0]) if module is not None else ""
    held = mapped.inner.value(name.partition(".")[0].partition("[")[0]) if mapped.inner and name else None
    norms = [each for _, each in modules_in(held)] if is_module(held) else [module] if is_module(module) else []
    kinds = {class_name(type(each)) for each in norms if keeps_statistics(each)}
    calls = calls_in_files(mapped.failure)
    made = [(body, each, node) for body, each, node in calls if callee(node)[1] in kinds and node.args]
    places = [replace(body.place(each), line=node.lineno) for body, each, node in made]
    if 0 < len(made) <= _MOST:
        new = {node: f"nn.GroupNorm(1, {body.text(node.args[0])})" for body, _, node in made}
        edits = [
            str(_instead(body, each, {node: new[node] for _, one, node in made if one is each}))
            for each, body in {each: body for body, each, _ in made}.items()
        ]
        written = "; ".join(f"line {node.lineno}: {text}" for node, text in new.items())
        instead = f" ({written}){''.join(edits)}"
    named = only([] if made else _named(mapped.failure, kinds))
    return mapped.told(
        f"{name or 'A batch norm'}{f' ({class_name(type(module))})' if name else ''} updates its running statistics "
        "in place, and under vmap all samples share them.",
        [
            *(shown(place, "creates a batch norm.") for place in places[:_MOST]),
            shown(named[0], f"names the class, {named[1]}.") if named else None,
            if_known(mapped.place, f"runs {name or 'it'}."),
        ],
        f"Replace each batch norm with a layer that keeps no statistics: nn.GroupNorm{instead}. {OR}Or, to normalize "
        "each sample by its own statistics, call torch.func.replace_all_batch_norm_modules_(model) before the "
        "parameters and buffers are collected.",
        places[0] if places else named[0] if named else mapped.place,
        exact=bool(name),
    )


def _named(failure: Failure, kinds: Collection[str]) -> Iterator[tuple[Place, str]]:
    """Where the program has a class that it does not call by its name: in a dict of layers, as an argument."""
    for module in (next(functions(file), None) for file in user_files(failure)):
        for each in ast.walk(module.node) if module is not None else ():
            if isinstance(each, ast.stmt) and not is_compound(each):
                found = [node for node in expressions(each) if (dotted(node) or "").rpartition(".")[2] in kinds]
                yield from ((module.place(each), module.text(node)) for node in found if module is not None)


def keeps_statistics(module: object) -> bool:
    """Whether a module is a batch norm, or the like, with running statistics."""
    return is_module(module) and "running_mean" in registered(module, "_buffers")


_MOST = 3
"""Batch norms that are told one by one."""


def _running(mapped: Mapped) -> object:
    """The module of PyTorch's whose forward runs: the innermost on the stack."""
    users = set(map(id, mapped.failure.users))
    for level in reversed(mapped.failure.levels[mapped.at + 1 :]):
        if id(level) in users:
            return None
        if is_module(level.variables.get("self")):
            return level.variables["self"]
    return None


def _condition(mapped: Mapped) -> Finding:
    """A branch that depends on a value, which every sample would take by its own."""
    test = _test(mapped.statement)
    text = mapped.body.text(test) if mapped.body is not None and test is not None else ""
    does = "branches on a value that differs from sample to sample." if text else "needs the value of a tensor."
    return mapped.told(
        f"A branch depends on {text or 'the value of a tensor'}, which has one value per sample under vmap.",
        [if_known(mapped.place, does)],
        _checked_outside(mapped) or _without_branch(mapped, text),
        mapped.place,
        exact=bool(text),
    )


def _checked_outside(mapped: Mapped) -> str:
    """What to do with a branch that gives no result, and only raises, warns or prints; empty for any other.

    Where that is all that its function was called for, it is the call that is to be moved.
    """
    level, statement, users = mapped.inner, mapped.statement, mapped.failure.users
    decided = [each for _, block in blocks(statement) for each in block] if isinstance(statement, ast.If) else []
    only_reports = decided and all(map(_reports, decided)) and not isinstance(decided[-1], ast.Assign)
    if level is None or not (isinstance(statement, ast.Assert) or only_reports):
        return ""
    check = users[users.index(level) + 1] if level is not users[-1] else None
    alone = check is not None and check is not mapped.outer and isinstance(check.statement, ast.Expr)
    what = f": take line {check.line}, `{check.place.text}`, out of it" if check and alone else ""
    where = f"above line {mapped.outer.line}, " if mapped.outer else ""
    inside = check if check and alone else level
    code = _outside(mapped, inside, inside.statement) if inside.statement and _is_of_all(mapped) else ""
    if not code or mapped.outer is None:
        return f"Check it outside the mapped function{what}, and check the whole batch {where}before it is mapped."
    first, last = inside.statement.lineno, inside.statement.end_lineno or 0  # type: ignore[union-attr]  # as asked
    lines = lines_of(inside.place.file, *range(first, last + 1))
    what = what or f": take line{'s' * (last > first)} {first}{f' to {last}' if last > first else ''} out of it"
    first_line, _, rest = code.partition("\n")
    head = f"it, as `{first_line}`," if rest else f"`{code}`"
    return (
        f"Check it outside the mapped function{what}, and check the whole batch before it is mapped: put {head} above "
        f"line {mapped.outer.line}{put(code, 'above', mapped.outer.place)}{remove(lines)}."
    )


def _is_of_all(mapped: Mapped) -> bool:
    """Whether a branch asks whether any, or all, entries are of a kind: then it may ask this of all samples at once."""
    test = _test(mapped.statement)
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    if isinstance(test, ast.Name) and mapped.inner is not None and mapped.body is not None:
        test = only(values_of(mapped.body, test.id, mapped.inner.line))
    given = given_to(test) if isinstance(test, ast.Call) else []
    return isinstance(test, ast.Call) and callee(test)[1] in ("any", "all") and len(given) == 1 and not test.keywords


def _outside(mapped: Mapped, inside: Level, statement: ast.stmt) -> str:
    """A statement of the mapped function as it is written where that is mapped, of all samples; empty where one of its
    names stands for something else there, or where it is all of its block."""
    outer, body, changes = mapped.outer, inside.body, dict[ast.expr, str]()
    if outer is None or body is None or len(block_of(body, statement)) < 2:
        return ""
    whole = {storage_of(held): name for name, held in outer.variables.items() if storage_of(held) is not None}
    named = [each for each in ast.walk(statement) if isinstance(each, ast.Name) and not hasattr(builtins, each.id)]
    own = {each.id for each in named if is_stored(each)}
    for node in (each for each in named if each.id not in own):
        held = inside.value(node.id)
        name = whole.get(storage_of(unwrapped(held))) if _is_of_a_sample(held) else node.id
        if name is None or held is None or not (_is_of_a_sample(held) or outer.value(name) is held):
            return ""
        changes[node] = name
    return unparsed(statement, changes) if is_compound(statement) else rewritten(body, statement, changes)


def _reports(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=function)):
            return dotted(function) in ("print", "warnings.warn")
        case ast.Assign(value=ast.Constant() | ast.JoinedStr()):  # what it says
            return True
    return isinstance(statement, ast.Raise)


def _test(statement: ast.stmt | None) -> ast.expr | None:
    if isinstance(statement, ast.If | ast.While | ast.Assert):
        return statement.test
    for node in expressions(statement):
        if isinstance(node, ast.IfExp):
            return node.test
        if isinstance(node, ast.BoolOp):
            return node.values[0]
        if isinstance(node, ast.Call) and callee(node)[0] is None and callee(node)[1] in ("max", "min", "bool", "all"):
            return node
    return None


def _without_branch(mapped: Mapped, text: str) -> str:
    level, body, statement = mapped.inner, mapped.body, mapped.statement
    for node in expressions(statement):
        if isinstance(node, ast.IfExp) and level and body and statement:
            chosen = f"torch.where({as_tensor(level, node.test)}, {whole(node.body)}, {whole(node.orelse)})"
            line = rewritten(body, statement, {node: chosen})
            where = f" on line {statement.lineno}{write(body.place(statement), line)}" if line else ""
            return f"Compute both and select: write `{line or chosen}`{where}."
        if isinstance(node, ast.Call) and callee(node)[0] is None and callee(node)[1] in ("max", "min"):
            kind = "maximum" if callee(node)[1] == "max" else "minimum"
            return f"Use torch.{kind}(a, b), or clamp() with a number."
    condition = text or "condition"
    if isinstance(statement, ast.While):
        return f"Run a fixed number of steps and keep what has converged: x = torch.where({condition}, step(x), x)."
    if level is None or body is None or not isinstance(statement, ast.If):
        return f"Compute both branches and select: torch.where({condition}, a, b)."
    return selected(level, body, statement)


def _number(mapped: Mapped) -> Finding:
    """A tensor is read as a Python number."""
    found, level = _read(mapped.statement), mapped.inner
    if level is not None and (looped := rounds(level, mapped.outer)) is not None:
        return mapped.told(
            f"{looped.name} has one value per sample under vmap, and a loop runs the same number of times for all.",
            [shown(level.place, f"loops as often as {looped.name} says.")],
            looped.fix,
            level.place,
            exact=True,
        )
    if found is None and _test(mapped.statement) is not None:  # `if` asks for a number as well
        return _condition(mapped)
    sliced = _sliced(level) if level is not None and found is None else None
    if level is not None and sliced is not None:
        return _slice(mapped, level, *sliced)
    text = mapped.body.text(found) if mapped.body is not None and found is not None else ""
    return mapped.told(
        f"{text or 'A tensor'} needs a single number, but under vmap there is one value per sample.",
        [if_known(mapped.place, "reads it as a Python number.")],
        _kept(mapped, found),
        mapped.place,
        exact=bool(text),
    )


def _sliced(level: Level) -> tuple[ast.Slice, str] | None:
    """A slice with a bound of one sample, and that bound: `x[start:end]`."""
    for node in ast.walk(level.statement) if level.statement is not None else ():
        for bound in (node.lower, node.upper) if isinstance(node, ast.Slice) and node.step is None else ():
            read = (dotted(each) or "" for each in (expressions(ast.Expr(bound)) if bound is not None else ()))
            name = next((each for each in read if _is_of_a_sample(level.value(each))), "")
            if isinstance(node, ast.Slice) and name:
                return node, name
    return None


def _slice(mapped: Mapped, level: Level, taken: ast.Slice, name: str) -> Finding:
    """A slice whose bounds differ from sample to sample: positions can, as long as there are as many of them."""
    body, statement, size, new = level.body, level.statement, _size(level, taken), ""
    alone = statement is not None and statement.end_lineno == statement.lineno and not is_compound(statement)
    if size and taken.lower is not None and body is not None and alone:
        new = rewritten_line(body, taken, f"{simple(body.text(taken.lower))} + torch.arange({size})")
    how = "with positions, start + torch.arange(n), where n is the same for all samples"
    longest = " Where the sizes differ, take the longest and put zeros beyond each end, with torch.where."
    if new:
        how, longest = f"with positions: {on_line(level.place, new)}", ""
    return mapped.told(
        f"{name} is one number per sample under vmap, and a slice needs the same bounds for all.",
        [shown(level.place, f"slices by {name}.")],
        f"A slice needs its bounds as Python numbers. Index {how}.{longest}",
        level.place,
        exact=True,
    )


def _size(level: Level, taken: ast.Slice) -> str:
    """How many entries a slice takes, `n` of `x[start : start + n]`: what is the same number for all samples."""
    body, upper = level.body, taken.upper
    if body is None or taken.lower is None:
        return ""
    if isinstance(upper, ast.Name):
        made = values_of(body, upper.id, level.line)
        upper = made[0] if len(made) == 1 else None
    sides = [upper.left, upper.right] if isinstance(upper, ast.BinOp) and isinstance(upper.op, ast.Add) else []
    others = [each for each in sides if ast.dump(each) != ast.dump(taken.lower)]
    known = [each for each in others if type(value_of(level, each)) is int]
    return body.text(known[0]) if len(sides) == 2 and len(others) == len(known) == 1 else ""


def _read(statement: ast.stmt | None) -> ast.Call | None:
    """The call that makes a number of a tensor."""
    for node in calls_in(statement):
        receiver, name = callee(node)
        if (receiver is not None and name in _READS) or (receiver is None and name in _NUMBERS):
            return node
    return None


def _kept(mapped: Mapped, found: ast.Call | None) -> str:
    body, statement = mapped.body, mapped.statement
    receiver, name = callee(found) if found is not None else (None, "")
    operand = receiver if receiver is not None or found is None else next(iter(found.args), None)
    if name == "range":
        return "Loop over a number that is the same for all samples, and mask the rest with torch.where."
    if found is None or operand is None or body is None or statement is None:
        return "Keep it a tensor: compute, index and compare with PyTorch operations such as torch.where and gather()."
    every = (each for each in expressions(statement) if isinstance(each, ast.Subscript))
    taken, tensor = next((each for each in every if each.slice is found), None), simple(body.text(operand))
    if taken is None:
        return f"Keep the tensor: {tensor} instead of {body.text(found)}{_instead(body, statement, {found: tensor})}."
    picked = f"{simple(body.text(taken.value))}.index_select(0, {tensor}.reshape(1))[0]"
    new = rewritten(body, statement, {taken: picked})
    return f"Index with the tensor: {on_line(body.place(statement), new) if new else picked}."


def _dynamic(mapped: Mapped) -> Finding:
    """A result whose size depends on values."""
    body, every = mapped.body, (each for each in expressions(mapped.statement) if isinstance(each, ast.Subscript))
    masked = next((each for each in every if isinstance(each.slice, ast.Compare | ast.Name | ast.UnaryOp)), None)
    fix = "Keep the size: select with torch.where(mask, x, 0) and count with mask.sum()."
    if masked is not None and body is not None:
        tensor, mask = body.text(masked.value), body.text(masked.slice)
        where = f"torch.where(mask, {tensor}, 0), with mask = {mask} in a shape that broadcasts"
        fix = f"Keep the size and put zeros where the mask is False: {where}; mask.sum() counts the rest."
    return mapped.told(
        "The size of a result depends on the values of each sample, but vmap needs one size for all.",
        [if_known(mapped.place, "gives a result whose size depends on the values.")],
        (masked_write(mapped.inner) if mapped.inner is not None else "") or fix,
        mapped.place,
        exact=mapped.inner is not None,
    )
