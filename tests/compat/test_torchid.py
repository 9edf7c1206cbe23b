"""torchID's calls give torchID's answers where those are right, and right ones where they are not."""

from __future__ import annotations

import gc
import json
import sys
import weakref
from importlib import import_module
from pathlib import Path
from typing import Any

import fresh
import pytest
import torch

from backsight.compat.torchid import find_leaves, identify_tensors, tag_model

NOTEBOOKS = Path(__file__).parent / "notebooks"


def leaf() -> torch.Tensor:
    return torch.ones(3, requires_grad=True)


class SimpleModel(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.l1 = torch.nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.l1(x)


# --- the notebooks


def replay(notebook: str) -> dict[str, Any]:
    done = fresh.run([sys.executable, str(NOTEBOOKS / notebook)])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_first_notebook_finds_and_names_the_leaf_outside_of_the_optimizer() -> None:
    answer = replay("simple.py")
    assert answer["losses"][-1] < answer["losses"][0]
    assert answer["lingering"] != 0
    assert answer["shapes"] == [[1], [1, 4], [1]]
    assert answer["names"] == [
        ["SimpleModel_l1.bias", "__main__.model.l1.bias"],
        ["SimpleModel_l1.weight", "__main__.model.l1.weight"],
        ["__main__.delta"],
    ]
    assert answer["paths"] == [
        ["AddBackward0", "AddmmBackward0", "AccumulateGrad"],
        ["AddBackward0", "AddmmBackward0", "TBackward0", "AccumulateGrad"],
        ["AddBackward0", "AccumulateGrad"],
    ]


def test_the_second_notebook_names_the_overwritten_leaf_after_what_was_made_of_it() -> None:
    answer = replay("approximation.py")
    assert answer["names"][-1] == ["approximated.2separated.__main__.delta"]
    assert answer["first"] == [names[0] for names in answer["names"]]


# --- tag_model


def test_tags_are_the_class_and_the_place_of_a_parameter() -> None:
    model = SimpleModel()
    tag_model(model)
    assert model.l1.weight.nmm == ["SimpleModel_l1.weight"]
    assert model.l1.bias.nmm == ["SimpleModel_l1.bias"]


def test_a_tied_weight_has_a_tag_for_each_place() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    model[1].weight = model[0].weight
    tag_model(model)
    assert model[0].weight.nmm == ["Sequential_0.weight", "Sequential_1.weight"]


def test_two_models_of_one_class_are_told_apart_by_their_exact_names() -> None:
    student, teacher = SimpleModel(), SimpleModel()
    tag_model(student)
    tag_model(teacher)
    identify_tensors([student.l1.bias, teacher.l1.bias])
    scope = "test_two_models_of_one_class_are_told_apart_by_their_exact_names"
    assert student.l1.bias.nmm == ["SimpleModel_l1.bias", f"{scope}.student.l1.bias"]
    assert teacher.l1.bias.nmm == ["SimpleModel_l1.bias", f"{scope}.teacher.l1.bias"]


def test_a_tagged_model_can_be_saved_and_its_weights_loaded(tmp_path: Path) -> None:
    model = SimpleModel()
    tag_model(model)
    torch.save(list(model.parameters()), tmp_path / "parameters.pt")
    weight, _ = torch.load(tmp_path / "parameters.pt", weights_only=True)
    assert torch.equal(weight, model.l1.weight)
    torch.save(model.state_dict(), tmp_path / "state.pt")
    assert torch.load(tmp_path / "state.pt", weights_only=True).keys() == model.state_dict().keys()


def test_a_tag_does_not_keep_a_model_alive() -> None:
    model = SimpleModel()
    tag_model(model)
    weight = weakref.ref(model.l1.weight)
    del model
    gc.collect()
    assert weight() is None


def test_only_a_module_can_be_tagged() -> None:
    with pytest.raises(TypeError, match=r"tag_model takes an nn\.Module, not an object of type list\."):
        tag_model([leaf()])  # type: ignore[arg-type]  # what is tested


# --- identify_tensors


def test_a_local_is_named_after_its_function() -> None:
    delta = leaf()
    assert identify_tensors([delta]) == ["test_a_local_is_named_after_its_function.delta"]


def test_every_variable_that_holds_a_leaf_is_a_name() -> None:
    delta = leaf()
    offset = delta
    places = {"delta": delta}
    identify_tensors([offset])
    scope = "test_every_variable_that_holds_a_leaf_is_a_name"
    assert places["delta"].nmm == [f"{scope}.delta", f"{scope}.offset"]


def test_a_leaf_in_a_list_is_named_by_its_place() -> None:
    params = [leaf(), leaf()]
    leaves, paths = find_leaves((params[0] * params[1]).sum().grad_fn)
    scope = "test_a_leaf_in_a_list_is_named_by_its_place"
    assert identify_tensors(leaves, approximate_search=paths) == [f"{scope}.params[0]", f"{scope}.params[1]"]


def test_the_list_of_leaves_itself_names_nothing() -> None:
    leaves, _ = find_leaves((leaf() * leaf()).sum().grad_fn)
    answer = {"leaves": leaves}
    assert identify_tensors(answer["leaves"]) == ["unidentified", "unidentified"]
    assert [each.nmm for each in leaves] == [["unidentified"], ["unidentified"]]


def test_a_leaf_that_nothing_near_it_names_is_unidentified() -> None:
    loss = (leaf() * 2).sum()
    leaves, paths = find_leaves(loss.grad_fn)
    assert identify_tensors(leaves, approximate_search=paths) == ["unidentified"]


def test_an_overwritten_leaf_is_named_after_the_nearest_result_that_is_alive() -> None:
    x = leaf()
    hidden = x.exp()
    x = (hidden * 2 + 1).sin()
    loss = x.sum()
    leaves, paths = find_leaves(loss.grad_fn)
    scope = "test_an_overwritten_leaf_is_named_after_the_nearest_result_that_is_alive"
    assert identify_tensors(leaves, approximate_search=paths) == [f"approximated.2separated.{scope}.hidden"]
    del hidden
    assert identify_tensors(leaves, approximate_search=paths) == [f"approximated.5separated.{scope}.x"]


def test_a_name_is_looked_up_anew_each_time() -> None:
    delta = leaf()
    scope = "test_a_name_is_looked_up_anew_each_time"
    assert identify_tensors([delta]) == [f"{scope}.delta"]
    delta = delta / 2
    leaves, paths = find_leaves(delta.sum().grad_fn)
    assert identify_tensors(leaves, approximate_search=paths) == [f"approximated.2separated.{scope}.delta"]


def test_a_tensor_at_the_address_of_a_freed_one_does_not_inherit_its_name() -> None:
    for _ in range(100):
        tmp = leaf()
        identify_tensors([tmp])
        address, alive = id(tmp), weakref.ref(tmp)
        del tmp
        assert alive() is None
        fresh = leaf()
        if id(fresh) == address:
            break
    else:
        pytest.skip("this interpreter did not use an address again")
    assert identify_tensors([fresh]) == ["test_a_tensor_at_the_address_of_a_freed_one_does_not_inherit_its_name.fresh"]


def test_identifying_keeps_nothing_alive() -> None:
    delta = leaf()
    loss = (delta / 2).sum()
    identify_tensors(*find_leaves(loss.grad_fn))
    tensor = weakref.ref(delta)
    del delta, loss
    gc.collect()
    assert tensor() is None


def test_a_subclass_is_identified_without_running_its_code() -> None:
    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise AssertionError(f"{func} was run")

        def __eq__(self, other: object) -> bool:
            raise AssertionError("== was run")

        __hash__ = torch.Tensor.__hash__

    delta = leaf()
    kept = (delta * 2).as_subclass(Loud)
    leaves, paths = find_leaves((kept.as_subclass(torch.Tensor)).sum().grad_fn)
    del delta
    assert identify_tensors(leaves, approximate_search=paths) == [
        "approximated.2separated.test_a_subclass_is_identified_without_running_its_code.kept._base"
    ]


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """Leaves that only modules hold: the one of `marked`, which also defines `MyTestVar`, and the one of `plain`."""
    made = "import torch\nweight = torch.ones(3, requires_grad=True)\n"
    (tmp_path / "marked.py").write_text(f"{made}MyTestVar = 1\n")
    (tmp_path / "plain.py").write_text(made)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("marked", "plain"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return [import_module(name).weight for name in ("marked", "plain")]


def test_variables_of_modules_are_named_after_their_module(weights: list[torch.Tensor]) -> None:
    assert identify_tensors(weights) == ["marked.weight", "plain.weight"]


def test_a_marker_limits_the_modules_that_are_believed(weights: list[torch.Tensor]) -> None:
    assert identify_tensors(weights, limited_system_search="MyTestVar") == ["marked.weight", "unidentified"]


def test_a_marker_does_not_limit_the_variables_of_functions() -> None:
    delta = leaf()
    scope = "test_a_marker_does_not_limit_the_variables_of_functions"
    assert identify_tensors([delta], limited_system_search="MyTestVar") == [f"{scope}.delta"]


def test_a_library_is_searched_when_it_defines_the_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    delta = [leaf()]
    monkeypatch.setattr(json, "weight", delta[0], raising=False)
    del delta
    tensors = [json.weight]  # type: ignore[attr-defined]  # set above
    assert identify_tensors(tensors) == ["unidentified"]
    assert identify_tensors(tensors, limited_system_search="JSONEncoder") == ["json.weight"]


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        (torch.ones(2), "identify_tensors takes a list of tensors; put the one in a list: identify_tensors([tensor])."),
        ([leaf(), 3], "item 1 is an object of type int, where a tensor belongs."),
        ([None], "item 0 is None, where a tensor belongs."),
    ],
)
def test_only_tensors_can_be_identified(tensors: Any, message: str) -> None:
    with pytest.raises(TypeError) as raised:
        identify_tensors(tensors)
    assert str(raised.value) == message


def test_each_tensor_needs_its_path() -> None:
    with pytest.raises(ValueError, match=r"approximate_search holds 0 paths for 1 tensors: pass both lists of one"):
        identify_tensors([leaf()], approximate_search=[])


def test_no_tensors_have_no_names() -> None:
    assert identify_tensors([], approximate_search=[]) == []
