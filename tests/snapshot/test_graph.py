"""`backsight.graph` is a captured graph whose leaves and roots have the names of their variables."""

from __future__ import annotations

import pickle
import weakref
from typing import Any

import pytest
import torch
from torch.autograd.graph import get_gradient_edge

import backsight


def leaf() -> torch.Tensor:
    return torch.ones(3, requires_grad=True)


def described(graph: backsight.Graph) -> dict[str, tuple[str, str | None]]:
    return {leaf.name: (leaf.kind, leaf.owner) for leaf in graph.leaves}


def test_leaves_have_names_kinds_and_owners() -> None:
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    delta = leaf()
    loss = (model(torch.ones(3)) * delta).sum()
    assert described(backsight.graph(loss)) == {
        "model.weight": ("parameter", "optimizer"),
        "model.bias": ("parameter", "optimizer"),
        "delta": ("variable", None),
    }
    assert optimizer.param_groups


def test_roots_have_names() -> None:
    x = leaf()
    loss, other = x.sum(), {"penalty": x.exp()}
    assert backsight.graph(loss, other).root_names == ("loss", "other['penalty']")


def test_a_root_that_no_variable_holds_has_none() -> None:
    assert backsight.graph(leaf().sum()).root_names == ("",)


def test_a_root_without_a_graph_is_passed_over() -> None:
    x, label = leaf(), torch.ones(3)
    loss = x.sum()
    graph = backsight.graph({"label": label, "loss": loss})
    assert (graph.root_names, len(graph.roots)) == (("loss",), 1)


def test_a_gradient_edge_can_be_a_root() -> None:
    x = leaf()
    edge = get_gradient_edge(x.exp().sum())
    assert [each.name for each in backsight.graph(edge).leaves] == ["x"]


def test_all_names_of_a_leaf_are_told() -> None:
    model = torch.nn.ModuleDict({"embed": torch.nn.Linear(3, 3, bias=False), "head": torch.nn.Linear(3, 3, bias=False)})
    model["head"].weight = model["embed"].weight
    loss = model["head"](model["embed"](torch.ones(3))).sum()
    (only,) = backsight.graph(loss).leaves
    assert only.names == ("model.embed.weight", "model.head.weight")


def test_a_leaf_that_only_an_optimizer_holds_is_not_named_after_it() -> None:
    optimizer = torch.optim.SGD([leaf()], lr=0.1)
    loss = (optimizer.param_groups[0]["params"][0] * 2).sum()
    (only,) = backsight.graph(loss).leaves
    assert (only.name, only.owner, only.near) == ("", "optimizer", "2 operations before loss")


def test_a_model_of_the_caller_gives_nodes_their_modules() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    modules = [node.module for node in backsight.graph(net(torch.ones(3)).sum()).nodes if node.op == "Addmm"]
    assert modules == ["2", "0"]


def test_a_given_model_and_optimizer_need_not_be_found() -> None:
    def hidden() -> Any:
        model = torch.nn.Linear(3, 1)
        yield model
        yield torch.optim.SGD(model.parameters(), lr=0.1)

    model, optimizer = hidden()
    loss = model(torch.ones(3)).sum()
    for names in (True, False):
        graph = backsight.graph(loss, model={"net": model, "other": torch.nn.ReLU()}, optimizer=optimizer, names=names)
        assert {each.owner for each in graph.leaves} == {"optimizer"}
        assert {node.module for node in graph.nodes if node.op == "Addmm"} == {"net"}


def test_without_names_leaves_have_only_their_place_in_the_given_model() -> None:
    model, delta = torch.nn.Linear(3, 1, bias=False), leaf()
    loss = (model(torch.ones(3)) * delta).sum()
    assert [each.name for each in backsight.graph(loss, names=False).leaves] == ["", ""]
    assert [each.name for each in backsight.graph(loss, model=model, names=False).leaves] == ["weight", ""]


def test_without_details_there_are_names_but_no_shapes() -> None:
    delta = leaf()
    graph = backsight.graph(delta.exp().sum(), details=False)
    assert [each.name for each in graph.leaves] == ["delta"]
    assert graph.nodes[0].shape is None and graph.saved_bytes == 0


def test_a_graph_keeps_nothing_alive_and_pickles_with_its_names() -> None:
    delta = leaf()
    loss = delta.exp().sum()
    graph = backsight.graph(loss)
    refs = [weakref.ref(delta), weakref.ref(loss)]
    del delta, loss
    assert [ref() for ref in refs] == [None, None]
    again = pickle.loads(pickle.dumps(graph))
    assert [each.name for each in again.leaves] == ["delta"]
    assert again.root_names == ("loss",)


def test_the_graph_can_still_be_used() -> None:
    x = leaf()
    loss = x.exp().sum()
    backsight.graph(loss)
    loss.backward()
    assert torch.equal(x.grad, torch.ones(3).exp())


@pytest.mark.parametrize("names", [True, False])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": 3}, "model must be a torch.nn.Module or a dict of them by name, not int."),
        ({"model": torch.nn.Linear}, "model must be a torch.nn.Module or a dict of them by name, not type."),
        ({"model": {"net": 3}}, "model['net'] must be a torch.nn.Module, not int."),
        ({"optimizer": []}, "optimizer must be a torch.optim.Optimizer or a dict of them by name, not list."),
        ({"optimizer": {"adam": None}}, "optimizer['adam'] must be a torch.optim.Optimizer, not NoneType."),
    ],
)
def test_a_wrong_model_or_optimizer_is_refused(given: dict[str, Any], message: str, names: bool) -> None:
    loss = leaf().sum()
    with pytest.raises(TypeError) as raised:
        backsight.graph(loss, names=names, **given)
    assert str(raised.value) == message


def test_nothing_to_capture_is_said() -> None:
    with pytest.raises(backsight.NothingToCapture, match=r"graph\(\) was given a float32 tensor of shape 3"):
        backsight.graph(torch.ones(3))
