"""BS226: a function that torch.vmap maps over a batch does what differs from sample to sample in Python."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from backsight.diagnosis._torch import VMAP
from backsight.diagnosis.errors.masked_write import masked_write
from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.evidence.selected import as_tensor, selected, whole
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown
from backsight.findings.evidence import Fact
from backsight.naming.plain import class_name, namespace
from backsight.source import Body, Place, assignments, calls_of, statement_at
from backsight.source.bindings import uses
from backsight.source.body import blocks, callee, calls_in, dotted, expressions, functions, statements
from backsight.source.definitions import values_of
from backsight.source.edits import OR, Edit, on_line, put, write
from backsight.source.imports import library
from backsight.source.rewriting import rewritten, simple
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level, failure_of, message_of
from backsight.story.files import user_files
from backsight.story.memory import is_module, is_tensor, shape_of, storage_of
from backsight.story.sections import methods_of
from backsight.tape import modules_in, registered

_LIKE = {
    "zeros": "{x}.new_zeros({size})",
    "ones": "{x}.new_ones({size})",
    "empty": "{x}.new_empty({size})",
    "full": "{x}.new_full({size})",
}
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
        return self.call[0].place(self.call[1]) if self.call is not None else None

    @property
    def maps(self) -> Iterator[Fact]:
        """What maps it, as evidence."""
        if self.called_at is not None:
            yield shown(self.called_at, "maps it.")
        elif self.outer is not None:
            yield shown(self.outer.place, "maps it.")

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
        read = {dotted(node) for node in expressions(level.statement)} if level.statement else set()
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


def _told(
    mapped: Mapped, title: str, lines: Sequence[Fact], fix: str, culprit: Place | None, *, exact: bool
) -> Finding:
    source, known = str(culprit) if culprit else mapped.failure.source, exact and culprit is not None
    return explanation(title, (*lines, *mapped.maps), fix, source=source, exact=known)


def _written(mapped: Mapped) -> Finding:
    """A tensor that all samples share is written with values that differ between them."""
    level = mapped.inner
    name = _target(level) if level else ""
    writing = [shown(level.place, f"writes a different value per sample into {name or 'it'}.")] if level else []
    base = name.partition("[")[0]
    places = assignments(level.body, base, before=level.line + 1) if level and level.body and base else ()
    made = next((each for each in reversed(places) if level and each != level.place), None)
    if level is None or level.body is None or not base:
        fix = "Create the written tensor from a per-sample tensor: x.new_zeros(3) instead of torch.zeros(3)."
        title = "vmap: a tensor that all samples share is modified in place with per-sample values."
        return _told(mapped, title, writing, fix, level.place if level else None, exact=False)
    if made is None:
        x = mapped.sample(level.line, shape_of(level.value(base)))
        return _told(
            mapped,
            f"{base} comes from outside the mapped function: all samples share it, but each writes its own values.",
            writing,
            "Return the values instead: vmap stacks what the function returns."
            + (f" Or write into a per-sample copy: {base} + torch.zeros_like({x})." if x else ""),
            level.place,
            exact=level.value(base) is not None,
        )
    fix = _batched(mapped, level.body, made, base)
    return _told(
        mapped,
        f"{base} is one tensor for all samples, but each sample writes its own values into it.",
        [shown(made, f"creates {base} without the batch dimension."), *writing],
        fix,
        made,
        exact=True,
    )


def _target(level: Level) -> str:
    """What the failing statement writes to: `out` of `out[i] = x`, `out += x` and `out.add_(x)`."""
    statement = level.statement
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    for target in targets:
        node = target.value if isinstance(target, ast.Subscript) else target
        if isinstance(statement, ast.AugAssign) or isinstance(target, ast.Subscript):
            return dotted(node) or ""
    for node in expressions(statement) if statement else ():
        receiver, method = callee(node) if isinstance(node, ast.Call) else (None, "")
        if receiver is not None and method.endswith("_") and not method.endswith("__"):
            base = receiver.value if isinstance(receiver, ast.Subscript) else receiver
            return dotted(base) or ""
    return ""


def _batched(mapped: Mapped, body: Body, made: Place, name: str) -> str:
    """The statement that makes a tensor, so that each sample has its own."""
    statement = statement_at(body, *made.position)
    value = statement.value if isinstance(statement, ast.Assign) else None
    alone = isinstance(statement, ast.Assign) and [*map(dotted, statement.targets)] == [name]
    x = mapped.sample(made.line)
    if not x:
        return f"Create {name} from a tensor of the sample, with its new_zeros() or torch.zeros_like()."
    if not isinstance(value, ast.Call):
        new = f"{name} = {name} + torch.zeros_like({x})"
        return f"Give each sample its own before writing to it: {new}{put(new, 'below', made) if statement else ''}."
    _, maker = callee(value)
    given = ", ".join(body.text(each) for each in value.args)
    named = ", ".join(f"{each.arg}={body.text(each.value)}" for each in value.keywords if each.arg)
    if library(value.func) == "torch" and maker in _LIKE:
        size = ", ".join(filter(None, [given, named]))
        new = f"{name} = {_LIKE[maker].format(x=x, size=size)}"
        return f"Create it from a per-sample tensor: {new}{write(made, new) if alone else ''}."
    if library(value.func) == "torch" and maker.endswith("_like"):
        new = f"{name} = torch.{maker}({x})"
        return f"Create it like a per-sample tensor of the same shape: {new}{write(made, new) if alone else ''}."
    new = f"{name} = {body.text(value)} + {x}.new_zeros(())"
    return f"Give each sample its own: {new}{write(made, new) if alone else ''}."


def _random(mapped: Mapped) -> Finding:
    """Random numbers, and vmap is not told whether each sample gets its own."""
    level = mapped.inner or mapped.outer
    module = _running(mapped)
    name = names_of(mapped.failure, [module])[0] if module is not None else ""
    kind = class_name(type(module)) if module is not None else ""
    path = _ITEM.sub(r"[\1]", name)  # of a Sequential
    who = f"{path} ({kind})" if path else f"A {kind}" if kind else "The function"
    place = mapped.called_at or (mapped.outer.place if mapped.outer else None)
    mended = 'vmap(..., randomness="different")'
    if mapped.call is not None and (text := mapped.call[0].text(mapped.call[2])).endswith(")"):
        mended = f'{text[:-1]}, randomness="different")'
        mended += str(_instead(*mapped.call[:2], {mapped.call[2]: mended}))
    also = " The layer draws in training mode only: model.eval() disables it." if kind else ""
    drawing = [shown(mapped.inner.place, "draws random numbers.")] if mapped.inner else []
    return _told(
        mapped,
        f"{who} draws random numbers under vmap, which does not know whether samples share them.",
        drawing,
        f'To draw different numbers per sample: {mended}. randomness="same" shares them.{also}',
        place or (level.place if level else None),
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
    module = _running(mapped)
    name = _ITEM.sub(r"[\1]", names_of(mapped.failure, [module])[0]) if module is not None else ""
    held = mapped.inner.value(name.partition(".")[0].partition("[")[0]) if mapped.inner and name else None
    norms = [each for _, each in modules_in(held)] if is_module(held) else [module] if is_module(module) else []
    kinds = {class_name(type(each)) for each in norms if keeps_statistics(each)}
    made = [
        (replace(body.place(each), line=node.lineno), body, each, node)
        for body, each, node in calls_of(*user_files(mapped.failure))
        if callee(node)[1] in kinds and node.args
    ]
    new = {node: f"nn.GroupNorm(1, {body.text(node.args[0])})" for _, body, _, node in made[:_MOST]}
    written = [f"line {node.lineno}: {text}" for node, text in new.items()]
    instead = f" ({'; '.join(written)})" if written and len(made) <= _MOST else ""
    if instead:
        every = {id(each): (body, each) for _, body, each, _ in made}
        for key, (body, each) in every.items():
            own: dict[ast.expr, str] = {node: new[node] for _, _, one, node in made if id(one) == key}
            instead += str(_instead(body, each, own))
    here = [shown(mapped.inner.place, f"runs {name or 'it'}.")] if mapped.inner else []
    named = [] if made else [*_named(mapped.failure, kinds)]
    chosen = [shown(place, f"names the class, {text}.") for place, text in named] if len(named) == 1 else []
    return _told(
        mapped,
        f"{name or 'A batch norm'}{f' ({class_name(type(module))})' if name else ''} updates its running statistics "
        "in place, and under vmap all samples share them.",
        [*(shown(place, "creates a batch norm.") for place, _, _, _ in made[:_MOST]), *chosen, *here],
        f"Replace each batch norm with a layer that keeps no statistics: nn.GroupNorm{instead}. {OR}Or, to normalize "
        "each sample by its own statistics, call torch.func.replace_all_batch_norm_modules_(model) before the "
        "parameters and buffers are collected.",
        made[0][0] if made else named[0][0] if chosen else mapped.inner.place if mapped.inner else None,
        exact=bool(name),
    )


def _named(failure: Failure, kinds: Collection[str]) -> Iterator[tuple[Place, str]]:
    """Where the program has a class that it does not call by its name: in a dict of layers, as an argument."""
    for module in (next(functions(file), None) for file in user_files(failure)):
        for each in ast.walk(module.node) if module is not None else ():
            if isinstance(each, ast.stmt) and not any(True for _ in blocks(each)):
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
    level = mapped.inner
    test = _test(level) if level else None
    text = level.body.text(test) if level and level.body and test is not None else ""
    does = "branches on a value that differs from sample to sample." if text else "needs the value of a tensor."
    lines = [shown(level.place, does)] if level else []
    return _told(
        mapped,
        f"A branch depends on {text or 'the value of a tensor'}, which has one value per sample under vmap.",
        lines,
        _checked_outside(mapped) or _without_branch(level, text),
        level.place if level else None,
        exact=bool(text),
    )


def _checked_outside(mapped: Mapped) -> str:
    """What to do with a branch that gives no result, and only raises, warns or prints; empty for any other.

    Where that is all that its function was called for, it is the call that is to be moved.
    """
    level = mapped.inner
    statement = level.statement if level else None
    decided = [each for _, block in blocks(statement) for each in block] if isinstance(statement, ast.If) else []
    if level is None or not (isinstance(statement, ast.Assert) or (decided and all(map(_reports, decided)))):
        return ""
    users = mapped.failure.users
    check = users[users.index(level) + 1] if level is not users[-1] else None
    alone = check is not None and check is not mapped.outer and isinstance(check.statement, ast.Expr)
    what = f": take line {check.line}, `{check.place.text}`, out of it" if check and alone else ""
    where = f"above line {mapped.outer.line}, " if mapped.outer else ""
    return f"Check it outside the mapped function{what}, and check the whole batch {where}before it is mapped."


def _reports(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=function)):
            return dotted(function) in ("print", "warnings.warn")
    return isinstance(statement, ast.Raise)


def _test(level: Level) -> ast.expr | None:
    statement = level.statement
    if isinstance(statement, ast.If | ast.While | ast.Assert):
        return statement.test
    for node in expressions(statement) if statement else ():
        if isinstance(node, ast.IfExp):
            return node.test
        if isinstance(node, ast.BoolOp):
            return node.values[0]
        if isinstance(node, ast.Call) and callee(node)[0] is None and callee(node)[1] in ("max", "min", "bool", "all"):
            return node
    return None


def _without_branch(level: Level | None, text: str) -> str:
    statement = level.statement if level else None
    body = level.body if level else None
    for node in expressions(statement) if statement else ():
        if isinstance(node, ast.IfExp) and level and body and statement:
            chosen = f"torch.where({as_tensor(level, node.test)}, {whole(node.body)}, {whole(node.orelse)})"
            line = rewritten(body, statement, {node: chosen})
            where = f" on line {statement.lineno}{write(body.place(statement), line)}" if line else ""
            return f"Compute both and select: write `{line or chosen}`{where}."
        if isinstance(node, ast.Call) and callee(node)[0] is None and callee(node)[1] in ("max", "min"):
            kind = "maximum" if callee(node)[1] == "max" else "minimum"
            return f"Use torch.{kind}(a, b), or clamp() with a number."
    if isinstance(statement, ast.While):
        return (
            "Run a fixed number of steps and keep what has converged: "
            f"x = torch.where({text or 'condition'}, step(x), x)."
        )
    if level is None or body is None or not isinstance(statement, ast.If):
        return f"Compute both branches and select: torch.where({text or 'condition'}, a, b)."
    return selected(level, body, statement)


def _number(mapped: Mapped) -> Finding:
    """A tensor is read as a Python number."""
    level = mapped.inner
    found = _read(level) if level else None
    if found is None and level is not None and _test(level) is not None:  # `if` asks for a number as well
        return _condition(mapped)
    sliced = _sliced(level) if level is not None and found is None else None
    if sliced is not None:
        return _slice(mapped, *sliced)
    text = level.body.text(found) if level and level.body and found is not None else ""
    lines = [shown(level.place, "reads it as a Python number.")] if level else []
    return _told(
        mapped,
        f"{text or 'A tensor'} needs a single number, but under vmap there is one value per sample.",
        lines,
        _kept(level, found),
        level.place if level else None,
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


def _slice(mapped: Mapped, taken: ast.Slice, name: str) -> Finding:
    """A slice whose bounds differ from sample to sample: positions can, as long as there are as many of them."""
    level = mapped.inner
    body, statement = (level.body, level.statement) if level else (None, None)
    size = _size(level, taken) if level is not None else ""
    new, how = "", "with positions, start + torch.arange(n), where n is the same for all samples"
    if size and taken.lower is not None and body is not None and isinstance(statement, ast.stmt):
        positions = f"{simple(body.text(taken.lower))} + torch.arange({size})"
        new = _with_part(body, statement, taken, positions)
    if new and body is not None and statement is not None:
        how = f"with positions: {on_line(body.place(statement), new)}"
    fix = f"A slice needs its bounds as Python numbers. Index {how}."
    if not new:
        fix += " Where the sizes differ, take the longest and put zeros beyond each end, with torch.where."
    title = f"{name} is one number per sample under vmap, and a slice needs the same bounds for all."
    lines = [shown(level.place, f"slices by {name}.")] if level else []
    return _told(mapped, title, lines, fix, level.place if level else None, exact=True)


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


def _with_part(body: Body, statement: ast.stmt, part: ast.Slice, new: str) -> str:
    """A statement of one line with another text for a part of an index."""
    if statement.end_lineno != statement.lineno or list(blocks(statement)):
        return ""
    line = body.lines[part.lineno - 1].encode()
    return (line[: part.col_offset] + new.encode() + line[part.end_col_offset :]).decode().strip()


def _read(level: Level) -> ast.expr | None:
    """The expression that makes a number of a tensor."""
    for node in expressions(level.statement) if level.statement else ():
        receiver, name = callee(node) if isinstance(node, ast.Call) else (None, "")
        if (receiver is not None and name in _READS) or (receiver is None and name in _NUMBERS):
            return node
    return None


def _kept(level: Level | None, found: ast.expr | None) -> str:
    body = level.body if level else None
    if isinstance(found, ast.Call) and body is not None:
        receiver, name = callee(found)
        operand = receiver if receiver is not None else next(iter(found.args), None)
        if name == "range":
            return "Loop over a number that is the same for all samples, and mask the rest with torch.where."
        statement = level.statement if level else None
        indexed = [n for n in (expressions(statement) if statement else ()) if isinstance(n, ast.Subscript)]
        held = next((each.value for each in indexed if each.slice is found), None)
        if operand is not None and held is not None:
            index = f"{simple(body.text(operand))}.reshape(1)"
            picked = f"{simple(body.text(held))}.index_select(0, {index})[0]"
            taken = next((n for n in indexed if n.slice is found), None)
            new = rewritten(body, statement, {taken: picked}) if statement is not None and taken is not None else ""
            how = on_line(body.place(statement), new) if statement is not None and new else picked
            return f"Index with the tensor: {how}."
        if operand is not None:
            tensor = simple(body.text(operand))
            written = _instead(body, statement, {found: tensor}) if statement is not None else ""
            return f"Keep the tensor: {tensor} instead of {body.text(found)}{written}."
    return "Keep it a tensor: compute, index and compare with PyTorch operations such as torch.where and gather()."


def _dynamic(mapped: Mapped) -> Finding:
    """A result whose size depends on values."""
    level = mapped.inner
    lines = [shown(level.place, "gives a result whose size depends on the values.")] if level else []
    masked = _masked(level) if level else None
    body = level.body if level else None
    if (written := masked_write(level) if level else "") and level is not None:
        fix = written
    elif masked is not None and body is not None:
        tensor, mask = body.text(masked.value), body.text(masked.slice)
        where = f"torch.where(mask, {tensor}, 0), with mask = {mask} in a shape that broadcasts"
        fix = f"Keep the size and put zeros where the mask is False: {where}; mask.sum() counts the rest."
    else:
        fix = "Keep the size: select with torch.where(mask, x, 0) and count with mask.sum()."
    return _told(
        mapped,
        "The size of a result depends on the values of each sample, but vmap needs one size for all.",
        lines,
        fix,
        level.place if level else None,
        exact=level is not None,
    )


def _masked(level: Level) -> ast.Subscript | None:
    for node in expressions(level.statement) if level.statement else ():
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Compare | ast.Name | ast.UnaryOp):
            return node
    return None
