"""What is not what was expected: each public function says so clearly, or answers; it never crashes or asks objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import backsight as bs

Taking = Callable[..., Any]

MANY = "expects tensors, GradientEdges, or tuples, lists, dicts or dataclasses of them. Pass the loss, as in backsight."
NO_HISTORY = (
    "Either nothing that it was computed from requires a gradient, or it was computed under torch.no_grad() or passed "
    "through .detach(), .item() or .data on the way."
)


@pytest.fixture(params=[bs.graph, bs.audit], ids=["graph", "audit"])
def taking(request: pytest.FixtureRequest) -> Taking:
    return request.param


def says(taking: Taking, *roots: Any) -> str:
    """What the call says, with its own name left out."""
    with pytest.raises(bs.NothingToCapture) as raised:
        taking(*roots)
    return str(raised.value).replace(f"{taking.__name__}(", "(")


# ---- roots that have no graph


def test_nothing(taking: Taking) -> None:
    assert says(taking) == "() needs at least one root: pass the loss, as in backsight.(loss)."


@pytest.mark.parametrize(
    ("root", "kind"),
    [
        (3, "int"),
        (None, "NoneType"),
        ("loss", "str"),
        (float("nan"), "float"),
        ([], "empty list"),
        ({"loss": "x"}, "dict of str"),
        (nn.Linear(1, 1), "torch.nn.modules.linear.Linear"),
    ],
)
def test_no_tensor(taking: Taking, root: Any, kind: str) -> None:
    assert says(taking, root) == f"() found no tensor in its roots: it was given {kind}, and {MANY}(loss)."


def test_a_tensor_without_a_gradient(taking: Taking) -> None:
    assert says(taking, torch.ones(2, 3)) == (
        f"() was given a float32 tensor of shape 2×3, which has no autograd graph. {NO_HISTORY}"
    )


def test_an_integer_tensor(taking: Taking) -> None:
    assert says(taking, torch.ones(2, requires_grad=True).argmax()) == (
        "() was given an int64 tensor of shape (), which has no autograd graph. Only floating-point and complex "
        "tensors carry gradients: capture the loss before it becomes an integer."
    )


def test_a_loss_from_a_block_without_gradients(taking: Taking) -> None:
    weight = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        loss = (weight * 2).sum()
        assert says(taking, loss).endswith(
            "Gradients are disabled here (torch.no_grad()): compute it outside of that block."
        )
    assert says(taking, loss).endswith(NO_HISTORY)
    with torch.inference_mode():
        inference = (weight * 2).sum()
    assert says(taking, inference).endswith(
        "It was created under torch.inference_mode(); make it outside, or under torch.no_grad() and clone it."
    )


@pytest.mark.parametrize("value", [3, None, "x", [torch.ones(1)], nn.Linear(1, 1)])
def test_a_name_is_asked_of_something_else(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^name\(\) takes a tensor, not "):
        bs.name(value)


@pytest.mark.parametrize("value", [3, None, torch.ones(1), nn.Linear(1, 1), [torch.ones(1), 3]])
def test_names_are_asked_of_something_else(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^names\(\) takes (several )?tensors, "):
        bs.names(value)


def test_no_names_of_no_tensors() -> None:
    assert bs.names([]) == ()


@pytest.mark.parametrize(("value", "kind"), [(3, "int"), ("x", "str"), (ValueError, "type")])
def test_an_explanation_of_something_else(value: Any, kind: str) -> None:
    with pytest.raises(TypeError) as raised:
        bs.explain(value)
    assert str(raised.value) == f"explain() expects an exception, not {kind}: pass the one that was caught."


def test_an_explanation_of_nothing() -> None:
    with pytest.raises(ValueError) as raised:
        bs.explain()
    assert str(raised.value) == (
        "explain() was given no exception, and none is being handled: pass the one that was caught."
    )


def test_a_severity_that_does_not_exist() -> None:
    report = bs.audit(torch.ones(1, requires_grad=True).sum())
    with pytest.raises(ValueError) as raised:
        report.raise_if("fatal")  # type: ignore[arg-type]
    assert str(raised.value) == "raise_if(severity=...) expects one of error, warning, note, not 'fatal'."


# ---- odd graphs


def test_a_half_freed_graph(taking: Taking) -> None:
    weight = torch.ones(3, requires_grad=True)
    part = weight.exp()
    part.sum().backward()
    assert str(taking((part * part).sum()))
    assert [f.code for f in bs.audit((part * part).sum())] == ["BS105"]


def test_a_leaf_alone(taking: Taking) -> None:
    weight = torch.ones(3, requires_grad=True)
    assert str(taking(weight))
    assert str(bs.audit(weight)).startswith("backsight: nothing found in 0 operations and 1 leaf\n")


def test_a_model_on_the_meta_device(taking: Taking) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1)).to("meta")
    optimizer = torch.optim.Adam(model.parameters())
    loss = model(torch.empty(2, 4, device="meta")).mean()
    assert str(taking(loss))
    assert not bs.audit(loss).findings
    assert bs.name(model[0].weight).path == "model.0.weight"
    del optimizer


def test_an_optimizer_that_is_still_being_made() -> None:
    model = nn.Linear(2, 1)
    unmade = torch.optim.SGD.__new__(torch.optim.SGD)
    assert not bs.audit(model(torch.ones(1, 2)).sum()).findings
    del unmade


def test_a_module_that_never_called_the_init_of_module() -> None:
    bare = nn.Module.__new__(nn.Linear)
    model = nn.Linear(2, 1)
    assert not bs.audit(model(torch.ones(1, 2)).sum()).findings
    del bare


# ---- objects that must not be asked


class Asked(Exception):
    pass


HOOKS = (
    "__getattr__", "__eq__", "__ne__", "__repr__", "__str__", "__bool__", "__len__", "__iter__", "__contains__",
    "__format__", "__lt__", "__getitem__", "__index__", "__dir__",
)  # fmt: skip


def hostile(base: type, calls: list[str]) -> type:
    """A subclass of `base` of which every question is written down and refused."""

    def refuse(name: str) -> Any:
        def method(self: Any, *args: Any) -> Any:
            calls.append(name)
            raise Asked(name)

        return method

    members = {name: refuse(name) for name in HOOKS}
    return type("Hostile", (base,), {**members, "__hash__": refuse("__hash__"), "__module__": "user"})


@pytest.fixture
def calls() -> Iterator[list[str]]:
    asked: list[str] = []
    yield asked
    assert asked == []


def everything(loss: torch.Tensor, leaf: torch.Tensor) -> str:
    """All that the public functions say about a loss and a leaf of it."""
    said = [str(bs.graph(loss)), str(bs.audit(loss)), str(bs.name(leaf)), str(bs.names([leaf]))]
    with bs.watch():
        said.append(str(bs.audit(loss)))
    try:
        torch.ones(1).sum().backward()
    except RuntimeError as error:
        said.append(str(bs.explain(error)))
    return "\n".join(said)


def test_plain_objects_in_the_frame_and_around_the_tensors(calls: list[str]) -> None:
    thing = object.__new__(hostile(object, calls))
    weight = torch.ones(2, requires_grad=True)
    object.__setattr__(thing, "kept", [weight])
    weight.note = thing  # type: ignore[attr-defined]
    pair = (thing, weight)
    assert everything((weight * 2).sum(), weight)
    del pair


def test_a_container_of_the_users_own_holds_the_only_name(calls: list[str]) -> None:
    box = hostile(list, calls)()
    list.append(box, torch.ones(2, requires_grad=True))
    loss = (list.__getitem__(box, 0) * 2).sum()
    name = bs.graph(loss).leaves[0].name
    assert everything(loss, list.__getitem__(box, 0))
    assert name == "box[0]"


def test_a_module(calls: list[str]) -> None:
    cls = hostile(nn.Module, calls)
    model = nn.Module.__new__(cls)
    nn.Module.__init__(model)
    nn.Module.__setattr__(model, "fc", nn.Linear(2, 1))
    inner = model.__dict__["_modules"]["fc"]
    optimizer = torch.optim.SGD(inner.parameters(), lr=0.1)
    calls.clear()  # what PyTorch asked while the module was made
    assert "model.fc.weight" in everything(inner(torch.ones(1, 2)).sum(), inner.weight)
    del optimizer


def test_a_module_given_to_a_watch_and_an_audit(calls: list[str]) -> None:
    model = nn.Module.__new__(hostile(nn.Module, calls))
    nn.Module.__init__(model)
    nn.Module.__setattr__(model, "fc", nn.Linear(2, 1))
    inner = model.__dict__["_modules"]["fc"]
    calls.clear()
    with bs.watch(model):
        loss = inner(torch.ones(1, 2)).sum()
        assert not bs.audit(loss, model=model).findings
        assert bs.graph(loss, model=model).nodes[1].module == "fc"


def test_an_optimizer(calls: list[str]) -> None:
    model = nn.Linear(2, 1)
    optimizer = hostile(torch.optim.SGD, calls)(model.parameters(), lr=0.1)
    calls.clear()
    with bs.watch() as watch:
        for _ in range(3):
            loss = model(torch.ones(1, 2)).sum()
            assert not bs.audit(loss).findings
            model.zero_grad()
            loss.backward()
            watch.steps.stepped(optimizer)  # as its step() would; PyTorch's own step asks the optimizer for its repr
    assert [f.code for f in bs.audit(model(torch.ones(1, 2)).sum())] == []


def test_a_tensor_subclass(calls: list[str]) -> None:
    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if armed:
                calls.append(func.__name__)
                raise Asked
            return super().__torch_function__(func, types, args, kwargs or {})

    armed = False
    loud = torch.ones(2).as_subclass(Loud).requires_grad_()
    optimizer = torch.optim.SGD([loud], lr=0.1)
    loss = (loud * 2).sum()
    armed = True
    try:
        assert everything(loss, loud)
    finally:
        armed = False
    del optimizer


# ---- names that would break a terminal or a page

ODD = [
    "two\nlines",
    "\x1b[31mred\x1b[0m",
    "<script>alert(1)</script>",
    "nul\x00",
    "\u202eright to left",
    "x" * 10_000,
    "%s {0}",
]


@pytest.mark.parametrize("name", ODD, ids=["newline", "escape", "html", "nul", "bidi", "long", "format"])
def test_an_odd_name(name: str) -> None:
    table = {name: torch.ones(2, requires_grad=True)}
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = (model(torch.ones(1, 2)) * table[name]).sum()
    said = everything(loss, table[name])
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", said)
    assert max(map(len, said.splitlines())) <= 4_000
    assert len(bs.audit(loss).findings) == 1
    del optimizer


@pytest.mark.parametrize("name", ["\x1b[31mred", "a\nb", "<b>"])
def test_an_odd_module_name(name: str) -> None:
    model = nn.ModuleDict({name: nn.Linear(2, 1)})
    loss = model[name](torch.ones(1, 2)).exp().sum()
    loss.backward()
    said = everything(loss, model[name].weight)
    assert "\x1b" not in said


def test_a_value_with_a_long_repr_is_not_written_out() -> None:
    class Long:
        def __repr__(self) -> str:
            return "y" * 10_000

    table = {Long(): torch.ones(2, requires_grad=True)}
    leaf = next(iter(table.values()))
    assert "yyy" not in everything((leaf * 2).sum(), leaf)
