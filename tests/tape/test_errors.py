"""What `capture` says when there is nothing to capture, word for word: the text is the product."""

import contextlib

import pytest
import torch

from backsight.tape import NothingToCapture, capture

WHY_NO_GRAPH = (
    "Either nothing that it was computed from requires a gradient, or it was computed under torch.no_grad() or passed "
    "through .detach(), .item() or .data on the way."
)
INTEGER = "Only floating-point and complex tensors carry gradients: capture the loss before it becomes an integer."


def no_tensor_in(what):
    return (
        f"graph() found no tensor in its roots: it was given {what}, and expects tensors, GradientEdges, or tuples, "
        "lists, dicts or dataclasses of them. Pass the loss, as in backsight.graph(loss)."
    )


def no_graph(what, fix):
    return f"graph() was given {what}, which has no autograd graph. {fix}"


def said_of(*roots):
    with pytest.raises(NothingToCapture) as caught:
        capture(*roots)
    return str(caught.value)


class Unspeakable:
    """Whatever is asked of it, it raises."""

    def __getattr__(self, name):
        raise RuntimeError("user code ran")

    __eq__ = __hash__ = __repr__ = __str__ = __len__ = __iter__ = __bool__ = __getattr__


class UnspeakableList(list):
    __len__ = __iter__ = __eq__ = __hash__ = __repr__ = __bool__ = Unspeakable.__getattr__


def test_an_empty_call():
    assert said_of() == "graph() needs at least one root: pass the loss, as in backsight.graph(loss)."


@pytest.mark.parametrize(
    ("root", "named"),
    [
        (3, "int"),
        (None, "NoneType"),
        ("loss", "str"),
        ([1, 2], "list of int"),
        ([1, "two"], "list of int and str"),
        ({"loss": 0.5}, "dict of float"),
        ([], "empty list"),
        ({}, "empty dict"),
        (torch.Size([]), "empty torch.Size"),
        (torch.nn.Linear(1, 1), "torch.nn.modules.linear.Linear"),
        (torch.float32, "torch.dtype"),
        ("\x1b[31m<b>\n" * 10_000, "str"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 50 else "",
)
def test_something_that_is_no_tensor(root, named):
    assert said_of(root) == no_tensor_in(named)


def test_several_things_that_are_no_tensors_are_each_named_once_in_order():
    assert said_of([], {}, 3, 4, [1]) == no_tensor_in("empty dict, empty list, int, list of int")


@pytest.mark.parametrize(
    ("root", "named"),
    [
        (Unspeakable(), f"{__name__}.Unspeakable"),
        (UnspeakableList(), f"empty {__name__}.UnspeakableList"),
        (UnspeakableList([1]), f"{__name__}.UnspeakableList of int"),
        ([Unspeakable()], "list of Unspeakable"),
    ],
    ids=["object", "empty list", "list", "in a list"],
)
def test_an_object_whose_every_method_raises_is_named_by_its_class(root, named):
    assert said_of(root) == no_tensor_in(named)


def test_a_tensor_without_grad():
    assert said_of(torch.ones(2, 3)) == no_graph("a float32 tensor of shape 2×3", WHY_NO_GRAPH)


def test_a_scalar_without_grad():
    assert said_of(torch.tensor(1.0)) == no_graph("a float32 tensor of shape ()", WHY_NO_GRAPH)


def test_a_detached_loss_on_the_meta_device():
    loss = torch.ones(2, device="meta", requires_grad=True).sum().detach()
    assert said_of(loss) == no_graph("a float32 tensor of shape ()", WHY_NO_GRAPH)


@pytest.mark.parametrize(
    ("dtype", "named"), [(torch.int64, "an int64"), (torch.uint8, "a uint8"), (torch.bool, "a bool")]
)
def test_an_integer_tensor(dtype, named):
    assert said_of(torch.ones(4, dtype=dtype)) == no_graph(f"{named} tensor of shape 4", INTEGER)


def test_several_tensors_without_grad():
    what = "a float32 tensor of shape 1 (the first of 2 tensors, none of which has a graph)"
    assert said_of([torch.ones(1), {"metric": torch.ones(2)}]) == no_graph(what, WHY_NO_GRAPH)


def test_a_loss_computed_under_no_grad():
    with torch.no_grad():
        said = said_of(torch.ones(2, requires_grad=True) * 2)
    fix = "Gradients are disabled here (torch.no_grad()): compute it outside of that block."
    assert said == no_graph("a float32 tensor of shape 2", fix)


@pytest.mark.parametrize("asked_under", [contextlib.nullcontext, torch.inference_mode])
def test_a_tensor_made_under_inference_mode(asked_under):
    with torch.inference_mode():
        tensor = torch.ones(2) * 2
    with asked_under():
        said = said_of(tensor)
    fix = "It was created under torch.inference_mode(); make it outside, or under torch.no_grad() and clone it."
    assert said == no_graph("a float32 tensor of shape 2", fix)


@pytest.mark.parametrize("switched_off", [torch.no_grad, torch.inference_mode])
def test_a_graph_made_before_is_captured_where_gradients_are_switched_off(switched_off):
    y = torch.ones(2, requires_grad=True).exp()
    with switched_off():
        assert [n.op for n in capture(y).nodes] == ["Exp", "AccumulateGrad"]


def test_one_root_with_a_graph_is_enough():
    loss = torch.ones(1, requires_grad=True) * 2
    assert [n.op for n in capture({"loss": loss, "accuracy": 0.5, "labels": torch.ones(3)}).roots] == ["Mul"]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (42, "model must be a torch.nn.Module or a dict of them by name, not int."),
        ([torch.nn.Linear(1, 1)], "model must be a torch.nn.Module or a dict of them by name, not list."),
        ({"encoder": 42}, "model['encoder'] must be a torch.nn.Module, not int."),
    ],
)
def test_a_model_that_is_none(model, said):
    with pytest.raises(TypeError) as caught:
        capture(torch.ones(1, requires_grad=True) * 2, model=model)
    assert str(caught.value) == said
