"""Which statements bind a name."""

import ast
import linecache

import pytest

from backsight.source import Place, cells
from backsight.source.bindings import are_alternatives, assigned, assignments, rebinding, targets


@pytest.mark.parametrize(
    ("statement", "pairs"),
    [
        ("best, self.state = val, net.state_dict()", ["best: val", "self.state: net.state_dict()"]),
        ("a = b, (c, d) = 1, (2, 3)", ["a: (1, (2, 3))", "b: 1", "c: 2", "d: 3"]),
        ("x, h = rnn(x)", []),
        ("x: int = 3", ["x: 3"]),
    ],
)
def test_an_assignment_gives_each_target_its_value(statement, pairs):
    (parsed,) = ast.parse(statement).body
    assert [f"{ast.unparse(target)}: {ast.unparse(value)}" for target, value in assigned(parsed)] == pairs


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("a, (b, *c) = d = f(x)", ["a 0", "b None", "c None", "d None"]),
        ("a += f(x)", ["a None"]),
        ("for k, (a, b) in f(x): pass", ["k None", "a None", "b None"]),
        ("with f(x) as (a, b), g() as c: pass", ["a 0", "b 1", "c None"]),
        ("if (a := f(x)) > 0: pass", ["a None"]),
        ("print((a := f(x)))", ["a None"]),
    ],
)
def test_every_target_of_a_statement_is_read_with_its_place_in_the_value(statement, found):
    (parsed,) = ast.parse(statement).body
    assert [f"{ast.unparse(target)} {position}" for target, _, position in targets(parsed)] == found
    whole = isinstance(parsed, ast.For | ast.With | ast.AugAssign)
    assert not (whole and list(assigned(parsed)))  # what they bind is not that value


class TestAssignments:
    SOURCE = """
        x = 1
        (x, y), *z = f()
        x += 1
        x: int = 3
        x: int
        for x in y: pass
        with f() as (x, w): pass
        if (x := 2): pass
        import x
        def x(): x = 1
        [x for x in y]
        x.a = 1
        x[0] = 1
        del x
    """

    def test_are_the_statements_that_bind_the_name(self, body_of):
        body = body_of(self.SOURCE)
        assert [place.line for place in assignments(body, "x")] == [1, 2, 3, 4, 6, 7, 8, 9, 10]

    def test_before_a_line(self, body_of):
        body = body_of(self.SOURCE)
        assert [place.text for place in assignments(body, "x", before=3)] == ["x = 1", "(x, y), *z = f()"]

    def test_of_an_attribute(self, body_of):
        assert [place.line for place in assignments(body_of(self.SOURCE), "x.a")] == [12]


class TestRebinding:
    @pytest.mark.parametrize(("operand", "text"), [(None, "x = y - x"), (0, "x = x / y"), (1, "x = y - x")])
    def test_can_be_asked_for_by_the_operand_that_reads_the_name(self, tmp_path, operand, text):
        file = tmp_path / "train.py"
        file.write_text("x = y - x\nx = x / y\n")
        assert rebinding(str(file), 1, "x", operand).text == text

    @pytest.mark.parametrize(("operand", "text"), [(0, "x += y"), (1, None)])
    def test_of_an_augmented_assignment_reads_the_name_on_the_left(self, tmp_path, operand, text):
        file = tmp_path / "train.py"
        file.write_text("x += y\n")
        found = rebinding(str(file), 1, "x", operand)
        assert (found.text if found else None) == text

    def test_that_is_no_binary_operation_counts_for_either_operand(self, tmp_path):
        file = tmp_path / "train.py"
        file.write_text("x = torch.div(x, y)\n")
        assert rebinding(str(file), 1, "x", 1).text == "x = torch.div(x, y)"


class TestRebindingInANotebook:
    """All cells are one module. A function is looked at by itself, as everywhere."""

    CELLS = ("x = x / 2\n", "x = x / 3\n", "y = 1\ndef f():\n    y = 2\n")

    @pytest.mark.parametrize(("line", "text"), [(1, "x = x / 3"), (3, None)])
    def test_the_newest_of_the_other_cells_counts(self, monkeypatch, line, text):
        for number, source in enumerate(self.CELLS):
            monkeypatch.setitem(linecache.cache, f"<cell {number}>", (len(source), None, source.splitlines(True), ""))
        monkeypatch.setattr(cells, "cell", lambda file: file if file.startswith("<cell ") else None)
        found = rebinding("<cell 2>", line, "x")
        assert (found.text if found else None) == text


class TestAlternatives:
    SOURCE = """
        def step(first):
            if first:
                one()
                with block():
                    two()
            else:
                three()
            four()
    """

    @pytest.mark.parametrize(
        ("one", "other", "expected"),
        [("one", "three", True), ("two", "three", True), ("one", "two", False), ("one", "four", False)],
    )
    def test_are_statements_of_different_arms_of_one_condition(self, body_of, line_of, one, other, expected):
        body = body_of(self.SOURCE, "step")
        places = [Place(body.file, line_of(body, f"{name}()"), "") for name in (one, other)]
        assert are_alternatives(body, *places) is expected
