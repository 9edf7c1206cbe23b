"""A fix as data: what to write, move or remove in a program, carried by the sentence that says so, and applied to text.

    f"Compute it from a copy: on line {at.line}, write `{new}`{write(at, new)}. {OR}Or remove line 4{remove(there)}."

An edit in an f-string is a mark that no font shows. `Finding` takes the marks out: its `fix` is the text, its `edits`
are what the text asks for, a tuple for each alternative.
"""

from __future__ import annotations

import ast
import builtins
import functools
import json
import linecache
import os
import re
import symtable
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal, get_args

from backsight.source.bindings import Use, declared, parameters_of, uses
from backsight.source.body import SCOPES, Body, Place, covers, is_shared, statements
from backsight.source.rewriting import rewritten, rewritten_line
from backsight.text import as_code, listed

Kind = Literal["write", "put", "remove", "unwrap", "wrap", "change", "move", "repeat", "import"]
Where = Literal["above", "below", "beside", "end"]

_FIRST = 0x100000  # a plane for private use, of which no program's text has any
_END, OR = chr(_FIRST + 0x100), chr(_FIRST + 0x101)
"""`OR` stands before the words of another alternative, and shows as little as an edit."""

_MARK = re.compile(f"([{chr(_FIRST)}-{chr(_FIRST + 0xFF)}]+){_END}")


class EditError(ValueError):
    """A program has no place for an edit, or is none anymore with it."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One change to the text of a file; lines are counted from 1, in the file as it was before any edit.

    kind: what is done; `write`, `put` and the others below make one of each kind, and say what it does.
    file: the file, as a `Place` has it.
    lines: the lines that it is about.
    code: what is written; several lines are indented as where they go, and among themselves as they are.
    old: of a change, what `code` takes the place of.
    where: of what is put, moved or repeated, where it goes: `above` or `below` a line, as the first of its block
        where that begins there; `beside`, below all of its block; at the `end` of that block.
    line: that line.
    """

    kind: Kind
    file: str
    lines: tuple[int, ...] = ()
    code: str = ""
    old: str = ""
    where: Where = "below"
    line: int = 0

    def __str__(self) -> str:
        """The mark."""
        return "".join(chr(_FIRST + byte) for byte in json.dumps(asdict(self)).encode()) + _END

    def __format__(self, spec: str) -> str:
        return str(self)


At = Place | Sequence[Place]


def write(at: At, code: str) -> Edit:
    """Write `code` instead of statements: of a compound one's head, if `code` is one; of the one line, if it is only a
    part of a statement; else all of them goes."""
    return Edit("write", *_where(at), code)


def instead(body: Body | None, statement: ast.stmt | None, code: str) -> Edit | str:
    """Write `code` instead of one statement, if it is known; what else stands on its line stays."""
    if body is None or statement is None:
        return ""
    shared = rewritten_line(body, statement, code) if is_shared(body, statement.lineno) else ""
    return write(body.place(statement), shared or code)


def put(code: str, where: Where, at: Place) -> Edit:
    """Put `code` above or below a statement, beside a block, or at its end."""
    return Edit("put", at.file, code=code, where=where, line=at.line)


def remove(at: At) -> Edit:
    """Remove statements, or decorators by their lines; of a compound statement the head alone: see `unwrap`."""
    return Edit("remove", *_where(at))


def unwrap(at: Place) -> Edit:
    """Remove the head of a block, and dedent what is in it."""
    return Edit("unwrap", *_where(at))


def wrap(at: At, code: str) -> Edit:
    """Put statements into a block of which `code` is the head."""
    return Edit("wrap", *_where(at), code)


def change(at: At, old: str, new: str) -> Edit:
    """Write `new` for `old` on each of these lines: everywhere for a name, else where it comes first."""
    return Edit("change", *_where(at), new, old)


def move(at: At, where: Where, there: Place) -> Edit:
    """Move statements."""
    return Edit("move", *_where(at), where=where, line=there.line)


def repeat(at: At, where: Where, there: Place) -> Edit:
    """Run statements again elsewhere, as they are."""
    return Edit("repeat", *_where(at), where=where, line=there.line)


def importing(file: str, code: str) -> Edit:
    """Import at the top of a file, for every alternative."""
    return Edit("import", file, code=code)


def on_line(at: Place, code: str) -> str:
    """Say what to write instead of a statement, if anything, and carry it: "on line 3, write `x = x.clone()`"."""
    return f"on line {at.line}, write `{code}`{write(at, code)}" if code else ""


def on_line_with(body: Body | None, statement: ast.stmt | None, changes: Mapping[ast.expr, str]) -> str:
    """Say the same of a statement with some of its expressions replaced; empty where that would be too long."""
    if body is None or statement is None:
        return ""
    return on_line(body.place(statement), rewritten(body, statement, changes))


def put_at(code: str, where: Where, at: Place) -> str:
    """Say what to put above or below a statement, and carry it: "put `x = x.clone()` above line 3"."""
    return f"put `{code}` {where} line {at.line}{put(code, where, at)}"


def sentence(words: str) -> str:
    """Words as a sentence begins with them."""
    return words[:1].upper() + words[1:]


def lines_of(file: str, *lines: int) -> list[Place]:
    """Return lines of a file as places."""
    return [Place(file, line, "") for line in lines]


def _where(at: At) -> tuple[str, tuple[int, ...]]:
    places = [at] if isinstance(at, Place) else at
    return places[0].file, tuple(place.line for place in places)


Alternative = tuple[Edit, ...]


def without_marks(text: str) -> str:
    """Return a text as it is read."""
    return _MARK.sub("", text).replace(OR, "")


def marks_of(text: str) -> str:
    """Return the edits of a text alone, for other words that ask for the same."""
    return "".join(found[0] for found in _MARK.finditer(text))


def alternatives(text: str) -> tuple[Alternative, ...]:
    """Return the edits of each alternative of a fix, in order, but of one that does not say what to write."""
    found = [[*_edits_in(part)] for part in text.split(OR)]
    imports = [edit for edits in found for edit in edits if edit.kind == "import"]
    every = ([edit for edit in edits if edit.kind != "import"] for edits in found)
    return tuple(dict.fromkeys((*imports, *edits) for edits in every if edits and all(map(_is_told, edits))))


def _is_told(edit: Edit) -> bool:
    """Whether an edit says what to write: a statement that would be too long to read is empty, or shortened."""
    return "…" not in edit.code and (bool(edit.code) or edit.kind not in ("write", "put", "wrap"))


def _edits_in(text: str) -> Iterator[Edit]:
    for mark in _MARK.findall(text):
        data = json.loads(bytes(ord(char) - _FIRST for char in mark))
        yield Edit(**{**data, "lines": tuple(data["lines"]), "code": as_code(data["code"])})


def from_data(data: Mapping[str, object]) -> Edit:
    """Return an edit that was written as JSON.

    Raises:
        ValueError: if it is none.
    """
    kind, lines, line, where = data.get("kind"), data.get("lines"), data.get("line"), data.get("where")
    texts = [text for name in ("file", "code", "old") if isinstance(text := data.get(name), str)]
    if (
        kind not in get_args(Kind)
        or where not in get_args(Where)
        or not isinstance(lines, list)
        or not all(type(each) is int for each in (*lines, line))
        or len(texts) < 3
    ):
        raise ValueError(f"expected an edit, not {data!r}.")
    return Edit(kind, texts[0], tuple(lines), texts[1], texts[2], where, line)  # type: ignore[arg-type]  # as asked


def edited(edits: Iterable[Edit], texts: Mapping[str, str]) -> dict[str, str]:
    """Return the files that edits change, as they are then.

    Args:
        edits: those of one alternative.
        texts: the text of each file that they name.

    Raises:
        EditError: if a file has no such place, or does not compile with them.
    """
    files: dict[str, _Text] = {}
    for edit in edits:
        if edit.file not in files:
            if edit.file not in texts:
                raise EditError(f"{edit.file} cannot be read.")
            files[edit.file] = _Text(texts[edit.file])
        files[edit.file].apply(edit)
    after = {file: str(text) for file, text in files.items()}
    for file, text in after.items():
        try:
            compile(text, file, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            raise EditError(f"{file} does not compile then: {error}.") from None
    return after


def in_words(edit: Edit) -> str:
    """Say in one line what an edit does, and where.

    >>> in_words(Edit("write", "train.py", (3,), "x = x + 1"))
    'train.py:3: write `x = x + 1`'
    """
    name = os.path.basename(edit.file)
    lines = f"line{'s' * (len(edit.lines) > 1)} {listed([*map(str, edit.lines)])}"
    where = {"beside": "below the block on", "end": "at the end of the block on"}.get(edit.where, edit.where)
    there, code = f"{where} line {edit.line}", edit.code.replace("\n", "; ")
    did = {
        "write": f"write `{code}`" if len(edit.lines) == 1 else f"instead of {lines}, write `{code}`",
        "put": f"put `{code}` {where} it",
        "remove": f"remove {lines}",
        "unwrap": f"remove {lines}, and dedent what is in it",
        "wrap": f"put {lines} inside `{code}`",
        "change": f"write `{code}` for `{edit.old}`",
        "move": f"move {lines} {there}",
        "repeat": f"run {lines} again {there}",
        "import": f"add `{code}`",
    }[edit.kind]
    line = edit.lines[:1] or ((edit.line,) if edit.line else ())
    return f"{name}{''.join(f':{n}' for n in line)}: {did}"


class _Text:
    """A program that is being edited. Lines keep their numbers, whatever is put above and below them."""

    def __init__(self, text: str) -> None:
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError) as error:
            raise EditError(f"it does not compile as it is: {error}.") from None
        lines = text.removesuffix("\n").split("\n")  # as Python counts them: str.splitlines() knows other ends, too
        self._size = len(lines)
        self._own = dict(enumerate(lines, 1))
        self._above: dict[int, list[str]] = {}
        self._below: dict[int, list[str]] = {}
        self._statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
        self._top = _first_statement(tree)
        self._unwrapped: list[ast.stmt] = []

    def __str__(self) -> str:
        lines: list[str] = []
        for n in range(1, self._size + 1):
            here = [*self._above.get(n, ()), *([self._own[n]] if n in self._own else ()), *self._below.get(n, ())]
            lines += [self._dedented(n, each) for each in here]
        return "\n".join(lines) + "\n"

    def _dedented(self, n: int, line: str) -> str:
        """A line as it stands where the heads of blocks around it are gone, the innermost first."""
        for node in self._unwrapped:
            inner = _body(node)[0].col_offset
            if covers(node, n) and line[:inner].isspace():
                line = line[inner - node.col_offset :]
        return line

    def apply(self, edit: Edit) -> None:
        """Do what an edit asks for; there is a method for each kind."""
        getattr(self, f"_{edit.kind}")(edit)

    def _at(self, line: int) -> ast.stmt:
        """The statement with a line: a compound one with those of its head."""
        for node in self._statements:
            if _first(node) <= line <= _last_of_head(node):
                return node
        raise EditError(f"there is no statement on line {line}.")

    def _has_statement(self, line: int) -> bool:
        return any(_first(node) <= line <= _last_of_head(node) for node in self._statements)

    def _line(self, n: int) -> str:
        if n not in self._own:
            raise EditError(f"line {n} is written anew and moved: remove it, and put the new one.")
        return self._own[n]

    def _whole(self, lines: Sequence[int]) -> list[int]:
        """All lines of the statements with these lines."""
        nodes = [self._at(line) for line in lines]
        return sorted({n for node in nodes for n in range(_first(node), (node.end_lineno or 0) + 1)})

    def _keep_block(self, gone: Sequence[int]) -> None:
        """Leave `pass` in a block all of whose statements have moved."""
        left = (node for node in self._statements if node.lineno in self._own)
        for block in (block for node in left for block in _blocks(node)):
            lines = range(_first(block[0]), (block[-1].end_lineno or 0) + 1)
            if set(lines) & set(gone) and not any(n in self._own for each in block for n in _all_lines(each)):
                self._below.setdefault(lines[0], []).insert(0, f"{' ' * block[0].col_offset}pass")

    def _import(self, edit: Edit) -> None:
        self._above.setdefault(self._top, []).append(edit.code)

    def _put(self, edit: Edit) -> None:
        line, code, where = edit.line, _laid_out(edit.code), edit.where
        node = self._at(line)
        if where == "above":
            line = line if code.startswith("@") else _first(node)
            self._above.setdefault(line, []).extend(_indented(code, node.col_offset))
        elif where == "end":
            if not _is_head(node):
                raise EditError(f"no block begins on line {line}.")
            self._below.setdefault(node.end_lineno or line, []).extend(_indented(code, _body(node)[0].col_offset))
        elif where == "below" and _is_head(node):
            first = _body(node)[0]
            self._above.setdefault(_first(first), []).extend(_indented(code, first.col_offset))
        else:
            self._below.setdefault(node.end_lineno or line, []).extend(_indented(code, node.col_offset))

    def _write(self, edit: Edit) -> None:
        lines, node = edit.lines, self._at(edit.lines[0])
        code = edit.code if _body(node) else _laid_out(edit.code)
        old, indent = self._whole(lines), node.col_offset
        if code.endswith(":") and _is_head(node) and len(lines) == 1:
            old = [*range(node.lineno, _last_of_head(node) + 1)]
        elif len(lines) == 1 and not _is_whole(code):
            old, indent = [*lines], _indent(self._line(lines[0]))
        if any(n not in self._own for n in old):
            raise EditError(f"line {old[0]} is written twice.")
        for n in old:
            del self._own[n]
        self._below.setdefault(old[0], [])[:0] = _indented(code, indent)

    def _remove(self, edit: Edit) -> None:
        lines = edit.lines
        for n in lines:
            inside = lines[0] < n < lines[-1]  # where it may be a comment, or `else:`
            node = None if inside and not self._has_statement(n) else self._at(n)
            for each in range(n, (_last_of_head(node) if node is not None and n == node.lineno else n) + 1):
                self._own.pop(each, None)

    def _unwrap(self, edit: Edit) -> None:
        node = self._at(edit.lines[0])
        if not _is_head(node):
            raise EditError(f"no block begins on line {edit.lines[0]}.")
        self._unwrapped = sorted({*self._unwrapped, node}, key=lambda each: -each.col_offset)
        self._remove(edit)

    def _wrap(self, edit: Edit) -> None:
        whole = self._whole(edit.lines)
        for n in range(whole[0], whole[-1]):
            if n - 1 in whole and n not in whole and not self._has_statement(n):
                whole = sorted([*whole, n])  # an empty line, or a comment
        for n in whole:
            if n - 1 not in whole:
                self._above.setdefault(n, []).extend(_indented(edit.code, _indent(self._line(n))))
        for n in whole:
            self._own[n] = f"    {self._line(n)}".rstrip()

    def _change(self, edit: Edit) -> None:
        is_name = edit.old.isidentifier()
        found, count = (rf"(?<![\w.]){edit.old}(?!\w)", 0) if is_name else (re.escape(edit.old), 1)
        for n in edit.lines:
            after, changed = re.subn(found, lambda _: edit.code, self._line(n), count=count)
            if not changed:
                raise EditError(f"there is no {edit.old} on line {n}.")
            self._own[n] = after

    def _repeat(self, edit: Edit) -> None:
        texts = [self._line(n) for n in self._whole(edit.lines)]
        indent = _indent(texts[0])
        self._put(replace(edit, code="\n".join(text[min(indent, _indent(text)) :] for text in texts)))

    def _move(self, edit: Edit) -> None:
        self._repeat(edit)
        whole = self._whole(edit.lines)
        for n in whole:
            del self._own[n]
        self._keep_block(whole)


def _blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks of a statement, each with the statements directly in it."""
    for name in ("body", "orelse", "finalbody"):
        yield from filter(None, [getattr(node, name, [])])
    for each in (*getattr(node, "handlers", []), *getattr(node, "cases", [])):
        yield each.body


def _first_statement(tree: ast.Module) -> int:
    """The line of the first statement that something can be imported above."""
    for k, node in enumerate(tree.body):
        is_text = k == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_text and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            return _first(node)
    raise EditError("there is no statement in it.")


def _is_whole(code: str) -> bool:
    """Whether a code is no mere part of a statement."""
    try:
        compile(code, "", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def _indented(code: str, indent: int) -> list[str]:
    return [" " * indent + line if line else "" for line in code.split("\n")]


def _laid_out(code: str) -> str:
    """A block that a sentence has on one line, `with torch.no_grad(): x.zero_(); y.zero_()`, on lines of its own."""
    try:
        (node,) = ast.parse(code).body
    except (SyntaxError, ValueError):  # the head of a block, a part of a statement, several statements
        return code
    body = _body(node)
    if not body or body[0].lineno > node.lineno or node.end_lineno != node.lineno:
        return code
    head = code.encode()[: body[0].col_offset].decode().rstrip()
    return "\n".join((head, *(f"    {ast.get_source_segment(code, each)}" for each in body)))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _first(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])


def _all_lines(node: ast.stmt) -> range:
    return range(_first(node), (node.end_lineno or 0) + 1)


def _body(node: ast.stmt) -> list[ast.stmt]:
    body: list[ast.stmt] = getattr(node, "body", [])
    return body


def _is_head(node: ast.stmt) -> bool:
    """Whether a statement has a block below it."""
    return bool(_body(node)) and _body(node)[0].lineno > node.lineno


def _last_of_head(node: ast.stmt) -> int:
    return max(node.lineno, _first(_body(node)[0]) - 1) if _is_head(node) else node.end_lineno or node.lineno


_MODULES = {"copy", "torch"}
"""What fixes use; it is imported where it has to be."""

_OF_MODULES = {"__name__", "__file__", "__doc__", "__builtins__", "__spec__", "__loader__", "__package__", "__path__"}
_STAR = re.compile(r"^\s*from\s.*\bimport\s+\*", re.MULTILINE)


def fitting(fix: str) -> str:
    """Return a fix with what has to be imported for it, and without the alternatives that do not fit the program.

    Of one alternative that does not fit the words are left, with the names that it has not.
    """
    parts = fix.split(OR)
    missing = [[_missing(each) for each in alternatives(part)] for part in parts]
    fits = [all(name in _MODULES for names in each for _, name in names) for each in missing]
    if not any(fits):
        unknown = {name for every in missing for names in every for _, name in names if name.isidentifier()}
        there = [f"`{name}`" for name in sorted(unknown - _MODULES)]
        if there:  # the words quote them all the same
            fix = f"{_ended(fix)}Not known on that line: {listed(there)}. Write what it is called there."
        return without_marks(fix)
    left = [part for part, fit in zip(parts, fits, strict=True) if fit]
    if not all(fits):
        left = [*map(_ended, left[:-1]), left[-1] if fits[-1] else _ended(left[-1])]
        first = left[0] if fits[0] else re.sub("^[Oo]r ", "", left[0])
        left[0] = first[:1].upper() + first[1:]
    needed = {each for every, fit in zip(missing, fits, strict=True) if fit for names in every for each in names}
    lines = [f"`import {name}`{importing(file, f'import {name}')}" for file, name in sorted(needed)]
    return OR.join(left).rstrip() + (f" For that, put {' and '.join(lines)} at the top." if lines else "")


def _ended(part: str) -> str:
    """Words before an alternative that is left out, with their full stop."""
    words = part.rstrip().rstrip(",;")
    return f"{words} " if words.endswith((".", ")")) else f"{words}. "


def _missing(alternative: Alternative) -> set[tuple[str, str]]:
    """The names, with their file, that a program would have to have and has not; a file alone if it is broken."""
    texts = {edit.file: "".join(linecache.getlines(edit.file)) for edit in alternative}
    try:
        after = edited(alternative, texts)
        return {(file, name) for file in after for name in _lacking(after[file]) - _lacking(texts[file])}
    except (SyntaxError, ValueError, RecursionError) as why:
        return (
            {(edit.file, "") for edit in alternative} if isinstance(why, EditError) and all(texts.values()) else set()
        )


@functools.lru_cache(maxsize=16)
def _lacking(text: str) -> frozenset[str]:
    """The names that a program reads and has nowhere, or has not yet: each of these with where it is read too early."""
    return frozenset(_unknown(text) | _early(text))


def _early(text: str) -> set[str]:
    """The local names, and those of the module, whose first line reads them, as `loss of train`."""
    found = set[str]()
    tree = ast.parse(text)
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    scopes: list[ast.Module | ast.FunctionDef] = [tree, *functions]
    for scope in scopes:
        first = dict.fromkeys((*parameters_of(scope), *declared(scope)), True)
        bound = set[str]()
        for statement in statements(scope):
            # What a function reads, it reads when it is called.
            every = uses(statement) if not isinstance(statement, SCOPES) else [Use(statement.name, binds=True)]
            for use in every:
                if "." not in use.name:
                    first.setdefault(use.name, use.binds)
                    bound |= {use.name} if use.binds else set()
        within = getattr(scope, "name", "the module")
        found |= {f"{name} of {within}" for name in bound - vars(builtins).keys() if not first[name]}
    return found


def _unknown(text: str) -> set[str]:
    """The names that a program reads, and has nowhere: neither around the place, nor in the module, nor in Python."""
    tables = [symtable.symtable(text, "", "exec")]
    module = {each.get_name() for each in tables[0].get_symbols() if each.is_assigned() or each.is_imported()}
    read = set[str]()
    for table in tables:  # grows as we go
        tables += table.get_children()
        for each in table.get_symbols():
            if each.is_declared_global() and each.is_assigned():
                module.add(each.get_name())
            elif each.is_global() or table is tables[0]:
                read.add(each.get_name())
    return set() if _STAR.search(text) else read - module - vars(builtins).keys() - _OF_MODULES


def unread(text: str) -> set[str]:
    """The names that a program assigns to, and reads nowhere: neither `weight` in itself nor in `weight[0] = 1`.

    >>> sorted(unread("weight = torch.ones(2)\nloss = error.mean()\nloss.backward()"))
    ['weight']
    """
    nodes = [*ast.walk(ast.parse(text))]
    names = [node for node in nodes if isinstance(node, ast.Name)]
    # Of `value, logits = f()` one may be left unread on purpose.
    whole = {target for node in nodes if isinstance(node, ast.Assign) for target in node.targets}
    filled = {node.value for node in nodes if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)}
    read = {node.id for node in names if isinstance(node.ctx, ast.Load) and node not in filled}
    return {node.id for node in names if node in whole} - read
