"""What the names of a text mean, by its imports."""

import ast
import importlib
import linecache
import sys

import pytest

from backsight.source import cells, statement_at
from backsight.source.body import body_around, callee, calls_in, given_to
from backsight.source.changes import changed_names, is_tensor_data
from backsight.source.cut_rules import grad_mode, rule_of
from backsight.source.imports import is_gradient_call, library, meaning


@pytest.fixture
def call_of(body_of):
    """The call in the last line of a text, with its imports known; of the function `f` where it has one."""

    def call(source):
        name = "f" if "def f(" in source else "<module>"
        body = body_of(source, name)
        statement = statement_at(body, len(source.strip().splitlines()))
        return next(calls_in(statement))

    return call


NAMES = {
    "from torch.autograd import grad\ng = grad(loss, w)": "torch.autograd.grad",
    "from torch.autograd import grad as d\ng = d(loss, w)": "torch.autograd.grad",
    "import torch.autograd as ag\ng = ag.grad(loss, w)": "torch.autograd.grad",
    "from torch import autograd\ng = autograd.grad(loss, w)": "torch.autograd.grad",
    "import torch.autograd\ng = torch.autograd.grad(loss, w)": "torch.autograd.grad",
    "import torch\nderive = torch.autograd.grad\ng = derive(loss, w)": "torch.autograd.grad",
    "import torch as t\ng = t.autograd.grad(loss, w)": "torch.autograd.grad",
    "try:\n    from torch.autograd import grad\nexcept ImportError:\n    grad = None\ng = grad(loss, w)": (
        "torch.autograd.grad"
    ),
    "def f(loss, w):\n    from torch.autograd import grad\n    return grad(loss, w)": "torch.autograd.grad",
    "from torch.autograd import grad\ndef f(loss, w):\n    return grad(loss, w)": "torch.autograd.grad",
    "g = torch.autograd.grad(loss, w)": "torch.autograd.grad",  # a cell whose imports are in another one
    "from torch.func import grad\ng = grad(loss, argnums=0)": "torch.func.grad",
    "from torch.utils.checkpoint import checkpoint as ckpt\nh = ckpt(f, x)": "torch.utils.checkpoint.checkpoint",
    "from .layers import checkpoint\nh = checkpoint(f, x)": ".layers.checkpoint",
}

OWN = [
    "from torch.autograd import grad\ndef f(grad):\n    return grad(loss, w)",
    "def grad(a, b): ...\ng = grad(loss, w)",
    "import torch\ngrad = torch.autograd.grad\ngrad = cached(grad)\ng = grad(loss, w)",
    "F = Forces()\ny = F.relu(x)",
    "y = x.grad(loss, w)",
]


class TestMeaning:
    @pytest.mark.parametrize(("source", "name"), NAMES.items())
    def test_is_the_full_name(self, call_of, source, name):
        call = call_of(source)
        assert meaning(call.func) == name
        assert is_gradient_call(call) == (name == "torch.autograd.grad")

    @pytest.mark.parametrize("source", OWN)
    def test_is_none_for_what_the_program_has_bound_itself(self, call_of, source):
        call = call_of(source)
        assert meaning(call.func) is None
        assert library(call.func) == ""
        assert not is_gradient_call(call)

    def test_a_method_does_not_see_the_names_of_its_class(self, body_of):
        source = (
            "from torch.nn import functional as F\nclass A:\n    F = 2\n    def f(self, x):\n        return F.relu(x)"
        )
        call = next(calls_in(statement_at(body_of(source, "f"), 5)))
        assert meaning(call.func) == "torch.nn.functional.relu"

    def test_the_imports_of_a_notebook_hold_in_its_other_cells(self, monkeypatch):
        texts = ("from torch.autograd import grad as d\n", "d = 1\n", "from torch.func import grad as d\n")
        texts = (*texts, "import torch.nn.functional as fn\n", "g = d(loss, w)\ny = fn.relu(x)\n")
        for number, source in enumerate(texts):
            file = f"<cell {number}>"
            monkeypatch.setitem(linecache.cache, file, (len(source), None, source.splitlines(True), file))
        monkeypatch.setattr(cells, "cell", lambda file: file if file.startswith("<cell ") else None)
        calls = [next(calls_in(each)) for each in body_around("<cell 4>", 1).node.body]
        assert [meaning(each.func) for each in calls] == ["torch.func.grad", "torch.nn.functional.relu"]


class TestStars:
    """`from module import *`: what it brings is known once the module is loaded."""

    def test_of_a_library(self, call_of):
        call = call_of("from torch.nn.functional import *\nfrom torch import *\ny = softmax(x, 1)")
        assert meaning(call.func) == "torch.softmax"  # the last one wins
        assert library(call_of("from torch.nn.functional import *\ny = mse_loss(x, t)").func) == "torch"

    def test_of_the_program_with_what_its_module_imports_and_defines(self, call_of, monkeypatch, tmp_path):
        text = "import torch.nn.functional as ops\nfrom torch.autograd import grad as d\ndef grad(a, b): ...\n"
        (tmp_path / "common.py").write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setitem(sys.modules, "common", importlib.import_module("common"))
        assert library(call_of("from common import *\ny = ops.relu(x)").func) == "torch"
        assert is_gradient_call(call_of("from common import *\ng = d(loss, w)"))
        assert not is_gradient_call(call_of("from common import *\ng = grad(loss, w)"))

    def test_of_a_module_beside_the_file(self, monkeypatch, tmp_path):
        folder = tmp_path / "pack"
        folder.mkdir()
        (folder / "__init__.py").write_text("")
        (folder / "base.py").write_text("import torch.nn.functional as ops\n")
        (folder / "train.py").write_text("from .base import *\ny = ops.relu(x)\n")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setitem(sys.modules, "pack.base", importlib.import_module("pack.base"))
        body = body_around(str(folder / "train.py"), 2)
        assert library(next(calls_in(statement_at(body, 2))).func) == "torch"

    def test_a_name_of_the_file_itself_comes_first(self, call_of):
        assert meaning(call_of("from torch import *\ndef argmax(x): ...\ny = argmax(x)").func) is None

    def test_of_a_module_that_is_not_loaded(self, call_of):
        assert meaning(call_of("from nowhere import *\ny = relu(x)").func) is None


class TestWhoAsks:
    def test_a_callee_is_named_as_it_was_imported_from(self, call_of):
        assert callee(call_of("from torch.utils.checkpoint import checkpoint as c\nh = c(f, x)")) == (
            None,
            "checkpoint",
        )

    @pytest.mark.parametrize(
        "source",
        [
            "y = x.argmax(1)",
            "import torch as t\ny = t.argmax(x, 1)",
            "from torch import argmax\ny = argmax(x, 1)",
            "from torch.nn import functional as fn\ny = fn.softmax(x, 1)",
        ],
    )
    def test_a_function_of_the_library_computes_with_its_arguments_alone(self, call_of, source):
        assert [ast.unparse(each) for each in given_to(call_of(source))] == ["x", "1"]

    @pytest.mark.parametrize(
        "source",
        [
            "from torch.autograd import grad\ng = grad(loss, w)",
            "import torch.autograd as ag\ng = ag.grad(loss, w)",
            "from torch import autograd\ng = autograd.grad(loss, w)",
        ],
    )
    def test_a_gradient_without_a_graph_is_a_cut(self, call_of, source):
        call = call_of(source)
        rule = rule_of(call)
        assert rule is not None
        assert rule.kind == "gradient"
        assert rule_of(call.func) is None  # no tensor's .grad

    def test_a_context_is_known_by_another_name(self, call_of):
        rule = grad_mode(call_of("from torch import no_grad as frozen\nframe = frozen()"))
        assert rule not in (None, "on")
        assert rule.kind == "no_grad"

    def test_a_function_changes_what_it_is_given(self, body_of):
        body = body_of("import torch.nn.functional as fn\nfn.relu_(h)\nh.relu_()")
        assert [changed_names(statement_at(body, line)) for line in (2, 3)] == [{"h"}, {"h"}]

    def test_a_module_of_data_is_no_tensor(self, body_of):
        body = body_of("from torch import utils as u\ny = u.data.default_collate(x)")
        attributes = (each for each in ast.walk(statement_at(body, 2)) if isinstance(each, ast.Attribute))
        assert not any(is_tensor_data(each) for each in attributes)
