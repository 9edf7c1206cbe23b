"""BS164: copies of modules are trained, and the modules themselves predict: `stack_module_state` copies."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown, warning
from backsight.source import Body, Place
from backsight.source.body import callee, calls_in, dotted, functions, statements
from backsight.tracing import Told, Watch, peculiar

CODES = ("BS164",)

_WRITES = frozenset({"load_state_dict", "copy_", "set_"})


def untrained_members(watch: Watch) -> Iterator[Finding]:
    """Yield the finding that modules are called whose parameters were stacked into copies, which an optimizer holds.

    The watch has seen the stacking; that the copies are trained, and that the modules are called and never given the
    trained values, the text tells.
    """
    files: dict[str, Told] = {}
    for each in peculiar(watch):
        if each.seen.kind == "stacked":
            files.setdefault(each.line.file, each)
    for file in files:
        bodies = list(functions(file))
        for stacked in (found for body in bodies for found in _stackings(body)):
            place, members, parameters = stacked
            trained = next((found for body in bodies for found in _trains(body, parameters)), None)
            called = next((found for body in bodies for found in _calls(body, members)), None)
            if trained is None or called is None or any(_writes_back(body, members) for body in bodies):
                continue
            yield _finding(place, trained, called, members, parameters)
            return


def _last(name: str) -> str:
    return name.split(".")[-1]


def _stackings(body: Body) -> Iterator[tuple[Place, str, str]]:
    """Yield the statements that stack modules: with the name of these, and of the parameters that result."""
    for statement in statements(body.node):
        match statement:
            case ast.Assign(targets=[ast.Tuple(elts=[goal, _])], value=ast.Call(args=[given]) as call):
                members, parameters = dotted(given), dotted(goal)
                if callee(call)[1] == "stack_module_state" and members is not None and parameters is not None:
                    yield body.place(statement), members, parameters


def _trains(body: Body, parameters: str) -> Iterator[Place]:
    """Yield the statements that give the stacked parameters to an optimizer."""
    for statement in statements(body.node):
        for call in calls_in(statement):
            inside = (each for given in call.args for each in calls_in(ast.Expr(given)))
            held = {_last(dotted(callee(each)[0]) or "") for each in inside if callee(each)[1] == "values"}
            if _last(parameters) in held and callee(call)[1][:1].isupper():
                yield body.place(statement)


def _loops(body: Body, members: str) -> Iterator[tuple[ast.stmt, set[str], ast.AST]]:
    """Yield what goes through the modules: the statement, the names of each, and where these are used."""
    for statement in statements(body.node):
        if isinstance(statement, ast.For) and _goes_through(statement.iter, members):
            yield statement, _names(statement.target), statement
        for node in ast.walk(statement) if not hasattr(statement, "body") else ():
            for each in getattr(node, "generators", ()):
                if _goes_through(each.iter, members):
                    yield statement, _names(each.target), node


def _goes_through(given: ast.expr, members: str) -> bool:
    return any(_last(dotted(each) or "") == _last(members) for each in ast.walk(given))


def _names(target: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(target) if isinstance(each, ast.Name)}


def _calls(body: Body, members: str) -> Iterator[Place]:
    for statement, names, scope in _loops(body, members):
        calls = (each.func for each in ast.walk(scope) if isinstance(each, ast.Call))
        if any(isinstance(each, ast.Name) and each.id in names for each in calls):
            yield body.place(statement)


def _writes_back(body: Body, members: str) -> bool:
    inside = (node for _, _, scope in _loops(body, members) for node in ast.walk(scope))
    return any(isinstance(node, ast.Call) and callee(node)[1] in _WRITES for node in inside)


def _finding(place: Place, trained: Place, called: Place, members: str, parameters: str) -> Finding:
    return warning(
        "BS164",
        f"{members} are not trained: {parameters} are copies, and the optimizer trains only those.",
        (
            shown(place, "copies the parameters into stacked tensors."),
            shown(trained, "trains the copies.", "read"),
            shown(called, "calls the modules, which still have their initial parameters.", "read"),
        ),
        f"Predict with the trained parameters: functional_call under vmap, as in training. Or copy row k of each "
        f"tensor in {parameters} back into {members}[k] after training.",
        called,
    )
