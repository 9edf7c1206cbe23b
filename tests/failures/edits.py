"""A fix as edits: what it says to write, to move or to remove, read out of its text and applied to a program.

    edits_of("On line 3, write `x = x.clone()`. Or remove line 4.")

gives one list of edits for each alternative. A sentence that says nothing of a line or a statement gives none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any


class Refused(Exception):
    """The program has no such place."""


class NoPlace(Exception):
    """A statement is given without where to write it, and does not take the place of the culprit."""


@dataclass
class Program:
    """A program that is being edited. Lines keep their numbers, whatever is put above and below them.

    culprit: the line that the finding is about.
    """

    text: str
    culprit: int = 0
    above: dict[int, list[str]] = field(default_factory=dict)
    below: dict[int, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.own = dict(enumerate(self.text.splitlines(), 1))
        self.statements = [node for node in ast.walk(ast.parse(self.text)) if isinstance(node, ast.stmt)]

    def __str__(self) -> str:
        lines: list[str] = []
        for n in range(1, len(self.text.splitlines()) + 1):
            lines += [*self.above.get(n, ()), *([self.own[n]] if n in self.own else ()), *self.below.get(n, ())]
        return "\n".join(lines) + "\n"

    def at(self, line: int) -> ast.stmt:
        """The statement with a line: a compound one with those of its head."""
        for node in self.statements:
            if _first(node) <= line <= _last_of_head(node):
                return node
        raise Refused(f"no statement on line {line}")

    def loop(self, line: int) -> ast.stmt:
        """The innermost loop with a line."""
        loops = [node for node in self.statements if isinstance(node, ast.For | ast.While) and _has(node, line)]
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

    # What a fix asks for. Below the line of a compound statement its block begins; `beside` is below all of it.

    def put(self, line: int, code: str, where: str = "below", *, beside: bool = False) -> None:
        node = self.at(line)
        if where.lower() in ("above", "before"):
            line = line if code.startswith("@") else _first(node)
            self.above.setdefault(line, []).extend(_indented(code, node.col_offset))
        elif _is_head(node) and not beside:
            first = _body(node)[0]
            self.above.setdefault(_first(first), []).extend(_indented(code, first.col_offset))
        else:
            self.below.setdefault(node.end_lineno or line, []).extend(_indented(code, node.col_offset))

    def put_beside_loop(self, code: str, where: str = "below", line: int = 0) -> None:
        self.put(self.loop(line or self.culprit).lineno, code, where, beside=True)

    def put_after_step(self, code: str) -> None:
        steps = [n for n, text in self.own.items() if text.endswith(".step()")]
        self.put((steps or [self.culprit])[-1], code)

    def put_at_end(self, name: str, code: str) -> None:
        node = self.function(name)
        self.below.setdefault(node.end_lineno or 0, []).extend(_indented(code, node.body[0].col_offset))

    def put_at_top(self, code: str) -> None:
        self.above.setdefault(1, []).append(code)

    def write(self, lines: list[int], code: str) -> None:
        """Write code in place of statements; of the head of one, if it is a head, and of one line, if it is a part."""
        first, old = self.at(lines[0]), lines
        if _parsed(code) is not None or len(lines) > 1:
            old, indent = self.whole(lines), first.col_offset
        elif code.endswith(":"):
            old, indent = [*range(first.lineno, _last_of_head(first) + 1)], first.col_offset
        else:
            indent = _indent(self.own[lines[0]])
        for n in old:
            self.own.pop(n, None)
        self.below.setdefault(old[0], [])[:0] = _indented(code, indent)

    def write_each(self, lines: list[int], code: str) -> None:
        for line in lines:
            self.write([line], code)

    def write_for_loop(self, code: str) -> None:
        self.write([self.loop(self.culprit).lineno], code)

    def write_for_culprit(self, code: str) -> None:
        """Write a statement for the culprit's, if it assigns or calls the same, or a call for one within it."""
        culprit, new = self.at(self.culprit), _parsed(code)
        if new is None or not _takes_the_place(new, culprit):
            raise NoPlace(code)
        calls = [each for each in ast.walk(culprit) if isinstance(each, ast.Call) and _called(each) == _called(new)]
        if isinstance(culprit, ast.Expr) or not calls:
            self.write([self.culprit], code)
            return
        begin, end = calls[0].lineno, calls[0].end_lineno or 0
        line = self.own[begin][: calls[0].col_offset] + code + self.own[end][calls[0].end_col_offset :]
        self.own = {n: text for n, text in self.own.items() if not begin < n <= end} | {begin: line}

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

    def undecorate(self, old: str, name: str) -> None:
        node = self.function(name)
        found = [n for n in range(_first(node), node.lineno) if self.own[n].strip().startswith(old)]
        if not found:
            raise Refused(f"no {old}")
        del self.own[found[0]]

    def wrap(self, lines: list[int], code: str) -> None:
        whole = self.whole(lines)
        for n in whole:
            if n - 1 not in whole:
                self.above.setdefault(n, []).extend(_indented(code, _indent(self.own[n])))
        for n in whole:
            self.own[n] = f"    {self.own[n]}" if self.own[n] else ""

    def replace(self, lines: list[int], old: str, new: str) -> None:
        for n in lines:
            if old not in self.own.get(n, ""):
                raise Refused(f"no {old} on line {n}")
            self.own[n] = self.own[n].replace(old, new, 1)

    def replace_everywhere(self, old: str, new: str) -> None:
        self.replace([n for n in self.own if old in self.own[n]], old, new)

    def replace_there(self, old: str, new: str) -> None:
        """Replace a statement of the program, or else a part of the culprit's line."""
        found = [n for n, text in self.own.items() if text.strip() == old]
        self.replace((found or [self.culprit])[-1:], old, new)

    def leave_out(self, lines: list[int], old: str) -> None:
        for n in lines:
            self.own[n] = self.own[n].replace(f", {old}", "").replace(old, "")

    def copy(self, lines: list[int], line: int, **options: Any) -> None:
        texts = [self.own[n] for n in self.whole(lines)]
        self.put(line, "\n".join(text[_indent(texts[0]) :] for text in texts), **options)

    def move(self, lines: list[int], line: int, **options: Any) -> None:
        self.copy(lines, line, **options)
        for n in self.whole(lines):
            del self.own[n]

    def move_into_function(self, lines: list[int], name: str) -> None:
        self.move(lines, self.function(name).lineno)

    def move_under(self, lines: list[int], line: int, following: str, more: str | None = None) -> None:
        inside = [node for node in _body(self.at(line)) if following in ast.unparse(node)]
        self.move([*lines, *(_numbers(more) if more else ())], inside[0].lineno, where="above")


_LINES = r"lines? (?P<lines>\d+(?:(?:, | and | to )\d+)*)"
_LINE = r"line (?P<line>\d+)"
_CODE = r"⟦(?P<code>\d+)⟧"
_ANY = r"⟦\d+⟧"
_WHERE = r"(?P<where>above|below|before|after)"
_PUT = rf"(?:, {_ANY},?|,)?(?: (?:put|add)|[^.⟦]*:) {_CODE}"
_ROWS: list[tuple[str, Callable[..., None]]] = [  # what a sentence says, and what is done with what it names
    (rf"remove {_LINES}(?:, {_ANY})?,?(?: and)? dedent the lines inside it", Program.dedent),
    (rf"remove {_LINES}", Program.remove),
    (rf"leave out {_ANY} on {_LINES}", Program.remove),
    (r"remove (?P<old>@[\w.]+(?:\(\))?) from (?P<name>\w+)", Program.undecorate),
    (rf"put {_LINES} inside (?:a )?{_CODE}", Program.wrap),
    (rf"write {_CODE} instead of (?:the loop on )?{_LINES}", Program.write),
    (rf"in place of the loop on {_LINES}: {_CODE}", Program.write),
    (rf"write {_CODE} instead of the loop", Program.write_for_loop),
    (rf"instead of the loop: {_CODE}", Program.write_for_loop),
    (rf"put {_CODE} {_WHERE} the loop on {_LINE}", Program.put),
    (rf"put {_CODE} (?P<where>below) the loop, after {_LINE}", Program.put_beside_loop),
    (rf"put {_CODE} {_WHERE} the loop", Program.put_beside_loop),
    (rf"(?P<where>after) the loop[:,] {_CODE}", Program.put_beside_loop),
    (rf"(?:write|use) ⟦(?P<new>\d+)⟧ instead of ⟦(?P<old>\d+)⟧ on {_LINES}", Program.replace),
    (rf"use (?P<new>\S+) instead of (?P<old>\S+) on {_LINES}", Program.replace),
    (r"use (?P<new>\S+) instead of (?P<old>\S+) in \S+\.py:(?P<lines>\d+)", Program.replace),
    (r"read (?P<new>\S+(?: \+ \d+\])?) for (?P<old>\S+(?: [-+] \d+\])?)", Program.replace_everywhere),
    (rf"(?:write )?{_CODE} on {_LINES}\b(?! overrides)", Program.write_each),
    (rf"on {_LINES},?(?: write(?: into a copy[^:]*:)?)? {_CODE}", Program.write),
    (rf"(?:put|add|call|;) {_CODE}(?: at the end of each step,)? {_WHERE} {_LINE}", Program.put),
    (rf"{_WHERE} the loop on {_LINE}{_PUT}", partial(Program.put, beside=True)),
    (rf"{_WHERE} {_LINE}{_PUT}", Program.put),
    (rf"{_WHERE} {_LINE}, [^⟦]*?: {_CODE}", Program.put),
    (rf"as the first line of the loop on {_LINE}, put {_CODE}", Program.put),
    (rf"detach after each step: {_CODE}", Program.put_after_step),
    (
        rf"move {_LINES}(?:, the whole {_ANY},)?(?: and the clipping on lines? (?P<more>\d+))? under the condition on "
        rf"{_LINE}, before ⟦(?P<following>\d+)⟧",
        Program.move_under,
    ),
    (rf"move {_LINES}(?:, {_ANY},)?[^.⟦]* below the condition on {_LINE}", partial(Program.move, beside=True)),
    (rf"move {_LINES}(?:, (?:the block around )?{_ANY},?)?[^.⟦]*? {_WHERE} {_LINE}", Program.move),
    (rf"move {_LINES}(?:, {_ANY},?)?(?: \(.*?\))? (?:inside|into) the loop (?:at|on) {_LINE}", Program.move),
    (rf"move {_LINES}(?:, {_ANY})?,?[^.⟦]* (?:into|to the start of) (?P<name>\w+)\(\)", Program.move_into_function),
    (rf"run {_LINES} again below {_LINE}", Program.copy),
    (rf"end (?P<name>\w+)\(\) with {_CODE}", Program.put_at_end),
    (r"rename (?P<old>\w+) to (?P<new>\w+), on lines? (?P<lines>\d+)", Program.replace),
    (r"without (?P<old>inplace=True): \S+\.py:(?P<lines>\d+)", Program.leave_out),
    (r"⟦(?P<new>\d+)⟧ instead of ⟦(?P<old>\d+)⟧(?! on)", Program.replace_there),
    (r"write ⟦(?P<new>\d+)⟧ instead of (?P<old>[^\s⟦]+\([^⟦]*?\))(?=: |\. |\.$)", Program.replace_there),
    (rf"(?:: |write |^){_CODE}(?! (?:is|on|above|below|before|after|instead))", Program.write_for_culprit),
]
_PATTERNS = [(re.compile(f"(?i:{row})"), do) for row, do in _ROWS]
_FOR_ALL = re.compile(rf" For that, put {_CODE} at the top\.")
_ALTERNATIVE = re.compile(r"(?<=[.)]) (?=Or |If |Otherwise|To )|[;,] or ")

Edit = Callable[[Program], None]


def edits_of(fix: str) -> Iterator[tuple[str, list[Edit]]]:
    """Yield each alternative of a fix, with the edits that it asks for; none where it is prose."""
    codes: list[str] = []
    text = _coded(re.sub(r" \([A-Z][^`]*?\.\)", "", fix), codes)
    imports = [partial(Program.put_at_top, code=codes[int(each)]) for each in _FOR_ALL.findall(text)]
    for part in _ALTERNATIVE.split(_FOR_ALL.sub("", text)):
        found = [(match, do) for pattern, do in _PATTERNS for match in pattern.finditer(part)]
        edits, end = list[Edit](), 0
        for match, do in sorted(found, key=lambda each: each[0].start()):  # of those at one place the first row
            said = {name: _meant(match, name, codes) for name in match.groupdict() if match[name] is not None}
            if match.start() >= end and not (do is Program.write_for_culprit and _parsed(said["code"]) is None):
                edits.append(partial(do, **said))
                end = match.end()
        shown = re.sub(_CODE, lambda found: f"`{codes[int(found[1])]}`", part).strip()
        yield shown, [*imports, *edits] if edits else []


def _meant(match: re.Match[str], name: str, codes: list[str]) -> Any:
    text = match[name]
    if match.string[match.start(name) - 1 : match.start(name)] == "⟦":
        return codes[int(text)]
    return _numbers(text) if name == "lines" else int(text) if name == "line" else text


def _numbers(lines: str) -> list[int]:
    found: list[int] = []
    for word, number in re.findall(r"(, | and | to |^)(\d+)", lines):
        found += range(found[-1] + 1, int(number) + 1) if word == " to " else [int(number)]
    return found


_BEFORE_CODE = re.compile(r"\b(?:put|write|with|add|call|loop,|before) |: |, (?=\w*parts\.)", re.IGNORECASE)
_BEHIND_CODE = re.compile(r" (?:above|before|below|after|on|in|instead|at) |[.:;,](?: |$)| \(|$")


def _coded(text: str, codes: list[str]) -> str:
    """The text with a number for each piece of code: those in backticks, and statements without them."""

    def number(code: str) -> str:
        codes.append(code)
        return f"⟦{len(codes) - 1}⟧"

    text = re.sub(r"`([^`]+)`", lambda found: number(found[1]), text)
    parts, at = [], 0
    for found in _BEFORE_CODE.finditer(text):
        rest = text[found.end() :]
        pieces = (rest[: each.start()] for each in reversed([*_BEHIND_CODE.finditer(rest)]))
        code = next((each for each in pieces if "⟦" not in each and _is_statement(each)), None)
        if code is not None and found.end() >= at:
            parts += [text[at : found.end()], number(code)]
            at = found.end() + len(code)
    return "".join(parts) + text[at:]


def _is_statement(text: str) -> bool:
    node = None if re.search(r"\. [A-Z]", text) else _parsed(text)
    if isinstance(node, ast.Assign):
        return " = " in text  # else it is an argument
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call)
    return isinstance(node, ast.AugAssign | ast.For | ast.With | ast.If | ast.Return)


def _takes_the_place(new: ast.stmt, old: ast.stmt) -> bool:
    if _body(new):
        return _takes_the_place(_body(new)[-1], _body(old)[-1] if _body(old) else old)
    if isinstance(new, ast.Expr) and isinstance(new.value, ast.Call):
        return any(isinstance(each, ast.Call) and _called(each) == _called(new) for each in ast.walk(old))
    if isinstance(new, ast.Assign | ast.AugAssign):
        target = _target(new)
        if isinstance(old, ast.Assign | ast.AugAssign | ast.AnnAssign):
            return target == _target(old)
        return isinstance(old, ast.Expr) and bool(re.search(rf"(?<![\w.]){re.escape(target)}\b", ast.unparse(old)))
    return isinstance(new, ast.Return) and isinstance(old, ast.Return)


def _target(node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> str:
    return ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)


def _called(node: ast.AST) -> str:
    """The last name of what a call, or a statement that is one, calls."""
    call = node.value if isinstance(node, ast.Expr) else node
    return ast.unparse(call.func).rpartition(".")[2] if isinstance(call, ast.Call) else ""


def _parsed(code: str) -> ast.stmt | None:
    """The first statement of a code; None if it is none."""
    try:
        return ast.parse(code).body[0]
    except (SyntaxError, IndexError):
        return None


def _indented(code: str, indent: int) -> list[str]:
    return [" " * indent + line for line in code.split("\n")]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _first(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])


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
