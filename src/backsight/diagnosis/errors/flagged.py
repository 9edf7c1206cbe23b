"""What to do instead of setting requires_grad of a result: what its holder sees of it, and what that cuts off."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

import torch

from backsight.diagnosis.errors.remedies.remedy import blocks_around
from backsight.diagnosis.wording import listed
from backsight.snapshot import survey
from backsight.source import Place, assignments, loop_facts, parsed
from backsight.source.bindings import Use, target_names, uses
from backsight.source.body import SCOPES, callee, calls_in, covers, dotted, statements
from backsight.source.edits import OR, instead, marks_of, on_line, put, put_at, write
from backsight.source.rewriting import rewritten, simple
from backsight.story.failure import Failure, Level
from backsight.story.fixes import removed
from backsight.story.handed import handed
from backsight.story.memory import is_module
from backsight.tape import registered

_LISTING = ("parameters", "named_parameters")


@dataclass(frozen=True)
class Flag:
    """A flag that was to be set: of which tensor, what the statement and the program call it, and to what."""

    failure: Failure
    level: Level
    text: str
    name: str
    tensor: torch.Tensor | None
    wanted: bool

    def new(self, name: str) -> str:
        """The tensor as a leaf."""
        return f"{simple(name)}.detach(){'.requires_grad_()' if self.wanted else ''}"

    def instead(self, code: str) -> str:
        """That code in place of the statement, if it does nothing but set the flag."""
        match self.level.statement:
            case (ast.Assign(targets=[ast.Attribute(attr="requires_grad")]) | ast.Expr(value=ast.Call())) as statement:
                return str(instead(self.level.body, statement, code)) if self.level.body is not None else ""
        return ""

    @property
    def within(self) -> str:
        """The statement that sets the flag in an expression, `loss = h.requires_grad_().sum()`, with a new tensor."""
        body, statement = self.level.body, self.level.statement
        calls = [each for each in calls_in(statement) if callee(each)[1] == "requires_grad_"]
        whole = isinstance(statement, ast.Expr) and statement.value in calls
        if body is None or statement is None or whole or len(calls) != 1:
            return ""
        return rewritten(body, statement, {calls[0]: self.new(self.text)})

    def retained(self, name: str) -> str:
        """The statement that has the tensor keep its gradient; in a loop, it may be a leaf in the first pass."""
        keeps, body = f"{simple(name)}.retain_grad()", self.level.body
        in_loop = body is not None and loop_facts(body, self.level.line) is not None
        return f"{keeps}{'' if in_loop else self.instead(keeps)}"

    @property
    def is_own(self) -> bool:
        """Whether the function has computed a parameter anew, so that no caller holds the tensor."""
        others = (held for each in self.failure.users if each is not self.level for held in each.variables.values())
        return bool(assignments(self.level.body, self.text)) and not any(held is self.tensor for held in others)

    @property
    def is_for_itself(self) -> bool:
        """Whether the function reads the gradient itself, further down: then its caller needs none."""
        after = (each for each in statements(self.level.body) if each.lineno > self.level.line)
        return any(Use(f"{self.text}.grad", False) in uses(each) for each in after)

    def is_read(self, name: str, last: int) -> bool:
        """Whether anything may read a name below a line; what only binds a local name for nobody changes nothing."""
        body = self.level.body
        if body is None or not name.isidentifier():
            return True
        around = [each for each in blocks_around(self.level) if isinstance(each, ast.For | ast.While)]
        outer = next((each for each in reversed(around) if each.end_lineno != last), None)
        named = [node for node in ast.walk(body.node) if isinstance(node, ast.Name) and node.id == name]
        inner = [each for each in ast.walk(body.node) if isinstance(each, SCOPES) and each is not body.node]
        again = outer is not None and not any(isinstance(n.ctx, ast.Store) and covers(outer, n.lineno) for n in named)
        return any(
            node.lineno > last
            or (again and outer is not None and outer.lineno <= node.lineno < (around[0].lineno))
            or any(covers(each, node.lineno) for each in inner)
            for node in named
            if isinstance(node.ctx, ast.Load)
        )

    @property
    def at_caller(self) -> str:
        """Say to detach it before the function is called, where only its caller has a variable for it."""
        known, callers = handed(self.failure, self.tensor), self.failure.users[1:2]
        if self.wanted or known is None or (known.level,) != callers or known.given is None:
            return ""
        if dotted(parsed(known.name)) is None or _is_registered(
            replace(self, level=known.level, name=known.name), None
        ):
            return ""
        new = f"{known.name} = {self.new(known.name)}"
        return f"Detach {known.name} before line {known.given.line} passes it on: {put_at(new, 'above', known.given)}."

    @property
    def carried(self) -> Place | None:
        """The statement below in the loop that computes it, for the next pass."""
        facts = loop_facts(self.level.body, self.level.line)
        found = facts.carried.get(self.text) if facts is not None else None
        return found[1] if found is not None and found[1].line > self.level.line else None

    @property
    def statement(self) -> str:
        place = self.level.place
        return f"`{place.text}`" if place.text and len(place.text) <= 60 else "this statement"


def fix_of_flag(flag: Flag) -> str:
    """Return the fix: a new tensor under the name by which everybody reads it; where a module has registered it, a
    loop variable or a parameter of a function stands for it, another name alone would change nothing."""
    loops = (each for each in blocks_around(flag.level) if isinstance(each, ast.For))
    loop = next((each for each in loops if flag.text in target_names(each.target)), None)
    if not flag.wanted and (frozen := _of_reparametrized(flag)):
        return frozen
    if _is_registered(flag, loop):
        return _of_registered(flag, several=loop is not None)
    if loop is not None:
        return _of_loop(flag, loop)
    code = flag.level.frame.f_code
    is_parameter = flag.text in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if is_parameter and not flag.is_own and not flag.is_for_itself:
        return flag.at_caller or (
            f"Return {flag.new(flag.text)} from {code.co_name}(), and use that result: {flag.text} = "
            f"{flag.new(flag.text)} alone would leave {flag.name} as it is where {code.co_name}() is called."
        )
    if is_parameter:
        flag = replace(flag, name=flag.text)
    new = f"{flag.name} = " if isinstance(parsed(flag.name), ast.Name | ast.Attribute | ast.Subscript) else ""
    new += flag.new(flag.name)
    if flag.within:
        start = "To start a new graph from its values" if flag.wanted else "Detach it"
        return f"{start}: {on_line(flag.level.place, flag.within)}."
    if flag.wanted and flag.carried is not None:
        return (
            f"Start each pass of the loop from its values alone: {new} instead of {flag.statement}{flag.instead(new)}. "
            f"What line {flag.carried.line} computes is still attached to the graph of the previous pass."
        )
    if flag.wanted:
        start = f"To start a new graph from its values: {new} instead of {flag.statement}{flag.instead(new)}."
        # Where a caller gave it, it may be a leaf without a gradient at the next call.
        within = "" if is_parameter and flag.is_for_itself else f" {OR}For its gradient in this graph: {{}}."
        return f"{start}{within.format(flag.retained(flag.name))}"
    if not flag.is_read(flag.text, flag.level.line):
        return f"Detach it where it is computed: {new} here would leave what holds it as it is."
    return f"Detach it with {new} instead of {flag.statement}{flag.instead(new)}."


def _of_reparametrized(flag: Flag) -> str:
    """Freeze what a module computes its own attribute from in every pass, as weight_norm does: a detached one would
    only be computed anew. Other modules that the statement meets may have a parameter there."""
    owner = flag.name.rpartition(".")[0]
    holder = flag.level.value(owner) if owner else None
    if not is_module(holder) or flag.tensor is None:
        return ""
    own = {id(each): name for name, each in registered(holder, "_parameters").items()}
    leaves = survey((flag.tensor,), frames=flag.failure.frames).graph.leaves
    names = [own.get(id(leaf.tensor()), "") for leaf in leaves]
    if not names or not all(names):
        return ""
    statement, value = flag.level.statement, "False"
    if isinstance(statement, ast.Assign) and flag.level.body is not None:
        value = flag.level.body.text(statement.value)
    new = f"for p in {simple(owner)}.parameters(recurse=False): p.requires_grad = {value}"
    return (
        f"{simple(owner)} computes it anew in every pass, from {listed([f'{owner}.{each}' for each in names], 3)}. To "
        f"freeze it, freeze all parameters of {owner}: {new} instead of {flag.statement}{flag.instead(new)}."
    )


def _is_registered(flag: Flag, loop: ast.For | None) -> bool:
    """Whether a module holds it among its parameters: nothing but a parameter can be assigned there."""
    owner, _, attribute = flag.name.rpartition(".")
    holder = flag.level.value(owner) if owner else None
    iterated = loop is not None and isinstance(loop.iter, ast.Call) and callee(loop.iter)[1] in _LISTING
    return iterated or (is_module(holder) and attribute in registered(holder, "_parameters"))


def _of_registered(flag: Flag, *, several: bool) -> str:
    graph = survey((flag.tensor,), frames=flag.failure.frames).graph if flag.tensor is not None else None
    every = graph.leaves if graph else ()
    leaves = [leaf.name for leaf in every if leaf.kind in ("parameter", "variable") and leaf.name]
    it, they, are = ("them", "they", "are") if several else ("it", "it", "is")
    sources = f"what {they} {are} computed from"
    behind = f"{sources}, as {leaves[0]}" if several and leaves else listed(leaves, 3) or sources
    if flag.wanted:
        return (
            f"It requires grad already, and hands its gradient on to {behind}. For its own gradient: "
            f"{flag.retained(flag.text if several else flag.name)}."
        )
    return (
        f"If {they} must only stay as {they} {are}, leave {it} out of the update: then the gradient of the loss still "
        f"reaches {behind}. If no gradient should go there through {it}, detach {it} where {they} {are} computed."
    )


def _of_loop(flag: Flag, loop: ast.For) -> str:
    """All that the loop goes through, detached in its container; where that is not known, where it was computed."""
    whole, item, key = dotted(loop.iter), flag.text, ""
    if isinstance(loop.iter, ast.Call) and callee(loop.iter)[1] in ("values", "items"):
        whole = dotted(callee(loop.iter)[0])
        key = "key"
        if isinstance(loop.target, ast.Tuple) and isinstance(loop.target.elts[0], ast.Name):
            key = loop.target.elts[0].id
    kind, new = type(flag.level.value(whole)) if whole else None, flag.new(item)
    made: dict[object, str] = {
        list: f"[{new} for {item} in {whole}]",
        tuple: f"tuple({new} for {item} in {whole})",
        dict: f"{{{key}: {new} for {key}, {item} in {whole}.items()}}",
    }
    is_read = whole is not None and flag.is_read(whole, loop.end_lineno or flag.level.line)
    if kind not in made or (kind is dict) != bool(key) or not is_read:
        return (
            flag.at_caller
            or f"Detach each where it is computed: {item} = {new} in the loop would leave what holds it as it is."
            if not flag.wanted
            else f"It requires grad already. For its own gradient in this graph: {flag.retained(item)}."
        )
    alone, code, body = len(loop.body) == 1, f"{whole} = {made[kind]}", flag.level.body
    where = f"of the loop on lines {loop.lineno} to {loop.end_lineno}" if alone else f"of line {flag.level.line}"
    below = "" if alone else ", below the loop"
    edits = ""
    if body is not None and alone:
        edits = str(write(body.place(loop), code))
    elif body is not None and flag.instead(code):
        edits = f"{marks_of(removed(flag.level.place))}{put(code, 'beside', body.place(loop))}"
    return f"Detach all of them: write `{code}` instead {where}{below}{edits}."
