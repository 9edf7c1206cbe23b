"""What torchEmber records of modules and tensors of all kinds."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from backsight.compat.torchember import get_stats, torchEmber

pytestmark = pytest.mark.usefixtures("home")

X = torch.linspace(-1, 1, 6).reshape(2, 3)


def rows(te: torchEmber, **of: str) -> list[dict[str, Any]]:
    return [row for row in te.t.lines() if all(row[key] == value for key, value in of.items())]


def places(te: torchEmber, **of: str) -> list[tuple[str, str]]:
    return [(row["ttype"], row["tname"]) for row in rows(te, **of)]


def test_weights_are_the_same_to_the_last_bit(model: nn.Module) -> None:
    twin = copy.deepcopy(model)
    torchEmber(model)
    for each in (model, twin):
        optimizer = torch.optim.Adam(each.parameters())
        for _ in range(5):
            optimizer.zero_grad()
            each(X).square().mean().backward()
            optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), twin.parameters(), strict=True))


def test_what_is_modified_in_place_is_told_apart(model: nn.Module) -> None:
    te = torchEmber(model)
    model(X)
    given, returned = rows(te, module="model(Sequential).1(ReLU)")
    assert given["min"] < 0 <= returned["min"]


def test_log_model_takes_the_place_of_weights_in_passes_and_belongs_to_the_last(model: nn.Module) -> None:
    te = torchEmber(model)
    model(X).sum().backward()
    te.log_model()
    model(X).sum().backward()
    te.log_model()
    latest = te.t.latest_line_list()
    assert [row["ttype"] for row in latest[:8]] == ["input", "input", "output"] + ["input", "output"] * 2 + ["output"]
    weights = [(row["module"], row["tname"]) for row in latest if row["ttype"] == "weight"]
    assert weights == [
        (f"model(Sequential).{module}(Linear)", f"weight_{number}") for module in (0, 2) for number in (0, 1)
    ]
    assert sum(row["ttype"] == "weight_grad" for row in latest) == 4
    assert len(latest) == 8 + 4 + 4


def test_weights_and_gradients_can_be_asked_for_apart(model: nn.Module) -> None:
    te = torchEmber(model)
    model(X).sum().backward()
    before = len(rows(te))
    te.record_weight()
    te.record_grad()
    assert [row["ttype"] for row in rows(te)[before:]] == ["weight"] * 4 + ["weight_grad"] * 4


def test_marks_are_columns_of_the_rows_to_come(model: nn.Module) -> None:
    te = torchEmber(model)
    model(X)
    te.mark(phase="train", epoch=1)
    te.add_extra(batch=7)
    model(X)
    te.mark(epoch=2)
    te.after_train()
    model(X)
    told = [[row.get(tag) for tag in ("phase", "epoch", "batch")] for row in rows(te, module="model(Sequential)")]
    assert told == [[None] * 3] * 2 + [["train", 1, 7]] * 2 + [["train", 2, None]] * 2
    assert list(te.t.df.columns)[:9] == ["shape", "mean", "std", "max", "min", "module", "ts", "ttype", "tname"]


def test_metrics_are_set_by_kind(model: nn.Module) -> None:
    te = torchEmber(model)

    @te.set_metric("grad")
    def size(gradient: torch.Tensor) -> dict[str, Any]:
        return {"norm": gradient.norm(), "signs": gradient.sign().bool().any(-1)}

    model(X).sum().backward()
    model(X)
    assert size(torch.ones(4))["norm"] == 2
    assert all(isinstance(row["norm"], float) and "mean" not in row for row in rows(te, ttype="weight_grad"))
    assert all("mean" in row for row in rows(te, ttype="weight"))
    with pytest.raises(ValueError, match="there is no kind 'bias' of tensor; the kinds are"):
        te.set_metric("bias")


def test_nested_inputs_and_outputs_have_rows_of_their_own() -> None:
    rnn = nn.LSTM(20, 20, batch_first=True)
    te = torchEmber(rnn)
    rnn(torch.rand(2, 10, 20), (torch.zeros(1, 2, 20), torch.zeros(1, 2, 20)))
    assert [place for place in places(te) if place[0] != "weight"] == [
        ("input", "input"),
        ("input", "hx[0]"),
        ("input", "hx[1]"),
        ("output", "output_0"),
        ("output", "output_1[0]"),
        ("output", "output_1[1]"),
    ]


def test_keyword_arguments_and_what_is_no_tensor() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor, scale: float = 1.0, **more: Any) -> dict[str, Any]:
            return {"logits": x * scale, "note": "done"}

    net = Net()
    te = torchEmber(net)
    net(x=X, scale=2.0, mask=X > 0)
    assert places(te) == [("input", "x"), ("input", "mask"), ("output", "output_0.logits")]


def test_parameters_of_a_module_with_children_are_recorded() -> None:
    attention = nn.MultiheadAttention(4, 1)
    te = torchEmber(attention)
    attention(torch.rand(2, 1, 4), torch.rand(2, 1, 4), torch.rand(2, 1, 4))
    assert ("weight", "weight_0") in places(te, module="model(MultiheadAttention)")


def test_a_module_in_two_places_goes_by_its_first_name() -> None:
    layer = nn.Linear(3, 3)
    model = nn.Sequential(layer, layer)
    te = torchEmber(model)
    model(X)
    assert len(rows(te, module="model(Sequential).0(Linear)", ttype="input")) == 2
    assert [child["short"] for child in te.mod_tree()["children"]] == ["0(Linear)", "1(Linear)"]


def test_lazy_modules_are_recorded_once_they_have_weights() -> None:
    model = nn.Sequential(nn.LazyLinear(2))
    te = torchEmber(model)
    te.record_weight()
    model(X)
    te.record_weight()
    assert [row["shape"] for row in rows(te, ttype="weight")] == [[2, 3], [2]]


@pytest.mark.parametrize(
    "tensor",
    [torch.tensor([1, 2, 9]), torch.tensor([True, False, True]), torch.rand(2, 3, dtype=torch.bfloat16)],
    ids=["integers", "booleans", "bfloat16"],
)
def test_statistics_of_other_types(tensor: torch.Tensor) -> None:
    of = tensor.double()
    said = get_stats(tensor)
    assert said["shape"] == list(tensor.shape)
    assert [said["mean"], said["std"], said["max"], said["min"]] == pytest.approx(
        [of.mean().item(), of.std().item(), of.max().item(), of.min().item()]
    )


def test_what_is_not_finite_is_not_hidden() -> None:
    said = get_stats(torch.tensor([1.0, float("nan"), float("inf"), float("-inf")]))
    assert all(said[name] != said[name] for name in ("mean", "std", "max", "min"))
    assert (said["nans"], said["infs"]) == (1, 2)
    assert "nans" not in get_stats(torch.ones(2))


def test_what_cannot_be_read_says_why(model: nn.Module) -> None:
    assert get_stats(torch.ones(2, device="meta"))["skipped"] == "is on the meta device and has no values"
    te = torchEmber(model.to("meta"))
    model(X.to("meta"))
    assert {row["skipped"] for row in rows(te)} == {"is on the meta device and has no values"}
