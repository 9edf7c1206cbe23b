"""BS215: a gradient of a gradient passes through an operation that can be differentiated once only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, if_known, listed, shown, sure_if
from backsight.findings.evidence import Fact
from backsight.naming.plain import class_name, is_class
from backsight.source import Body, Place, backward_calls, function_at, only, read_at, statement_at
from backsight.source.bindings import assigned, bound, parameters_of, target_names, uses
from backsight.source.body import (
    callee,
    calls_in,
    dotted,
    functions,
    is_constant,
    is_text,
    keyword,
    last_name,
    statements,
)
from backsight.source.changes import changed_memory
from backsight.source.edits import lines_of, marks_of, on_line, put, remove, wrap, write
from backsight.source.imports import meaning
from backsight.source.rewriting import rewritten, simple
from backsight.story.changes import is_spelled
from backsight.story.failure import Failure, method
from backsight.story.files import user_files
from backsight.story.fixes import removed
from backsight.story.sections import results_of, sections, undecorated

_SPOKEN = re.compile(
    r"^_?(?P<name>scaled_dot_product)_(flash|efficient|cudnn|fused)_?\w*$|^_?(?P<plain>\w+?)(_for_cpu)?$"
)
_NAMES = {"scaled_dot_product": "scaled_dot_product_attention", "thnn_fused_lstm_cell": "lstm", "cudnn_rnn": "rnn"}
_ALSO = {"scaled_dot_product_attention": ("multiheadattention", "transformerencoderlayer", "transformerdecoderlayer")}
_FIXES = {
    "scaled_dot_product_attention": "Put {line} inside `{block}`{inside}. "
    "That implementation can be differentiated twice; the fast ones cannot.",
    "rnn": "Put {line} inside `{block}`{inside}. PyTorch's own "
    "implementation can be differentiated twice; cuDNN's cannot.",
    "cdist": "Write the distances with operations that can be differentiated twice: {written}. The small number keeps "
    "the gradient finite where points coincide.",
    "pdist": "Write the distances with operations that can be differentiated twice: {written}.",
}
_ONCE = (
    "Replace {operation} by operations that can be differentiated twice. Or avoid a second derivative through "
    "{operation}: drop create_graph=True, or detach its inputs."
)
_BLOCKS = {
    "scaled_dot_product_attention": "with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):",
    "rnn": "with torch.backends.cudnn.flags(enabled=False):",
}
_DISTANCES = {
    "cdist": "(({x}.unsqueeze(-2) - {y}.unsqueeze(-3)).square().sum(-1) + 1e-12).sqrt()",
    "pdist": "(({x}.unsqueeze(0) - {x}.unsqueeze(1)).square().sum(-1) + 1e-12).sqrt()"
    "[torch.ones(len({x}), len({x})).triu(1).bool()]",
}


@explains(
    "BS215",
    r"derivative for aten::_?(?P<op>\w+)_backward is not implemented",
    r"the derivative for '_?(?P<op>\w+)_backward' is not implemented",
    r"(?P<rnn>Double backwards?) is not supported for CuDNN RNNs",
    r"(?P<op>\w+?)(?:\(\):)? [Dd]ouble backward (?:is )?(?:unsupported|not (?:implemented|supported)) for",
    r"(?P<compiled>aot_autograd) does not (?:currently )?support double backward",
    r"trying to differentiate twice a function that was marked with @once_differentiable",
)
def double_backward(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the operation, or the custom Function, that can be differentiated once only."""
    said = match.groupdict()
    if said.get("compiled"):
        return _of_compiled(failure)
    return _of_operation(failure, said) if said else _of_function(failure)


def _of_operation(failure: Failure, said: dict[str, str | None]) -> Finding:
    operation = "rnn" if said.get("rnn") else _spoken(said["op"] or "")
    place = next(_runs(failure, operation), None)
    return explanation(
        f"{operation} can be differentiated only once, and this is the second time.",
        (if_known(place, f"runs {operation}, whose backward is not differentiable."), *_twice(failure)),
        _fix(operation, place),
        source=place or failure.source,
        exact=place is not None,
    )


def _fix(operation: str, place: Place | None) -> str:
    """What to write instead, with what the statement gives to the operation."""
    body, statement = read_at(place)
    call = next((each for each in calls_in(statement) if callee(each)[1] == operation), None)
    given = [simple(ast.unparse(each)) for each in call.args] if call else []
    x, y, *_ = [*given, *("x", "y")[len(given) :], "", ""]
    line, written = f"line {place.line}" if place else "the forward pass", ""
    if operation in _DISTANCES:
        written = _DISTANCES[operation].format(x=x, y=y)
        new = rewritten(body, statement, {call: written}) if body and statement and call else ""
        written = on_line(place, new) if place and new else written
    block = _BLOCKS.get(operation, "")
    inside = wrap(place, block) if place and block else ""
    return _FIXES.get(operation, _ONCE).format(
        operation=operation, line=line, written=written, block=block, inside=inside
    )


def _of_compiled(failure: Failure) -> Finding:
    """Name what compiles: a call of torch.compile, its decorator, or `compile()` of a module."""
    every = list(_compilings(failure))
    called = {callee(call)[1] for section in sections(failure) for call, _ in section.calls()}
    every = [each for each in every if each.name.rpartition(".")[2] in called] or every
    one = only(every)
    lines = [shown(each.place, each.says, sure_if(one is not None)) for each in every[:3]]
    return explanation(
        f"{one.name if one and one.name else 'A compiled function'} can be differentiated only once, and this is the "
        "second time.",
        (*lines, *_twice(failure)),
        f"{one.fix if one else 'Call that function without torch.compile.'} The functions it calls may stay compiled "
        "as long as no second derivative goes through them.",
        source=one.place if one else failure.source,
        exact=one is not None,
    )


class _Compiling(NamedTuple):
    """A statement or decorator that compiles; `name`: what the program then calls it, empty where that is not plain."""

    place: Place
    name: str
    fix: str

    @property
    def says(self) -> str:
        return f"compiles {self.name or 'a function'}: its backward is not differentiable."


def _compilings(failure: Failure) -> Iterator[_Compiling]:
    """What compiles in the user's files, but with the backend that leaves the backward as it is."""
    own = {body.name for file in user_files(failure) for body in functions(file)}
    for file in user_files(failure):
        for body in functions(file):
            if (decorator := _compiled_by(body.node)) is not None:
                place = body.place(decorator, f"@{body.text(decorator)}")
                yield _Compiling(place, body.name, f"Remove line {place.line}, {place.text}{_undecorated(place)}.")
            for each in statements(body.node):
                for call in calls_in(each):
                    if is_text(keyword(call, "backend"), "eager"):
                        continue
                    if meaning(call.func) == "torch.compile" and call.args:
                        names = [dotted(target) or "" for target, value in assigned(each) if value is call]
                        line = rewritten(body, each, {call: body.text(call.args[0])})
                        written = write(body.place(each), line)
                        fix = f"On line {each.lineno}, write `{line}`{written}, without torch.compile."
                        yield _Compiling(body.place(each), next(iter(names), ""), fix)
                    elif callee(call)[1] == "compile" not in own and not call.args and meaning(call.func) is None:
                        name = dotted(callee(call)[0]) or ""
                        goes = marks_of(removed(body.place(each))) if getattr(each, "value", None) is call else ""
                        fix = f"Leave out `{body.text(call)}` on line {each.lineno}{goes}."
                        yield _Compiling(body.place(each), name, fix)


def _undecorated(place: Place) -> str:
    """A decorator removed, whatever lines it has."""
    return str(remove(lines_of(place.file, *range(place.line, place.last + 1))))


def _compiled_by(node: ast.AST) -> ast.expr | None:
    """The decorator `@torch.compile` of a function, with or without arguments, or in a partial."""
    for each in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
        given = [each.func, *each.args] if isinstance(each, ast.Call) else [each]
        eager = isinstance(each, ast.Call) and is_text(keyword(each, "backend"), "eager")
        if not eager and any(meaning(one) == "torch.compile" for one in given):
            return each
    return None


def _of_function(failure: Failure) -> Finding:
    found = next(_once_differentiable(failure), None)
    name = class_name(found[0]) if found else "A custom Function"
    marks, runs = found[1:] if found else (None, None)
    return explanation(
        f"{name}'s backward is marked @once_differentiable, but here its gradient is differentiated again.",
        (
            if_known(marks, f"marks {name}'s backward as differentiable only once."),
            if_known(runs, f"runs {name}."),
            *_twice(failure),
        ),
        _differentiable(*found[:2]) if found else _UNKNOWN,
        source=found[1] if found else failure.source,
        exact=found is not None,
    )


_UNKNOWN = (
    "If that backward uses only PyTorch operations on its arguments and saved tensors, remove @once_differentiable and "
    "test it with torch.autograd.gradgradcheck. Otherwise, write the backward as a Function of its own, or "
    "differentiate through it only once."
)


def _differentiable(cls: type, decorator: Place) -> str:
    """What makes a backward differentiable: what forward saves has to have a graph, and is computed again if not."""
    rest = _rest(cls)
    edit = _undecorated(decorator) if marks_of(rest) else ""
    remove_it = f"Remove line {decorator.line}, {decorator.text}{edit}"
    return f"{remove_it}, and {rest}. Test it with torch.autograd.gradgradcheck." if rest else _UNKNOWN


def _rest(cls: type) -> str:
    """What else a backward needs where forward saves what is neither input nor output, and so has no graph."""
    forward, backward = (
        function_at(each.__code__) if (each := undecorated(method(cls, name))) is not None else None
        for name in ("forward", "backward")
    )
    if forward is None or backward is None:
        return ""
    saves = next(((s, c) for s in forward.node.body for c in calls_in(s) if callee(c)[1] == "save_for_backward"), None)
    assigning = (each for each in statements(backward.node) if isinstance(each, ast.Assign))
    unpacked = next((each for each in assigning if last_name(each.value) == "saved_tensors"), None)
    if saves is None or unpacked is None:
        return ""
    names, target = [dotted(each) for each in saves[1].args], unpacked.targets[0]
    there = [dotted(each) for each in target.elts] if isinstance(target, ast.Tuple) else [dotted(target)]
    kept = {*parameters_of(forward.node), *(text for text, _ in results_of(forward))}
    lost = [name for name in names if name and name not in kept]
    if not lost:
        return ""
    what = "an intermediate result that forward saves, has" if len(lost) == 1 else "which forward saves, have"
    which = f"{listed(lost, 4)}, {what} no graph"
    them = "it" if len(lost) == 1 else "them"
    by_hand = f"save in forward what {listed(lost, 4)} came from instead, and compute {them} again in backward"
    made = _made_of(forward, lost, saves[0]) if names == there else None
    inputs = [each for each in made[1] if each not in names] if made else []
    own = {use.name for each in statements(backward.node) if each is not unpacked for use in uses(each) if use.binds}
    own |= parameters_of(backward.node)
    if not made or own & {*made[1], *made[2]}:
        return f"{by_hand}: {which}"
    code = "; ".join(made[0])
    below = f"below line {unpacked.lineno}, put `{code}`{put(code, 'below', backward.place(unpacked))}"
    if inputs:
        saved = [*(each for each in names if each and each not in lost), *inputs]
        if not {*inputs} <= _with_gradient(forward, backward):
            return f"{by_hand}: {which}"
        new = rewritten(forward, saves[0], {saves[1]: f"{forward.text(saves[1].func)}({', '.join(saved)})"})
        taken = f"{', '.join(saved)}{',' * (len(saved) == 1)} = {backward.text(unpacked.value)}"
        below = (
            f"{on_line(forward.place(saves[0]), new)}, and on line {unpacked.lineno}, write "
            f"`{taken}; {code}`{write(backward.place(unpacked), f'{taken}; {code}')}"
        )
    return f"{below}: {which}"


def _made_of(forward: Body, names: Sequence[str], before: ast.stmt) -> tuple[list[str], list[str], set[str]] | None:
    """The statements that compute results of a forward, their inputs, what they bind; None if not to be run again."""
    every, given = [*statements(forward.node)], parameters_of(forward.node)
    local = set[str]().union(*map(bound, every))
    changed = {dotted(each) for one in every for each in changed_memory(one)}
    needed, found, inputs, binds = [*names], dict[tuple[int, int], str](), set[str](), set[str]()
    for name in needed:  # grows as we go
        makes = [each for each in every if name in bound(each)]
        if name in given and not makes and name not in changed:
            inputs.add(name)
            continue
        one = makes[0] if len(makes) == 1 and name not in changed else None
        if not isinstance(one, ast.Assign) or one not in forward.node.body or one.lineno >= before.lineno:
            return None
        value, target = one.value, one.targets[0]
        if isinstance(value, ast.Tuple) and isinstance(target, ast.Tuple) and len(target.elts) == len(value.elts):
            value = next(its for each, its in zip(target.elts, value.elts, strict=True) if name in target_names(each))
        whole = value is one.value
        text = forward.text(one) if whole else f"{name} = {forward.text(value)}"
        if _ANEW.search(text) or "…" in text:
            return None
        found[one.lineno, value.col_offset] = text
        binds |= bound(one) if whole else {name}
        read = dict.fromkeys(each.name.partition(".")[0] for each in uses(value) if not each.binds)
        needed += [each for each in read if each in local | given and each not in needed]
    return [found[each] for each in sorted(found)], [each for each in _in_order(forward) if each in inputs], binds


_ANEW = re.compile(r"rand|dropout|bernoulli|multinomial|normal|uniform|exponential|poisson|\bctx\b")
"""What another run would compute otherwise: random numbers, and what the context holds."""


def _in_order(body: Body) -> list[str]:
    arguments = body.node.args if isinstance(body.node, ast.FunctionDef) else None
    return [each.arg for each in arguments.args] if arguments is not None else []


def _with_gradient(forward: Body, backward: Body) -> set[str]:
    """The inputs of a forward for which its backward returns a gradient: tensors, which can be saved."""
    returned = [each.value for each in statements(backward.node) if isinstance(each, ast.Return)]
    value = returned[0] if len(returned) == 1 else None
    given = value.elts if isinstance(value, ast.Tuple) else [value]
    named = zip(_in_order(forward)[1:], given, strict=False)
    return {name for name, each in named if not (isinstance(each, ast.Constant) and each.value is None)}


def _spoken(operation: str) -> str:
    """`cdist` for `cdist`, `scaled_dot_product_attention` for the names of its implementations."""
    match = _SPOKEN.match(operation)
    name = (match["name"] or match["plain"]) if match else operation
    return _NAMES.get(name, name)


def _runs(failure: Failure, operation: str) -> Iterator[Place]:
    for section in sections(failure):
        for line in section.lines():
            statement = statement_at(section.body, line)
            names = (operation, *_ALSO.get(operation, ()))
            if statement is not None and any(is_spelled(name, statement, section.value) for name in names):
                yield section.body.place(statement)


def _twice(failure: Failure) -> Iterator[Fact]:
    """The first derivative, which asked for a graph of its own, and the second."""
    told = {level.place for level in failure.users}
    bodies = [*(level.body for level in failure.users), *(each.body for each in sections(failure))]
    for body in dict.fromkeys(bodies):
        for place in backward_calls(body):
            calls = calls_in(statement_at(body, *place.position))
            if any(is_constant(keyword(call, "create_graph"), True) for call in calls) and place not in told:
                told.add(place)
                yield shown(place, "differentiates once and records a graph of the gradient.")
    yield from failing(failure, "differentiates that gradient.")


def _once_differentiable(failure: Failure) -> Iterator[tuple[type, Place, Place]]:
    """The custom Functions on the way whose backward is marked: the class, its decorator, and where it runs."""
    for section in sections(failure):
        for call, place in section.calls():
            owner, name = callee(call)
            cls = section.value(dotted(owner) or "") if owner is not None and name == "apply" else None
            function = undecorated(method(cls, "backward")) if is_class(cls) else None
            body = function_at(function.__code__) if function is not None else None
            for decorator in getattr(body.node, "decorator_list", ()) if body else ():
                if body and is_class(cls) and last_name(decorator) == "once_differentiable":
                    yield cls, body.place(decorator, f"@{body.text(decorator)}"), place
