"""`backsight verify` finds a function and inputs for it, says whether its gradients are right, and exits by that."""

import json
import sys
from pathlib import Path

import fresh
import pytest

from backsight.cli import main

LAYERS = """
import torch

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        return grad * x

class Twice(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return 2 * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad

class Kept(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.cosine = x.cos()
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.cosine
"""

PROGRAM = """
import torch
from torch import nn
import torch.nn.functional as F

def loss(prediction, target, scale: float = 1.0, reduction="mean"):
    assert scale == 1.0
    return F.mse_loss(prediction, target, reduction=reduction)

def product(a, b):
    return a @ b

def power(x, exponent: int):
    return x**exponent

def lookup(table, indices):
    return table[indices]

def rounded(x):
    return x.long()

def misshapen(x):
    return x.reshape(7, 7)

weight = torch.randn(3, 5)

def single(x):
    return x @ weight

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3)
        self.last = nn.Linear(144, 2)

    def forward(self, x):
        return self.last(self.first(x).relu().flatten(1))

class Sized(nn.Module):
    def __init__(self, size):
        super().__init__()

embedding = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 2))
number = 3

def case():
    return nn.Linear(5, 2), torch.randn(3, 5)

def keywords():
    return F.mse_loss, {"input": torch.randn(3), "target": torch.randn(3)}
"""

WITH_INPUTS = """
import torch

def verify_inputs():
    return torch.rand(3, 7), torch.rand(7)

def weighted(x, w):
    return (x * w).sum(-1).sqrt()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {"layers_of_mine": LAYERS, "program_of_mine": PROGRAM, "with_inputs": WITH_INPUTS}.items():
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def test_a_function_that_is_wrong(capsys):
    assert main(["verify", "layers_of_mine.py:Square"]) == 1
    said = capsys.readouterr().out
    assert said.startswith(
        "made-up inputs: x 4×3 (--shape gives others)\n"
        "backsight: 1 of 1 operation has a wrong backward: Square\n"
        "\n"
        "error BS404  Square.backward returns half the right gradient for `x`.\n"
    )
    assert f"layers_of_mine.py:{LAYERS.splitlines().index('        return grad * x') + 1}" in said
    assert " ".join(said.split()).endswith(
        "This rests on made-up inputs. If the program passes others, give them with --shape and --value."
    )
    assert "called" not in said
    assert not any(line.endswith(" ") for line in said.splitlines())


def test_that_inputs_are_made_up_is_said_once_for_all_functions(folder, capsys):
    again = LAYERS.replace("class Square", "class Again").replace("Square.", "Again.")
    (folder / "layers_of_mine.py").write_text(LAYERS + again)
    assert main(["verify", "layers_of_mine.py"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("made-up inputs: x 4×3") > 1 and said.count("This rests on made-up inputs") == 1
    assert said.endswith("give them with --shape and --value.")


def test_every_function_of_a_file_where_none_is_named(capsys):
    assert main(["verify", "layers_of_mine.py"]) == 1
    said = capsys.readouterr().out
    assert [line for line in said.splitlines() if line in ("Square", "Twice", "Kept")] == ["Square", "Twice", "Kept"]
    assert "backsight: 1 operation tested, the backward is correct: Twice" in said
    assert "backsight: 1 operation tested, the backward is correct: Kept" in said


def test_second_derivatives_where_they_are_asked_for(capsys):
    assert main(["verify", "layers_of_mine:Kept"]) == 0
    assert main(["verify", "layers_of_mine:Kept", "--second-order"]) == 1
    assert "error BS420  The second derivative of Kept is silently wrong" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "first"),
    [
        (["loss"], "made-up inputs: prediction 4×3, target 4×3 (--shape gives others)"),
        (["product"], "made-up inputs: a 3×3, b 3×3 (--shape gives others)"),
        (["power"], "made-up inputs: x 4×3, exponent = 2 (--shape gives others)"),
        (["Net"], "made-up inputs: x 2×3×8×8 (--shape gives others)"),
        (["embedding"], "made-up inputs: input 4 (--shape gives others)"),
        (["single"], "made-up inputs: x 4×3 (--shape gives others)"),
        (["product", "--shape", "2,3", "--shape", "3x5"], "backsight: 1 operation tested"),
        (["lookup", "--shape", "5,2", "--shape", "7:int64"], "backsight: 1 operation tested"),
        (["single", "--shape", "2,3"], "backsight: 1 operation tested"),
        (["loss", "--shape", "2", "--shape", "2", "--value", "reduction=sum"], "backsight: 1 operation tested"),
        (
            ["loss", "--value", "reduction=sum"],
            "made-up inputs: prediction 4×3, target 4×3, scale = 1.0, reduction = 'sum' (--shape gives others)",
        ),
        (["single", "--shape", "2,3", "--dtype", "float32"], "backsight: 1 operation tested"),
        (["case"], "backsight: 1 operation tested, the backward is correct: linear"),
        (["keywords"], "backsight: 1 operation tested, the backward is correct: mse_loss"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_inputs_are_given_or_made_up(words, first, capsys):
    target, *options = words
    assert main(["verify", f"program_of_mine.py:{target}", *options]) == 0
    assert " ".join(capsys.readouterr().out.split()).startswith(first)


def test_inputs_that_stand_beside_the_function(capsys):
    assert main(["verify", "with_inputs.py:weighted"]) == 0
    assert capsys.readouterr().out.startswith("backsight: 3 operations tested, every backward is correct: ")


def test_plain_data(capsys):
    assert main(["verify", "layers_of_mine.py:Square", "--json"]) == 1
    (report,) = json.loads(capsys.readouterr().out)
    assert (report["target"], report["claim"], report["ok"]) == ("Square", "backward", False)
    assert [each["name"] for each in report["checked"]] == ["Square"]
    (finding,) = report["findings"]
    assert (finding["code"], finding["severity"], finding["operation"], finding["input"]) == (
        "BS404",
        "error",
        "Square",
        "x",
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["program_of_mine.py"], "program_of_mine.py defines no torch.autograd.Function"),
        (["program_of_mine.py"], " It defines loss, product, power, lookup, rounded, misshapen, single, Net."),
        (["program_of_mine:los"], "there is no los in program_of_mine; did you mean 'loss'?"),
        (["programs_of_mine.py:loss"], "there is no file programs_of_mine.py; did you mean"),
        (["program_of_mine.py:number"], "number is a int and is not callable."),
        (["program_of_mine.py:Sized"], "Sized is a class, and creating one without arguments raises"),
        (["program_of_mine.py:Sized"], "def case(): return Sized(...), torch.randn(4, 3)"),
        (
            ["program_of_mine.py:misshapen"],
            "misshapen could not be tested with made-up inputs (x 4×3): RuntimeError: shape",
        ),
        (["program_of_mine.py:misshapen"], " Give it its own, for example `--shape 2,8,16`, or in a function beside"),
        (
            ["program_of_mine.py:product", "--shape", "4,3"],
            "product takes a and b, but 1 shape is given. Repeat --shape",
        ),
        (["program_of_mine.py:rounded"], "integers and booleans have no gradient"),
    ],
)
def test_what_cannot_be_verified_is_refused_in_a_line(words, said, capsys):
    assert main(["verify", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("backsight: ")
    assert said in error
    assert error.count("\n") == 1


def test_an_error_of_the_program_is_shown(capsys):
    assert main(["verify", "program_of_mine.py:product", "--shape", "2,3", "--shape", "2,3"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("Traceback") and "return a @ b" in error


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "def train():\n    raise ValueError('no data')\n\ntrain()\n",
            'at line 2: ValueError: no data. Put the training under `if __name__ == "__main__":`.\n',
        ),
        ("import no_such_module\n", "at line 1: ModuleNotFoundError: No module named 'no_such_module'.\n"),
        ("x = (\n", "at line 1: SyntaxError: '(' was never closed (failing.py, line 1).\n"),
    ],
)
def test_a_file_that_fails_while_it_is_imported_is_told_in_a_line(text, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("failing.py").write_text(f"{text}\nclass Mine(torch.autograd.Function): ...\n")
    for command in (["verify", "failing.py"], ["verify", "failing.py:loss"], ["forecast", "failing.py:step"]):
        assert main(command) == 2
        assert capsys.readouterr().err == f"backsight: failing.py failed while it was imported, {said}"


@pytest.mark.parametrize("options", [["--shape", "bananas"], ["--shape", "-3"], ["--dtype", "bananas"]])
def test_an_option_that_makes_no_sense_is_refused(options, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["verify", "program_of_mine.py:loss", *options])
    assert f"argument {options[0]}" in capsys.readouterr().err


def test_the_command_as_it_is_typed(folder):
    words = [sys.executable, "-m", "backsight", "verify", "layers_of_mine.py:Twice"]
    ended = fresh.run(words, cwd=folder)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.endswith("backsight: 1 operation tested, the backward is correct: Twice\n")


def test_a_file_that_reads_its_arguments_is_given_none_of_ours(tmp_path, monkeypatch, capsys):
    file = tmp_path / "train.py"
    file.write_text("import argparse\nargparse.ArgumentParser().parse_args()\n" + LAYERS)
    monkeypatch.setattr(sys, "argv", given := ["backsight", "verify", str(file)])
    assert main(["verify", f"{file}:Kept"]) == 0
    assert sys.argv is given
    assert "is correct" in capsys.readouterr().out


SCALED = """
import torch

class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad * weight, (grad * x).sum(0)
"""


def test_a_made_up_input_takes_the_shape_in_which_backward_returns_its_gradient(tmp_path, capsys):
    (file := tmp_path / "layers.py").write_text(SCALED)
    assert main(["verify", str(file)]) == 0
    assert capsys.readouterr().out.startswith("made-up inputs: x 4×3, weight 3 (--shape gives others)\n")
    file.write_text(SCALED.replace(".sum(0)", ".sum()"))
    assert main(["verify", str(file)]) == 0
    assert capsys.readouterr().out.startswith("made-up inputs: x 4×3, weight scalar (--shape gives others)\n")


def test_of_a_shape_that_was_made_up_nobody_is_accused(tmp_path, capsys):
    strict = SCALED.replace(
        "        return x * weight", "        assert weight.shape == x.shape\n        return x * weight"
    )
    (file := tmp_path / "layers.py").write_text(strict)
    assert main(["verify", str(file)]) == 2
    assert capsys.readouterr().err.startswith(
        "backsight: Scaled could not be tested with made-up inputs (x 4×3, weight 4×3): Scaled.backward returns a "
        "gradient of the wrong shape for `weight`. It has shape 3, but `weight` has shape 4×3. Give it its own, "
        "for example `--shape 4,3 --shape 3`, or in a function beside it: def verify_inputs(): "
        'return {"Scaled": (torch.randn(4, 3), torch.randn(3))}\n'
    )
    file.write_text(SCALED)
    assert main(["verify", str(file), "--shape", "4,3", "--shape", "3"]) == 0
    assert main(["verify", str(file), "--shape", "4,3", "--shape", "4,3"]) == 1


PRODUCT = """
class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad @ b.T, a.T @ grad
"""


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ("scalar", "RuntimeError: both arguments to matmul need to be at least 1D, but they are 2D and 0D"),
        ("3", "Product.backward raises an error: RuntimeError: "),
    ],
)
def test_shapes_that_fit_one_function_of_a_file_accuse_no_other(tmp_path, capsys, shape, why):
    (file := tmp_path / "layers.py").write_text(
        SCALED.replace(".sum(0)", ".sum()" if shape == "scalar" else ".sum(0)") + PRODUCT
    )
    assert main(["verify", str(file), "--shape", "4,3", "--shape", shape]) == 2
    out, err = capsys.readouterr()
    assert "Scaled" not in err and "BS4" not in out
    assert err.startswith(f"backsight: Product was not tested: with these shapes, {why}")
    assert err.endswith(f" Give it its own: backsight verify {file}:Product --shape ...\n")


TABLE = """
import torch

class Looked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, table, power, size: float):
        return x[[1, 0]] * table["factor"] * size**power

    @staticmethod
    def backward(ctx, grad):
        return grad, None, None, None

def train(x):
    return Looked.apply(x, read("table.json"), (2, 3), 1.0)
"""


def test_what_is_no_tensor_is_asked_for_as_a_value_and_the_trial_shows_no_warning(tmp_path, capsys):
    (file := tmp_path / "layers.py").write_text(TABLE)
    assert main(["verify", str(file)]) == 2
    assert capsys.readouterr().err == (
        "backsight: Looked could not be tested with made-up inputs (x 4×3, table = 0.5, power = (2, 3), size = 1.0): "
        "TypeError: 'float' object is not subscriptable. Give it its own, for example `--shape 4,3 --value table=... "
        "--value 'power=(2, 3)' --value size=1.0`, or in a function beside it: def verify_inputs(): "
        'return {"Looked": (torch.randn(4, 3), table, (2, 3), 1.0)}\n'
    )


ROWS = """
import torch
from torch import nn

class RowNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, eps):
        n = (x.square().sum(-1, keepdim=True) + eps).sqrt()
        y = x / n
        ctx.save_for_backward(y, n)
        return y

    @staticmethod
    def backward(ctx, g):
        y, n = ctx.saved_tensors
        return (g - y * (g * y).sum(-1, keepdim=True)) / n, None

class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad * weight, (grad * x).sum()
"""
HOLDER = """
class Rows(nn.Module):
    def __init__(self, eps=1e-8):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        return {}
"""


@pytest.mark.parametrize(
    ("program", "eps"),
    [
        ("norm = RowNorm.apply\ndef f(x): return norm(x, 1e-8)", "1e-08"),
        ("EPS = 1e-6\ndef f(x): return RowNorm.apply(x, EPS)", "1e-06"),
        ("def f(x, eps=1e-5): return RowNorm.apply(x, eps)", "1e-05"),
        (HOLDER.format("RowNorm.apply(x, self.eps)"), "1e-08"),
        ("", "0.5"),  # backward returns None for it
        ("eps = 1e-6\ndef f(x, eps): return RowNorm.apply(x, eps)", "0.5"),
    ],
    ids=["literal", "global", "default", "attribute", "no call", "unknown"],
)
def test_what_the_program_passes_as_a_number_is_that_number(program, eps, tmp_path, capsys):
    (file := tmp_path / "rows.py").write_text(ROWS + program)
    assert main(["verify", f"{file}:RowNorm"]) == 0
    assert capsys.readouterr().out.startswith(f"made-up inputs: x 4×3, eps = {eps} (--shape gives others)\n")


def test_a_number_is_given_by_name_beside_the_shapes_of_tensors(tmp_path, capsys):
    (file := tmp_path / "rows.py").write_text(ROWS)
    assert main(["verify", f"{file}:RowNorm", "--shape", "4,6"]) == 2
    assert capsys.readouterr().err == (
        "backsight: RowNorm takes x and eps, but 1 shape is given. Repeat --shape for each tensor, and give what is no "
        "tensor by name: --value eps=0.5.\n"
    )
    assert main(["verify", f"{file}:RowNorm", "--shape", "4,6", "--value", "eps=1e-8"]) == 0
    assert main(["verify", f"{file}:RowNorm", "--value", "eps=0.25"]) == 0
    assert "x 4×3, eps = 0.25" in capsys.readouterr().out
    assert main(["verify", f"{file}:RowNorm", "--value", "esp=1e-8"]) == 2
    assert "RowNorm has no positional parameter 'esp': RowNorm takes x and eps." in capsys.readouterr().err
    file.write_text(f"{ROWS}\nRowNorm.apply(torch.ones(2, 2), 1e-8)")
    assert main(["verify", f"{file}:RowNorm", "--shape", "4,6"]) == 0, "the program says what eps is"


def test_each_function_of_a_file_may_be_given_its_own_inputs(tmp_path, capsys):
    (file := tmp_path / "rows.py").write_text(
        ROWS + "def verify_inputs(): return {'RowNorm': (torch.randn(4, 6), 1e-8), 'Scale': "
        "{'x': torch.randn(4, 6), 'weight': torch.tensor(2.0)}}"
    )
    assert main(["verify", str(file)]) == 0
    assert "made-up" not in capsys.readouterr().out


def test_inputs_that_name_other_functions_leave_this_one_to_made_up_ones(tmp_path, capsys):
    (file := tmp_path / "rows.py").write_text(ROWS + "def verify_inputs(): return {'Scale': (torch.randn(4), 2.0)}")
    assert main(["verify", f"{file}:RowNorm"]) == 0
    assert capsys.readouterr().out.startswith("made-up inputs: x 4×3, eps = 0.5 ")


def test_inputs_of_one_function_are_not_those_of_another(tmp_path, capsys):
    (file := tmp_path / "rows.py").write_text(
        ROWS + "def f(x): return RowNorm.apply(x, 1e-8)\n"
        "def verify_inputs(): return torch.randn(4, 6), torch.tensor(2.0)"
    )
    assert main(["verify", str(file)]) == 2
    out, err = capsys.readouterr()
    assert "the backward is correct: Scale" in out
    assert err == (
        "backsight: verify_inputs() returns a tensor for `eps` of RowNorm, which is 1e-08 in the program. To give each "
        'its own: return {"RowNorm": (...)}.\n'
    )


MASKED = """
import torch

class Masked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, mask):
        ctx.save_for_backward(mask)
        return x * mask.abs()

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0].abs(), None
"""


def test_that_a_made_up_mask_gets_no_gradient_is_no_error(tmp_path, capsys):
    (file := tmp_path / "masked.py").write_text(MASKED)
    assert main(["verify", str(file)]) == 2
    assert "could not be tested with made-up inputs (x 4×3, mask" in capsys.readouterr().err


ABSTRACT = """
import abc, torch

class Base(torch.autograd.Function): pass

class Half(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        "What a subclass computes."
        raise NotImplementedError("in subclasses")

    @staticmethod
    def backward(ctx, grad): ...

class Scaled(torch.autograd.Function):
    @classmethod
    def forward(cls, ctx, x):
        return cls.factor * x

    @classmethod
    @abc.abstractmethod
    def backward(cls, ctx, grad):
        return cls.factor * grad

class Raises(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *nothing):
        raise LookupError("no such thing")

    @staticmethod
    def backward(ctx, grad):
        return grad

class Good(Half):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad
"""


def test_an_abstract_base_is_skipped_and_the_others_are_tested(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "abstract.py"
    path.write_text(ABSTRACT.replace("class Raises(torch.autograd.Function)", "class Raises"))
    assert main(["verify", str(path)]) == 0
    out, err = capsys.readouterr()
    assert "1 operation tested, the backward is correct: Good" in out
    assert [line.removeprefix("backsight: ") for line in err.splitlines()] == [
        "Base is skipped: it defines no forward.",
        "Half is skipped: it defines no forward.",
        "Scaled is skipped: it defines no backward.",
    ]
    assert main(["verify", f"{path}:Base"]) == 2
    assert "Base defines no forward: verify a class that derives from it." in capsys.readouterr().err


def test_a_function_that_raises_hides_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "abstract.py"
    path.write_text(ABSTRACT)
    assert main(["verify", str(path)]) == 2
    out, err = capsys.readouterr()
    assert "Good" in out and "no such thing" in err


def test_a_file_without_a_function_is_not_run(folder, capsys):
    (folder / "training.py").write_text("from torch import nn\nclass Net(nn.Module): pass\nopen('ran', 'w')\n")
    assert main(["verify", "training.py"]) == 2
    assert "training.py defines no torch.autograd.Function, so it was not run. Name what" in capsys.readouterr().err
    assert not (folder / "ran").exists()


def test_a_file_that_may_get_its_function_from_elsewhere_is_run(folder, capsys):
    (folder / "layers_of_another.py").write_text("from layers_of_mine import Square\nclass Mine(Square): pass\n")
    assert main(["verify", "layers_of_another.py"]) == 1


def test_inputs_of_others_are_not_given_to_a_function(folder: Path) -> None:
    text = WITH_INPUTS.replace("return torch.rand(3, 7), torch.rand(7)", 'return {"Scaled": (torch.rand(3),)}')
    (folder / "of_others.py").write_text(
        text + "class Scaled(torch.nn.Module):\n    def forward(self, x): return x * 2\n"
    )
    assert main(["verify", "of_others.py:weighted"]) == 0
    assert main(["verify", "of_others.py:Scaled"]) == 0
