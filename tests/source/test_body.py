"""Code objects are found in their source text, and text that is missing or no longer fits gives None."""

import ast
import linecache
import os
import sys
import types
import warnings

import pytest

from backsight.source.body import (
    Body,
    Place,
    function_at,
    functions,
    is_shared,
    one_line,
    statement_at,
    statements,
)

NESTED = "x = " + "(" * 5000 + "1" + ")" * 5000 + "\n"
UNPARSABLE = ["not Python", "null byte", "nested too deeply", "not a character"]


class TestPlace:
    def test_a_file_below_the_working_directory_is_shown_relative_to_it(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert str(Place(str(tmp_path / "src" / "train.py"), 41, "")) == os.path.join("src", "train.py") + ":41"

    def test_a_file_elsewhere_is_shown_by_its_name(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert str(Place(str(tmp_path.parent / "other" / "train.py"), 41, "")) == "train.py:41"

    def test_an_init_file_keeps_its_folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        place = Place(str(tmp_path.parent / "pkg" / "__init__.py"), 3, "")
        assert str(place) == os.path.join("pkg", "__init__.py") + ":3"

    def test_a_notebook_cell_keeps_its_label(self):
        assert str(Place("<ipython-input-3-abc>", 2, "")) == "<ipython-input-3-abc>:2"

    def test_a_deleted_working_directory_is_survived(self, tmp_path, monkeypatch):
        folder = tmp_path / "gone"
        folder.mkdir()
        monkeypatch.chdir(folder)
        folder.rmdir()
        assert str(Place("/elsewhere/train.py", 1, "")) == "train.py:1"

    def test_control_characters_in_a_file_name_do_not_reach_the_terminal(self):
        assert "\x1b" not in str(Place("<\x1b[31mcell>", 1, ""))


class TestFunctionAt:
    def test_finds_a_function_by_its_first_decorator(self, body_of):
        source = """
            @no_grad()
            @wraps(
                other
            )
            def train(model):
                return model
        """
        body = body_of(source, "train")
        assert isinstance(body.node, ast.FunctionDef)
        assert body.node.name == "train"

    def test_tells_methods_of_one_name_apart(self, code_of):
        module = code_of("""
            class Generator:
                def step(self, z): ...
            class Critic:
                async def step(self, x): ...
        """)
        steps = [code for code in module.co_consts if isinstance(code, types.CodeType)]
        steps = [function_at(next(each for each in code.co_consts if hasattr(each, "co_code"))).node for code in steps]
        assert [type(step).__name__ for step in steps] == ["FunctionDef", "AsyncFunctionDef"]
        assert [step.args.args[1].arg for step in steps] == ["z", "x"]

    def test_finds_a_class_body(self, body_of):
        assert isinstance(body_of("class Config:\n    scale = f()\n", "Config").node, ast.ClassDef)

    def test_finds_functions_within_functions_and_the_module(self, body_of):
        source = """
            def train(optimizer):
                if True:
                    def closure():
                        return 1
                    optimizer.step(closure)
        """
        assert body_of(source, "closure").node.name == "closure"
        assert isinstance(body_of(source).node, ast.Module)

    def test_a_generator_expression_belongs_to_the_function_around_it(self, body_of):
        body = body_of("def total(losses):\n    return sum(loss.item() for loss in losses)\n", "<genexpr>")
        assert body.node.name == "total"

    def test_a_lambda_is_a_function_that_returns_its_expression(self, code_of):
        body = function_at(code_of("f = lambda x: x.detach()\n", "<lambda>"))
        assert body is not None
        assert [body.text(each) for each in statements(body.node)] == ["x.detach()"]

    @pytest.mark.skipif(sys.version_info < (3, 11), reason="code objects do not keep columns")
    def test_a_lambda_is_one_of_its_file_however_many_others_were_read_since(self, tmp_path):
        file = tmp_path / "train.py"
        file.write_text("f = lambda x: x.detach()\n")
        code = next(each for each in compile(file.read_text(), str(file), "exec").co_consts if hasattr(each, "co_code"))
        assert function_at(code) is not None
        for number in range(300):
            other = tmp_path / f"other{number}.py"
            other.write_text(f"x = {number}\n")
            assert len([*functions(str(other))]) == 1
        (module,) = functions(str(file))
        held = [node.args for node in ast.walk(module.node) if isinstance(node, ast.Lambda)]
        assert any(each is function_at(code).node.args for each in held)

    def test_of_several_lambdas_on_a_line_the_one_that_ran(self):
        texts = ["x.sum()", "x.mean()", "lambda y: y + 1", "y + 1"]
        code = compile("f = (lambda x: x.sum(), lambda x: x.mean(), lambda x: lambda y: y + 1)\n", "<lambdas>", "exec")
        source = "f = (lambda x: x.sum(), lambda x: x.mean(), lambda x: lambda y: y + 1)\n"
        linecache.cache["<lambdas>"] = (len(source), None, [source], "<lambdas>")
        outer = [each for each in code.co_consts if isinstance(each, types.CodeType)]
        every = [*outer, next(each for each in outer[2].co_consts if isinstance(each, types.CodeType))]
        bodies = [function_at(each) for each in every]
        assert [body.text(body.node.body[0]) for body in bodies] == texts

    def test_a_cell_renamed_by_ipython_is_a_module(self, code_of):
        code = code_of("loss = model(x)\nloss.backward()\n").replace(co_name="<cell line: 2>")
        assert isinstance(function_at(code).node, ast.Module)

    def test_missing_source_gives_none(self):
        assert function_at(compile("x = 1", "<string never registered>", "exec")) is None
        assert function_at(compile("x = 1", "/no/such/file.py", "exec")) is None

    @pytest.mark.parametrize("text", ["def f(:\n", "x = 1\0\n", NESTED, "\udc80"], ids=UNPARSABLE)
    def test_source_that_does_not_parse_gives_none(self, text):
        code = compile("x = 1", "<unparsable>", "exec")
        linecache.cache["<unparsable>"] = (len(text), None, [text], "<unparsable>")
        assert function_at(code) is None

    def test_a_file_that_is_not_text_gives_none(self, tmp_path):
        path = tmp_path / "train.py"
        path.write_bytes(b"\xff\xfe\x00x")
        assert function_at(compile("x = 1", str(path), "exec")) is None

    def test_a_file_that_was_edited_since_gives_none_rather_than_another_function(self, tmp_path):
        path = tmp_path / "train.py"
        path.write_text("def train():\n    pass\n")
        code = next(each for each in compile(path.read_text(), str(path), "exec").co_consts if hasattr(each, "co_name"))
        assert function_at(code).node.name == "train"
        path.write_text("import torch\n\n\ndef train():\n    pass\n")
        assert function_at(code) is None

    def test_reading_a_file_raises_no_warnings_of_its_syntax_again(self, code_of):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = code_of("pattern = '\\d'\n")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert function_at(code) is not None


class TestStatementAt:
    SOURCE = """
        def train(model, loader):
            for x, y in loader:
                with autocast():
                    out = model(
                        x,
                    )
                if out is None:
                    continue
                elif y is None:
                    raise ValueError
                try:
                    loss = out.sum()
                except RuntimeError:
                    loss = None
                match y:
                    case 1:
                        y = 2
                a = 1; b = 2
    """

    @pytest.mark.parametrize(
        ("text", "kind"),
        [
            ("for x, y", ast.For),
            ("with autocast", ast.With),
            ("    x,", ast.Assign),
            ("elif y", ast.If),
            ("raise", ast.Raise),
            ("loss = None", ast.Assign),
            ("y = 2", ast.Assign),
            ("case 1", ast.Match),
        ],
    )
    def test_is_the_innermost_one_that_covers_the_line(self, body_of, line_of, text, kind):
        body = body_of(self.SOURCE, "train")
        assert type(statement_at(body, line_of(body, text))) is kind

    def test_is_the_first_of_several_on_one_line(self, body_of, line_of):
        body = body_of(self.SOURCE, "train")
        assert body.text(statement_at(body, line_of(body, "a = 1"))) == "a = 1"

    def test_is_the_condition_where_the_column_is_before_what_follows_it_on_the_line(self, body_of):
        body = body_of("if done(): stop()\n")
        assert body.text(statement_at(body, 1, 3)) == "if done():"
        assert body.text(statement_at(body, 1, 11)) == "stop()"

    def test_is_the_one_at_the_column_of_several_on_one_line(self, body_of):
        body = body_of("""
        ä = "ä"; loss.backward(); optimizer.step()
        if c: x = f(
            1); y = 2
        """)
        found = [statement_at(body, 1, column) for column in (0, 11, 28)]
        assert [body.text(each) for each in found] == ['ä = "ä"', "loss.backward()", "optimizer.step()"]
        assert [body.text(statement_at(body, 3, column)) for column in (4, 8)] == ["x = f(1)", "y = 2"]

    @pytest.mark.parametrize(
        ("line", "shared"),
        [
            ("a = 1; b = 2", True),
            ("if x: return", True),
            ("with quiet(): run()", False),
            ("loss = f(x)", False),
            ("def f(x): return x", False),
        ],
    )
    def test_shares_its_line_where_only_a_column_tells_which_runs(self, body_of, line, shared):
        body = body_of(f"def train(x):\n    before()\n    {line}\n    after()\n", "train")
        assert [is_shared(body, number) for number in (2, 3, 4)] == [False, shared, False]

    def test_goes_into_nested_functions(self, body_of):
        body = body_of("def outer():\n    def inner():\n        return 1\n")
        assert isinstance(statement_at(body, 3), ast.Return)

    def test_is_none_outside_of_the_function(self, body_of):
        body = body_of("def f():\n    return 1\n\nx = 2\n", "f")
        assert statement_at(body, 4) is None


class TestText:
    @pytest.mark.parametrize(
        ("source", "expected"),
        [
            ("loss = f(x)  # the loss", "loss = f(x)"),
            ('d["é"] = x; y = 1', 'd["é"] = x'),
            ("loss = f(\n    x,  # input\n    y,\n)", "loss = f(x, y)"),
            ("for x, y in loader:  # train\n    # forward\n    f(x)", "for x, y in loader:"),
            ("@torch.no_grad()\ndef f(x: int) -> int:\n    return x", "def f(x: int) -> int:"),
            ("with a as b, c:\n    pass", "with a as b, c:"),
            ("while (x := f()) > 1:\n    pass\nelse:\n    g()", "while (x := f()) > 1:"),
            ("try:\n    f()\nfinally:\n    g()", "try:"),
            ("match x:\n    case 1:\n        f()", "match x:"),
        ],
    )
    def test_is_one_line_without_blocks_and_comments(self, body_of, source, expected):
        body = body_of(source)
        assert body.text(body.node.body[0]) == expected

    def test_is_shortened_and_printable(self):
        assert one_line("x" * 200) == "x" * 87 + "…"
        assert one_line("a\x1b[31m\tb\n") == "a [31m b"

    def test_of_an_expression_of_a_thousand_operands_is_its_first_line(self, body_of):
        body = body_of("x = (a\n" + " + a" * 1500 + ")\n")
        assert isinstance(body, Body)
        assert body.text(body.node.body[0]).startswith("x = (a")
