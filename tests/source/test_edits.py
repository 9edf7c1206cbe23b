"""Edits: marks in a text that nobody sees, and what they do to a program."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backsight.findings import Finding
from backsight.source import Place
from backsight.source.body import body_around, statements
from backsight.source.edits import (
    OR,
    Edit,
    EditError,
    alternatives,
    change,
    edited,
    from_data,
    importing,
    in_words,
    instead,
    lines_of,
    move,
    on_line,
    put,
    remove,
    repeat,
    unread,
    unwrap,
    without_marks,
    wrap,
    write,
)

FILE = "edited.py"


def at(*lines: int) -> list[Place]:
    return lines_of(FILE, *lines)


def line(number: int) -> Place:
    return Place(FILE, number, "")


def text_of(source: str, *edits: Edit) -> str:
    return edited(edits, {FILE: source})[FILE]


def test_a_finding_has_the_text_that_is_read_and_the_edits_of_each_alternative() -> None:
    fix = f"On line 2, write `x = 1`{write(at(2), 'x = 1')}. {OR}Or remove line 3{remove(at(3))}. {OR}Or ask somebody."
    found = Finding("BS201", "error", "It fails.", fix=fix)
    assert found.fix == "On line 2, write `x = 1`. Or remove line 3. Or ask somebody."
    assert found.edits == ((write(at(2), "x = 1"),), (remove(at(3)),))


def test_a_block_out_of_which_all_moves_keeps_a_pass() -> None:
    source = "a()\nif b:\n    c()\nelse:\n    d()\n"
    assert text_of(source, move(at(3), "above", line(1))) == "c()\na()\nif b:\n    pass\nelse:\n    d()\n"
    assert text_of(source, move(at(5), "below", line(1))) == "a()\nd()\nif b:\n    c()\nelse:\n    pass\n"


def test_a_finding_that_is_told_again_keeps_its_edits() -> None:
    from dataclasses import replace

    found = Finding("BS201", "error", "It fails.", fix=f"Remove line 3{remove(at(3))}.")
    again = replace(found, fix=f"{found.fix} Then look.")
    assert (again.fix, again.edits) == ("Remove line 3. Then look.", found.edits)


def test_what_is_imported_goes_with_every_alternative() -> None:
    both = f"Remove line 1{remove(at(1))}. {OR}Or line 2{remove(at(2))}."
    fix = f"{both} Add `import copy`{importing(FILE, 'import copy')}."
    every = alternatives(fix)
    assert [[edit.kind for edit in each] for each in every] == [["import", "remove"]] * 2


def test_an_alternative_that_does_not_say_what_to_write_has_no_edits() -> None:
    assert alternatives(f"Write that{write(at(1), '')}, and remove it{remove(at(2))}. {OR}Or{remove(at(3))}.") == (
        (remove(at(3)),),
    )


def test_an_alternative_whose_code_is_shortened_has_no_edits() -> None:
    assert alternatives(f"{write(at(1), 'x = f(a, …')}{OR}Or{remove(at(3))}.") == ((remove(at(3)),),)


def test_words_say_what_to_write_and_carry_it() -> None:
    fix = on_line(line(3), "x = 1")
    assert without_marks(fix) == "on line 3, write `x = 1`"
    assert alternatives(fix) == ((write(at(3), "x = 1"),),)


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="…"), min_size=1),
    st.text(),
    st.integers(),
    st.sampled_from(["write", "put", "move"]),
)
def test_any_edit_goes_through_a_text_and_through_json(code: str, old: str, number: int, kind: str) -> None:
    edit = Edit(kind, "a\u2028é.py", (1, 3), code, old, "end", number)  # type: ignore[arg-type]
    ((through,),) = alternatives(f"words {edit} of it")
    assert (through.old, through.line, through.file) == (old, number, edit.file)
    assert from_data(json.loads(json.dumps(asdict(edit)))) == edit


def test_a_path_in_code_is_as_python_takes_it_as_in_the_text() -> None:
    ((through,),) = alternatives(f"{write(at(1), 'net.blocks.0.map = None')}")
    assert through.code == "net.blocks[0].map = None"


@pytest.mark.parametrize("data", [{}, {"kind": "burn", "file": FILE, "lines": [1], "where": "below"}])
def test_what_is_no_edit_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="expected an edit"):
        from_data(data)


LOOP = "for a in b:\n    c()\n    if d:\n        e()\nf()\n"


@pytest.mark.parametrize(
    ("source", "edits", "expected"),
    [
        ("a\nb\nc\n", [write(at(2), "x = 1")], "a\nx = 1\nc\n"),
        ("a(\n    1,\n)\nb\n", [write(at(1), "a(2)")], "a(2)\nb\n"),
        ("a(\n    1,\n)\nb\n", [write(at(2), "a(2)")], "a(2)\nb\n"),
        ("if a:\n    b\n", [write(at(2), "c\nd")], "if a:\n    c\n    d\n"),
        (LOOP, [write(at(1), "for z in b:")], LOOP.replace("a in", "z in")),
        (LOOP, [write(at(1), "c(b)")], "c(b)\nf()\n"),
        ("a\nb\nc\n", [write(at(1, 2), "x = 1")], "x = 1\nc\n"),
        (LOOP, [put("g()", "above", line(2))], LOOP.replace("    c()", "    g()\n    c()")),
        (LOOP, [put("g()", "below", line(1))], LOOP.replace("    c()", "    g()\n    c()")),
        (LOOP, [put("g()", "beside", line(1))], LOOP.replace("f()", "g()\nf()")),
        (LOOP, [put("g()", "end", line(1))], LOOP.replace("f()", "    g()\nf()")),
        ("@a\ndef f():\n    b\n", [remove(at(1))], "def f():\n    b\n"),
        ("def f():\n    b\n", [put("@a", "above", line(1))], "@a\ndef f():\n    b\n"),
        ("@a\ndef f():\n    b\n", [put("c", "above", line(2))], "c\n@a\ndef f():\n    b\n"),
        ("with a:\n    b\n\n    c\nd\n", [unwrap(line(1))], "b\n\nc\nd\n"),
        ("with a:\n  b\nd\n", [unwrap(line(1))], "b\nd\n"),
        ("with a:\n    b\n    if c:\n        d\n", [unwrap(line(1)), write(at(4), "e"), unwrap(line(3))], "b\ne\n"),
        ("with a:\n    b\nc\n", [put("d", "beside", line(1)), unwrap(line(1))], "b\nd\nc\n"),
        ("a\nb\nc\n", [wrap(at(1, 2), "with d:")], "with d:\n    a\n    b\nc\n"),
        ("a\n\n# c\nb\n", [wrap(at(1, 4), "with d:")], "with d:\n    a\n\n    # c\n    b\n"),
        ("a(x, x)\n", [change(at(1), "x", "y")], "a(y, y)\n"),
        ("a(x.x, xx)\n", [change(at(1), "x", "y")], "a(y.x, xx)\n"),
        ("a(b=1, b=1)\n".replace("b=1)", "c=1)"), [change(at(1), ", c=1", "")], "a(b=1)\n"),
        (LOOP, [move(at(5), "above", line(2))], "for a in b:\n    f()\n    c()\n    if d:\n        e()\n"),
        (LOOP, [move(at(3), "beside", line(1))], "for a in b:\n    c()\nif d:\n    e()\nf()\n"),
        ("a\nb\nc\n", [repeat(at(1), "below", line(2))], "a\nb\na\nc\n"),
        ('"""It."""\nfrom __future__ import annotations\na\n', [importing(FILE, "import b")],
         '"""It."""\nfrom __future__ import annotations\nimport b\na\n'),
        ("a\nb\nc\n", [put("n = 0", "above", line(1)), write(at(2), "n = 2"), put("n = 3", "below", line(2))],
         "n = 0\na\nn = 2\nn = 3\nc\n"),
        ("a = '\x0c'\nb\n", [remove(at(2))], "a = '\x0c'\n"),
        ("a = {\n    1: b,\n}\n", [write(at(2), "1: c,")], "a = {\n    1: c,\n}\n"),
        ("if a:\n    # why\n    b\nelse:\n    c\nd\n", [remove(at(1, 2, 3, 4, 5))], "d\n"),
        ("a\n\n# b\nc\nd\n", [wrap(at(1, 4), "with e:")], "with e:\n    a\n\n    # b\n    c\nd\n"),
    ],
)  # fmt: skip
def test_what_an_edit_does(source: str, edits: list[Edit], expected: str) -> None:
    assert text_of(source, *edits) == expected


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (write(at(1), "x = ("), "does not compile then"),
        (write(at(9), "x"), "no statement on line 9"),
        (change(at(1), "y", "z"), "no y on line 1"),
        (unwrap(line(1)), "no block begins on line 1"),
        (put("x", "end", line(1)), "no block begins on line 1"),
        (remove(lines_of("other.py", 1)), "other.py cannot be read"),
    ],
)
def test_what_does_not_fit_is_refused(edit: Edit, why: str) -> None:
    with pytest.raises(EditError, match=why):
        text_of("x = a\n", edit)


@pytest.mark.parametrize(
    ("source", "line", "code"),
    [
        ("def f(x):\n    y = x\n    return y\n", 3, "z = y + x"),
        ("import torch\ndef f(x):\n    return x\n", 3, "x = torch.ones(len(x))"),
        ("def f():\n    global w\n    w = 1\ndef g():\n    return 2\n", 5, "w = __name__"),
        ("class A:\n    b = 1\n    c = b\n", 3, "c = b + 1"),
        ("def f(x):\n    def g():\n        return x\n    return g\n", 3, "return [x for x in x]"),
        ("from torch import *\nx = ones(2)\n", 2, "x = ones(3)"),
        ("y = unknown\nx = 1\n", 2, "x = unknown"),
    ],
)
def test_names_that_are_there_are_read(source: str, line: int, code: str, tmp_path: Path) -> None:
    assert fit(tmp_path, source, line, code)


@pytest.mark.parametrize("code", ["x = p", "x = torch.x + p", "x = [q for q in p]", "x = y", "x = ("])
def test_a_name_that_is_not_there_is_none_to_write(code: str, tmp_path: Path) -> None:
    assert not fit(tmp_path, "def f(p):\n    y = p\ndef g(x):\n    x = 1\n", 4, code)


def test_a_module_that_fixes_use_is_imported(tmp_path: Path) -> None:
    file = tmp_path / "edited.py"
    file.write_text('"""It."""\nx = 1\n', encoding="utf-8")
    fix = f"Write{write(lines_of(str(file), 2), 'x = torch.ones(1)')}. {OR}Or ask."
    found = Finding("BS201", "error", "It fails.", fix=fix)
    assert found.fix == "Write. Or ask. For that, put `import torch` at the top."
    (edits,) = found.edits
    assert edited(edits, {str(file): file.read_text(encoding="utf-8")}) == {
        str(file): '"""It."""\nimport torch\nx = torch.ones(1)\n'
    }


def fit(folder: Path, source: str, line: int, code: str) -> bool:
    """Whether a finding takes `code` for a line of a program as an edit."""
    file = folder / "edited.py"
    file.write_text(source, encoding="utf-8")
    return bool(Finding("BS201", "error", "It fails.", fix=f"Write{write(lines_of(str(file), line), code)}.").edits)


@pytest.mark.parametrize(
    ("source", "line", "code"),
    [
        ("x = 1\nfor y in (x, 2):\n    z = y\n", 1, "pass"),
        ("def f(a):\n    print(a)\n    b = a\n    return b\n", 2, "b = b.detach()"),
        ("def f(a):\n    print(a)\n    for b in a:\n        print(b)\n", 2, "a = a + b"),
    ],
)
def test_a_name_that_is_bound_further_down_is_none_to_read(source: str, line: int, code: str, tmp_path: Path) -> None:
    assert not fit(tmp_path, source, line, code)


@pytest.mark.parametrize(
    ("source", "line", "code"),
    [
        ("def f():\n    pass\n    return x\nx = 1\n", 2, "y = x"),
        ("def f(a):\n    for b in a:\n        pass\n    print(b)\n", 3, "c = b"),
        ("def f(a):\n    a = 1\n    del a\n", 2, "a = a + 1"),
        ("def f(a):\n    print(c)\n    c = a\n", 2, "print(c, a)"),  # it was so before
        ("async def f(a):\n    pass\nb = 1\n", 2, "b = a"),
    ],
)
def test_a_name_that_is_bound_before_or_elsewhere_is_read(source: str, line: int, code: str, tmp_path: Path) -> None:
    assert fit(tmp_path, source, line, code)


def test_of_several_alternatives_those_are_told_that_fit(tmp_path: Path) -> None:
    file = tmp_path / "edited.py"
    file.write_text("x = 1\ny = x\n", encoding="utf-8")
    there = lines_of(str(file), 2)
    good, bad, syntax = write(there, "y = x + 1"), write(there, "y = p"), write(there, "y = (")
    for fix, text, left in [
        (f"Write a{good}. {OR}Or b{bad}.", "Write a.", 1),
        (f"Write a{good}, {OR}or b{bad}.", "Write a.", 1),
        (f"Write a{bad}. {OR}Or write b{good}.", "Write b.", 1),
        (f"Write a{syntax}. {OR}Or b{good}. {OR}Or c{bad}. {OR}Or d.", "B. Or d.", 1),
        (
            f"Write a{bad}. That helps.",
            "Write a. That helps. Not known on that line: `p`. Write what it is called there.",
            0,
        ),
        (f"Write a{syntax}. That helps.", "Write a. That helps.", 0),
        (f"Write a{bad}. {OR}Or ask.", "Ask.", 0),
    ]:
        found = Finding("BS201", "error", "It fails.", fix=fix)
        assert (found.fix, len(found.edits)) == (text, left)


def test_a_line_that_is_written_anew_is_not_moved_as_it_was() -> None:
    with pytest.raises(EditError, match="line 1 is written anew and moved"):
        text_of("a\nb\n", write(at(1), "c"), move(at(1), "below", line(2)))


def test_a_line_is_not_written_twice() -> None:
    with pytest.raises(EditError, match="line 1 is written twice"):
        text_of("a\nb\n", write(at(1), "c"), write(at(1), "d"))


def test_what_stands_beside_a_statement_on_its_line_stays(tmp_path: Path) -> None:
    file = tmp_path / FILE
    file.write_text("a = b(); a += 1\nif c: a -= 1\n")
    body = body_around(str(file), 1)
    assert body is not None
    found = {each.lineno: each for each in statements(body.node)}  # the last of each line
    edits = [instead(body, found[1], "a = a + 1"), instead(body, found[2], "a = a - 1")]
    assert edited(edits, {str(file): file.read_text()}) == {str(file): "a = b(); a = a + 1\nif c: a = a - 1\n"}


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (write(at(3), "x = 1"), "edited.py:3: write `x = 1`"),
        (write(at(3, 4), "x = 1"), "edited.py:3: instead of lines 3 and 4, write `x = 1`"),
        (put("x()", "above", line(3)), "edited.py:3: put `x()` above it"),
        (move(at(3), "beside", line(1)), "edited.py:3: move line 3 below the block on line 1"),
        (change(at(3), "a", "b"), "edited.py:3: write `b` for `a`"),
        (importing(FILE, "import copy"), "edited.py: add `import copy`"),
    ],
)
def test_an_edit_is_told_in_a_line(edit: Edit, told: str) -> None:
    assert in_words(edit) == told


def test_what_is_assigned_to_and_read_nowhere_is_known() -> None:
    text = "w = 2\nw[0] = 1\nvalue, rest = f()\nloss = value\ntotal = 0\nkept = kept[0] = 1\n"
    text += "def step():\n    global loss\n    total += loss + kept\n    n = 1\n"
    assert unread(text) == {"w", "total", "n"}
