"""Names inside PyTorch: how one is reached, what stands in for one that is missing, what is said of it."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

import backsight
from backsight import surface

SOURCE = Path(backsight.__file__).parent


@pytest.fixture(autouse=True)
def own_needs(monkeypatch):
    monkeypatch.setattr(surface, "_needs", {})
    monkeypatch.setitem(surface.FEATURES, "a feature", "something is lost")
    monkeypatch.setitem(surface.FEATURES, "another", "something else is lost")


class TestReach:
    def test_goes_through_modules_classes_and_attributes(self):
        assert surface.reach("torch.nn.Module.forward") is torch.nn.Module.forward

    def test_imports_a_module_that_nobody_has_imported(self, tmp_path, monkeypatch):
        package = tmp_path / "some_package"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "inner.py").write_text("there = 3")
        monkeypatch.syspath_prepend(tmp_path)
        assert surface.reach("some_package.inner.there") == 3

    def test_knows_what_a_class_declares_for_its_instances(self):
        assert surface.reach("torch.nn.Module._parameters") is not None

    @pytest.mark.parametrize("path", ["torch.nowhere", "torch.Tensor.nowhere", "torch._C.nowhere.deeper", "nowhere.x"])
    def test_raises_where_nothing_stands(self, path):
        with pytest.raises((AttributeError, ImportError)):
            surface.reach(path)


class TestTake:
    def test_returns_what_is_there(self):
        assert surface.take("torch.nn.Module", "a feature") is torch.nn.Module
        assert surface.missing() == ()

    def test_returns_what_stands_in_for_what_is_not(self):
        assert surface.take("torch.nowhere", "a feature", without=3) == 3
        (need,) = surface.missing()
        assert (need.path, need.feature) == ("torch.nowhere", "a feature")
        assert need.why == "ModuleNotFoundError: No module named 'torch.nowhere'"

    def test_reads_what_is_needed_of_what_is_there(self):
        assert surface.take("torch.Tensor.backward", "a feature", read=surface.code_of).co_name == "backward"

    def test_what_became_c_has_no_code(self):
        assert surface.take("torch.add", "a feature", without=None, read=surface.code_of) is None
        assert "has no attribute '__code__'" in surface.missing()[0].why

    @pytest.mark.parametrize("use", [lambda it: it(), lambda it: it.attribute])
    def test_without_a_stand_in_any_use_says_what_is_missing(self, use):
        missing = surface.take("torch.nowhere", "a feature")
        assert not missing
        with pytest.raises(surface.Unavailable, match=r"has no torch\.nowhere: something is lost"):
            use(missing)


def test_require_refuses_what_needs_something_missing():
    surface.there("torch.nowhere", "a feature")
    surface.there("torch.nn", "another")
    surface.require("another")
    with pytest.raises(surface.Unavailable, match=r"torch\.nowhere"):
        surface.require("a feature")


def test_the_sentence_names_one_thing_in_full_and_counts_several():
    surface.there("torch.nowhere", "a feature")
    surface.there("torch.nor_here", "a feature")
    assert surface.sentence(surface.missing()) == (
        f"PyTorch {torch.__version__} has no torch.nowhere, torch.nor_here: something is lost "
        "(backsight doctor lists what is missing)."
    )
    surface.there("torch.never", "another")
    assert surface.sentence(surface.missing()) == (
        f"PyTorch {torch.__version__} lacks what 2 features of backsight need: a feature, another "
        "(backsight doctor says what is lost)."
    )


def test_nothing_of_pytorch_is_imported_by_the_surface_itself(monkeypatch):
    tree = ast.parse((SOURCE / "surface.py").read_text())
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert "torch" not in imported
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))  # one without a version
    assert surface.sentence([surface.Need("x", "a feature", "gone")]).startswith("PyTorch  has no x")


KNOWN = {
    "_version": "backsight's own version, and the version of a tensor, which is read where a step is released",
    "_getframe": "sys",
    "_actions": "argparse, which has no other list of the options of a parser",
    "_SubParsersAction": "argparse, the type of what add_subparsers returns",
    "_current_frames": "sys",
    "_args_from_interpreter_flags": "subprocess",
    "_initrequest": "of an item of pytest, which all who run a test again call",
    "_schema": "of an operator, where a subclass answers for it",
    "_to_copy": "an operator",
    "_foreach_norm": "an operator",
    "_foreach_mul_": "an operator",
    "_foreach_zero_": "an operator",
    "_amp_foreach_non_finite_check_and_unscale_": "an operator",
    "_asdict": "of a named tuple",
    "_index_put_impl": "an operator",
    "_indices": "of a sparse tensor",
    "_nnz": "of a sparse tensor",
    "_values": "of a sparse tensor",
    "_is_view": "of a tensor, for compat only",
    "_base": "of a tensor, for compat only",
}
"""Names with an underscore that may stand outside of a `_torch.py`, and whose they are."""


def private_names(path):
    """Yield the attributes with one underscore that a file reads of what it does not define."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and _is_private(node.attr):
            yield node.attr, node.lineno


def _is_private(name):
    return name.startswith("_") and not name.startswith("__")


def own_names():
    """Return every name that backsight itself defines."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
    return found


def test_private_names_of_pytorch_stand_in_the_torch_file_of_each_room():
    ours = own_names()
    strays = [
        f"{path.relative_to(SOURCE)}:{line} {name}"
        for path in SOURCE.rglob("*.py")
        if path.name not in ("_torch.py", "_amp.py", "surface.py") and "demo" not in path.parts
        for name, line in private_names(path)
        if name not in ours and name not in KNOWN
    ]
    assert strays == []
