"""A fix as edits: what it says to write, to move or to remove, read out of its text and applied to a program.

    edits_of("On line 3, write `x = x.clone()`. Or remove line 4.", Place(...))

gives one list of edits for each alternative. A sentence that says nothing of a line or a statement gives none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

_LINES = r"lines? (\d+(?:(?:, | and | to )\d+)*)"
_LINE = r"line (\d+)"
_CODE = r"⟦(\d+)⟧"
_FOR_ALL = re.compile(rf" For that, put {_CODE} at the top\.")
_ALTERNATIVE = re.compile(r"(?<=[.)]) (?=Or |If |Otherwise|To )|[;,] or ")


class Refused(Exception):
    """The program has no such place."""


class NoPlace(Exception):
    """A statement is given without where to write it, and does not take the place of the culprit."""


@dataclass
class Program:
    """A program that is being edited. Lines keep their numbers, whatever is put above and below them."""

    text: str
    culprit: int = 0
    """The line that the finding is about."""
    above: dict[int, list[str]] = field(default_factory=dict)
    below: dict[int, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.own = dict(enumerate(self.text.splitlines(), 1))
        self.tree = ast.parse(self.text)
        self.statements = [node for node in ast.walk(self.tree) if isinstance(node, ast.stmt)]

    def __str__(self) -> str:
        numbers = range(1, len(self.text.splitlines()) + 1)
        each = (
            [*self.above.get(n, ()), *([self.own[n]] if n in self.own else ()), *self.below.get(n, ())] for n in numbers
        )
        return "\n".join(line for lines in each for line in lines) + "\n"

    def at(self, line: int) -> ast.stmt:
        """The statement with a line: a compound one with those of its head."""
        for node in self.statements:
            if _first(node) <= line <= _last_of_head(node):
                return node
        raise Refused(f"no statement on line {line}")

    @property
    def loop(self) -> ast.stmt:
        return self.loop_around(self.culprit)

    def loop_around(self, line: int) -> ast.stmt:
        """The innermost loop with a line."""
        loops = [n for n in self.statements if isinstance(n, ast.For | ast.While) and _has(n, line)]
        if not loops:
            raise Refused("no loop")
        return loops[-1]

    def function(self, name: str) -> ast.FunctionDef:
        found = [node for node in self.statements if isinstance(node, ast.FunctionDef) and node.name == name]
        if len(found) != 1:
            raise Refused(f"{len(found)} functions {name}()")
        return found[0]

    def whole(self, lines: list[int]) -> list[int]:
        """All lines of the statements with these lines."""
        nodes = [node for node in self.statements if any(_first(node) <= line <= _last_of_head(node) for line in lines)]
        if not nodes:
            raise Refused(f"no statement on line {lines[0]}")
        return sorted({n for node in nodes for n in range(_first(node), (node.end_lineno or 0) + 1)})

    def put(self, line: int, code: str, where: str, indent: int | None = None) -> None:
        node = self.at(line)
        if where.lower() in ("above", "before"):
            line = line if code.startswith("@") else _first(node)
            self.above.setdefault(line, []).extend(_indented(code, node.col_offset if indent is None else indent))
        elif _is_head(node) and indent is None:
            inner = _body(node)[0]
            self.above.setdefault(_first(inner), []).extend(_indented(code, inner.col_offset))
        else:
            at = self.below.setdefault(node.end_lineno or line, [])
            at.extend(_indented(code, node.col_offset if indent is None else indent))

    def write(self, lines: list[int], code: str) -> None:
        """Write code in place of statements; of the head of one, if it is a head, and of one line, if it is a part."""
        first, node = self.at(lines[0]), _parses(code)
        if node is None and len(lines) == 1:
            head = [*range(first.lineno, _last_of_head(first) + 1)] if code.endswith(":") else lines
            indent = first.col_offset if code.endswith(":") else _indent(self.own[lines[0]])
        else:
            head, indent = self.whole(lines), first.col_offset
        for n in head:
            self.own.pop(n, None)
        self.below.setdefault(head[0], [])[:0] = _indented(code, indent)

    def replace_call(self, statement: ast.stmt, new: ast.expr, code: str) -> bool:
        """Write a call in place of one of the same function within a statement; return whether there is one."""
        for node in ast.walk(statement):
            if isinstance(statement, ast.Expr) and node is statement.value:
                continue
            if isinstance(node, ast.Call) and isinstance(new, ast.Call) and _called(node) == _called(new):
                if not {node.lineno, node.end_lineno} <= self.own.keys():
                    raise Refused(f"two edits of line {node.lineno}")
                lines = self.own[node.lineno], self.own[node.end_lineno or 0]
                for n in range(node.lineno + 1, (node.end_lineno or 0) + 1):
                    del self.own[n]
                self.own[node.lineno] = lines[0][: node.col_offset] + code + lines[1][node.end_col_offset :]
                return True
        return False

    def import_(self, code: str) -> None:
        self.above.setdefault(1, []).append(code)

    def remove(self, lines: list[int]) -> None:
        for n in lines:
            node = self.at(n)
            for each in range(n, (_last_of_head(node) if n == node.lineno else n) + 1):
                self.own.pop(each, None)

    def dedent(self, lines: list[int]) -> None:
        node = self.at(lines[0])
        for n in range(_first(_body(node)[0]), (node.end_lineno or 0) + 1):
            if n in self.own:
                self.own[n] = self.own[n].removeprefix("    ")
        self.remove(lines)

    def wrap(self, lines: list[int], head: str) -> None:
        whole = self.whole(lines)
        for n in whole:
            if n - 1 not in whole:
                self.above.setdefault(n, []).extend(_indented(head, _indent(self.own[n])))
        for n in whole:
            self.own[n] = f"    {self.own[n]}" if self.own[n] else ""

    def take(self, lines: list[int]) -> str:
        taken = [self.own.pop(n, "") for n in self.whole(lines)]
        return "\n".join(line[_indent(taken[0]) :] for line in taken)

    def copy(self, lines: list[int]) -> str:
        taken = [self.own[n] for n in self.whole(lines)]
        return "\n".join(line[_indent(taken[0]) :] for line in taken)

    def replace(self, lines: list[int], old: str, new: str) -> None:
        for n in lines:
            if old not in self.own.get(n, ""):
                raise Refused(f"no {old} on line {n}")
            self.own[n] = self.own[n].replace(old, new, 1)


Edit = Callable[[Program], None]
_ROWS: list[tuple[re.Pattern[str], Callable[..., Edit]]] = []


def says(*patterns: str) -> Callable[[Callable[..., Edit]], Callable[..., Edit]]:
    """Register what a sentence of a fix says: its groups are given to the function, codes as text, lines as numbers."""

    def register(function: Callable[..., Edit]) -> Callable[..., Edit]:
        _ROWS.extend((re.compile(f"(?i:{pattern})"), function) for pattern in patterns)
        return function

    return register


@says(rf"remove {_LINES}(?:, {_CODE})?,?(?: and)? dedent the lines inside it")
def _dedent(lines: str, _: str | None) -> Edit:
    return lambda program: program.dedent(_numbers(lines))


@says(rf"remove {_LINES}", rf"leave out {_CODE} on {_LINE}")
def _remove(*groups: str) -> Edit:
    return lambda program: program.remove(_numbers(groups[-1]))


@says(rf"put {_LINES} inside (?:a )?{_CODE}")
def _wrap(lines: str, head: str) -> Edit:
    return lambda program: program.wrap(_numbers(lines), head)


@says(rf"write {_CODE} instead of {_LINES}", rf"write {_CODE} instead of the loop on {_LINES}")
def _in_place_of(code: str, lines: str) -> Edit:
    return lambda program: program.write(_numbers(lines), code)


@says(rf"in place of the loop on {_LINE}: {_CODE}")
def _in_place_of_that_loop(line: str, code: str) -> Edit:
    return lambda program: program.write([int(line)], code)


@says(rf"write {_CODE} instead of the loop", rf"instead of the loop: {_CODE}")
def _in_place_of_the_loop(code: str) -> Edit:
    return lambda program: program.write([program.loop.lineno], code)


@says(rf"put {_CODE} (before) the loop(?! on)", rf"{_CODE} (after) the loop")
def _beside_the_loop(code: str, where: str) -> Edit:
    return lambda program: program.put(program.loop.lineno, code, where, program.loop.col_offset)


@says(rf"put {_CODE} below the loop, after {_LINE}")
def _below_the_loop_with(code: str, line: str) -> Edit:
    def edit(program: Program) -> None:
        loop = program.loop_around(int(line))
        program.put(loop.lineno, code, "below", loop.col_offset)

    return edit


@says(rf"put {_CODE} (before) the loop on {_LINE}")
def _before_that_loop(code: str, where: str, line: str) -> Edit:
    return lambda program: program.put(int(line), code, where)


@says(rf"(after) the loop[:,] {_CODE}")
def _after_the_loop(where: str, code: str) -> Edit:
    return lambda program: program.put(program.loop.lineno, code, where, program.loop.col_offset)


@says(rf"(?:write|use) {_CODE} instead of {_CODE} on {_LINES}")
def _part(new: str, old: str, lines: str) -> Edit:
    return lambda program: program.replace(_numbers(lines), old, new)


@says(rf"use (\S+) instead of (\S+) on {_LINES}", r"use (\S+) instead of (\S+) in \S+\.py:(\d+)")
def _use(new: str, old: str, lines: str) -> Edit:
    return lambda program: program.replace(_numbers(lines), old, new)


@says(r"read (\S+(?: \+ \d+\])?) for (\S+(?: [-+] \d+\])?)")
def _read(new: str, old: str) -> Edit:
    return lambda program: program.replace([n for n in program.own if old in program.own[n]], old, new)


@says(rf"(?:write )?{_CODE} on {_LINES}\b(?! overrides)")
def _write_on(code: str, lines: str) -> Edit:
    return lambda program: [program.write([n], code) for n in _numbers(lines)] and None


@says(rf"on {_LINE},?(?: write)? {_CODE}")
def _on_write(line: str, code: str) -> Edit:
    return lambda program: program.write([int(line)], code)


@says(rf"(?:put|add|call|;) {_CODE} (above|before|below|after) {_LINE}")
def _put(code: str, where: str, line: str) -> Edit:
    return lambda program: program.put(int(line), code, where)


@says(rf"(above|before|below|after) {_LINE}(?:, {_CODE},?|,)?(?: (?:put|add)|[^.⟦]*:) {_CODE}")
def _there(where: str, line: str, _: str | None, code: str) -> Edit:
    return lambda program: program.put(int(line), code, where)


@says(rf"call {_CODE} at the end of each step, (below) {_LINE}", rf"{_CODE}[^⟦.]*? (below) {_LINE}, before backward")
def _put_below(code: str, where: str, line: str) -> Edit:
    return lambda program: program.put(int(line), code, where)


@says(rf"detach after each step: {_CODE}")
def _after_the_step(code: str) -> Edit:
    def edit(program: Program) -> None:
        lines = [n for n, text in program.own.items() if re.search(r"\.step\(", text)] or [program.culprit]
        program.put(lines[-1], code, "below")

    return edit


@says(rf"(above) {_LINE}: {_CODE}")
def _above(where: str, line: str, code: str) -> Edit:
    return lambda program: program.put(int(line), code, where)


@says(rf"(after) {_LINE}, [^⟦]*?: {_CODE}")
def _after(where: str, line: str, code: str) -> Edit:
    return lambda program: program.put(int(line), code, where)


@says(rf"below the loop on {_LINE}(?:, {_CODE},?|,)?(?: (?:put|add)|[^.⟦]*:) {_CODE}")
def _below_loop(line: str, _: str | None, code: str) -> Edit:
    return lambda program: program.put(int(line), code, "below", program.at(int(line)).col_offset)


@says(
    rf"move {_LINES}(?:, the whole {_CODE},)?(?: and the clipping on {_LINES})? under the condition on {_LINE}, "
    rf"before {_CODE}"
)
def _under(lines: str, _: str | None, more: str | None, line: str, following: str) -> Edit:
    def edit(program: Program) -> None:
        inside = [node for node in _body(program.at(int(line))) if following in ast.unparse(node)]
        code = program.take([*_numbers(lines), *_numbers(more or "")])
        program.put(inside[0].lineno, code, "above")

    return edit


@says(rf"move {_LINES}(?:, {_CODE},)?[^.⟦]* below the condition on {_LINE}")
def _out_of(lines: str, _: str | None, line: str) -> Edit:
    return lambda program: program.put(
        int(line), program.take(_numbers(lines)), "below", program.at(int(line)).col_offset
    )


@says(rf"as the first line of the loop on {_LINE}, put {_CODE}")
def _first_in_loop(line: str, code: str) -> Edit:
    return lambda program: program.put(int(line), code, "below")


@says(rf"move {_LINES}(?:, (?:the block around )?{_CODE},?)?[^.⟦]*? (above|below) {_LINE}")
def _move(lines: str, _: str | None, where: str, line: str) -> Edit:
    return lambda program: program.put(int(line), program.take(_numbers(lines)), where)


@says(rf"move {_LINES}(?:, {_CODE},?)?(?: \(.*?\))? (?:inside|into) the loop (?:at|on) {_LINE}")
def _into_the_loop(lines: str, _: str | None, line: str) -> Edit:
    return lambda program: program.put(int(line), program.take(_numbers(lines)), "below")


@says(rf"move {_LINES}(?:, {_CODE})?,?[^.⟦]* (?:into|to the start of) (\w+)\(\)")
def _into_a_function(lines: str, _: str | None, name: str) -> Edit:
    return lambda program: program.put(program.function(name).lineno, program.take(_numbers(lines)), "below")


@says(rf"run {_LINES} again below {_LINE}")
def _again(lines: str, line: str) -> Edit:
    return lambda program: program.put(int(line), program.copy(_numbers(lines)), "below")


@says(r"remove (@[\w.]+(?:\(\))?) from (\w+)")
def _undecorate(decorator: str, name: str) -> Edit:
    def edit(program: Program) -> None:
        node = program.function(name)
        for each in range(_first(node), node.lineno):
            if program.own[each].strip().startswith(decorator):
                del program.own[each]
                return
        raise Refused(f"no {decorator}")

    return edit


@says(rf"end (\w+)\(\) with {_CODE}")
def _end(name: str, code: str) -> Edit:
    def edit(program: Program) -> None:
        node = program.function(name)
        program.below.setdefault(node.end_lineno or 0, []).extend(_indented(code, node.body[0].col_offset))

    return edit


@says(rf"rename (\w+) to (\w+), on {_LINE}")
def _rename(old: str, new: str, line: str) -> Edit:
    return lambda program: program.replace([int(line)], old, new)


@says(r"without inplace=True: \S+\.py:(\d+)")
def _not_in_place(line: str) -> Edit:
    def edit(program: Program) -> None:
        program.own[int(line)] = re.sub(r"(?:, )?inplace=True", "", program.own[int(line)])

    return edit


@says(rf"on {_LINE}, write into a copy[^:]*: {_CODE}")
def _into_a_copy(line: str, code: str) -> Edit:
    return lambda program: program.write([int(line)], code)


@says(rf"write {_CODE} instead of ([^\s⟦]+\([^⟦]*?\))(?=: |\. |\.$)", rf"{_CODE} instead of {_CODE}(?! on)")
def _instead_of(new: str, old: str) -> Edit:
    """Another expression in the culprit's line, or another statement of the program."""

    def edit(program: Program) -> None:
        lines = [n for n, text in program.own.items() if text.strip() == old] or [program.culprit]
        program.replace(lines[-1:], old, new)

    return edit


@says(rf"(?:: |write |^){_CODE}(?! (?:is|on|above|below|before|after|instead))")
def _in_place_of_the_culprit(code: str) -> Edit | None:
    """A statement without a line takes the place of the culprit's, if it assigns or calls the same."""

    def edit(program: Program) -> None:
        culprit, new = program.at(program.culprit), _parses(code)
        if new is None or not _takes_the_place(new, culprit):
            raise NoPlace(code)
        if not (isinstance(new, ast.Expr) and program.replace_call(culprit, new.value, code)):
            program.write([program.culprit], code)

    return edit if _parses(code) else None


def _takes_the_place(new: ast.stmt, old: ast.stmt) -> bool:
    if _body(new):
        return _takes_the_place(_body(new)[-1], _body(old)[-1] if _body(old) else old)
    if isinstance(new, ast.Expr) and isinstance(new.value, ast.Call):
        return any(isinstance(each, ast.Call) and _called(each) == _called(new.value) for each in ast.walk(old))
    if isinstance(new, ast.Assign | ast.AugAssign):
        target = _target(new)
        if isinstance(old, ast.Assign | ast.AugAssign | ast.AnnAssign):
            return target == _target(old)
        return (
            isinstance(old, ast.Expr) and re.search(rf"(?<![\w.]){re.escape(target)}\b", ast.unparse(old)) is not None
        )
    return isinstance(new, ast.Return) and isinstance(old, ast.Return)


def _target(node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> str:
    return ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)


def _called(node: ast.Call) -> str:
    return ast.unparse(node.func).rpartition(".")[2]


def edits_of(fix: str) -> Iterator[tuple[str, list[Edit]]]:
    """Yield each alternative of a fix, with the edits that it asks for; none where it is prose."""
    codes: list[str] = []
    text = _coded(re.sub(r" \([A-Z][^`]*?\.\)", "", fix), codes)
    imports = [codes[int(each)] for each in _FOR_ALL.findall(text)]
    text = _FOR_ALL.sub("", text)
    for part in _ALTERNATIVE.split(text):
        found = [
            (match.start(), number, match, make)
            for number, (pattern, make) in enumerate(_ROWS)
            for match in pattern.finditer(part)
        ]
        edits, end = list[Edit](), 0
        for start, _, match, make in sorted(found, key=lambda each: each[:2]):
            if start < end:
                continue
            edit = make(*(_group(match, k, codes) for k in range(1, match.re.groups + 1)))
            if edit is not None:
                edits.append(edit)
                end = match.end()
        yield _shown(part, codes), [*(partial(Program.import_, code=each) for each in imports if edits), *edits]


def _group(match: re.Match[str], number: int, codes: list[str]) -> str | None:
    text = match[number]
    is_code = text is not None and match.start(number) > 0 and match.string[match.start(number) - 1] == "⟦"
    return codes[int(text)] if is_code else text


def _shown(part: str, codes: list[str]) -> str:
    return re.sub(_CODE, lambda found: f"`{codes[int(found[1])]}`", part).strip()


def _coded(text: str, codes: list[str]) -> str:
    """The text with a number for each piece of code: those in backticks, and statements without them."""

    def number(code: str) -> str:
        codes.append(code)
        return f"⟦{len(codes) - 1}⟧"

    text = re.sub(r"`([^`]+)`", lambda found: number(found[1]), text)
    parts, at = [], 0
    for found in re.finditer(
        r"\b(?:put|write|with|add|call|loop,|instead:|before) |: |, (?=\w*parts\.)", text, re.IGNORECASE
    ):
        if found.end() < at:
            continue
        rest = text[found.end() :]
        ends = [
            m.start()
            for m in re.finditer(r" (?:above|before|below|after|on|in|instead|there|at) |[.:;,](?: |$)| \(|$", rest)
        ]
        code = next((rest[:k] for k in reversed(ends) if "⟦" not in rest[:k] and _is_statement(rest[:k])), None)
        if code is not None:
            parts += [text[at : found.end()], number(code)]
            at = found.end() + len(code)
    return "".join(parts) + text[at:]


def _is_statement(text: str) -> bool:
    node = None if re.search(r"\. [A-Z]", text) else _parses(text)
    if isinstance(node, ast.Assign):
        return " = " in text  # else an argument
    return isinstance(node, ast.AugAssign | ast.For | ast.With | ast.If | ast.Return) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    )


def _parses(code: str) -> ast.stmt | None:
    """The first statement of a code; None if it is none."""
    try:
        return ast.parse(code).body[0]
    except (SyntaxError, IndexError):
        return None


def _numbers(lines: str) -> list[int]:
    found: list[int] = []
    for word, number in re.findall(r"(, | and | to |^)(\d+)", lines):
        found += range(found[-1] + 1, int(number) + 1) if word == " to " else [int(number)]
    return found


def _indented(code: str, indent: int) -> list[str]:
    return [" " * indent + line for line in code.split("\n")]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _first(node: ast.stmt) -> int:
    return min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])


def _body(node: ast.stmt) -> list[ast.stmt]:
    body: list[ast.stmt] = getattr(node, "body", [])
    return body


def _is_head(node: ast.stmt) -> bool:
    """Whether a statement has a block below it."""
    return bool(_body(node)) and _body(node)[0].lineno > node.lineno


def _last_of_head(node: ast.stmt) -> int:
    return max(node.lineno, _first(_body(node)[0]) - 1) if _is_head(node) else node.end_lineno or node.lineno


def _has(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or 0)
