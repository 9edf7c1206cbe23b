"""Where two trainings part, and of which class that is."""

from __future__ import annotations

import json
import runpy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from trainings_traced import Net

import backsight as bs
from backsight.traces.records import Variables


def test_the_same_training_agrees_to_the_last_bit(traced):
    difference = bs.diff(traced(), traced())
    assert difference.same and difference.cls == "same" and difference.findings == ()
    assert "no difference in 2 steps" in difference.text()


def test_another_epsilon_is_named_with_line_module_and_values(traced):
    difference = bs.diff(traced(), traced(eps=1e-4))
    found = difference.origin
    assert difference.cls == "semantics" and difference.first.code == "BS501"
    assert found.origin.a.module == "blocks.0.norm" and found.reasons[0] == "`eps` is 1e-05 in A and 0.0001 in B"
    assert found.origin.before == 0 and difference.steps[0].inherited > 20
    assert "native_layer_norm in module model.blocks.0.norm" in difference.first.title


def test_an_operation_that_only_one_has_is_named(traced):
    difference = bs.diff(traced(), traced(scale=0.5))
    assert difference.origin.reasons[:2] == ("only B calls mul(0.5)", "B is A times 0.5")
    assert difference.origin.origin.places[1].text == "x = x * self.scale"
    back = bs.diff(traced(scale=0.5), traced())
    assert back.origin.reasons[0] == "only A calls mul(0.5)"


def test_more_calls_are_counted_in_the_step_that_is_told(traced):
    difference = bs.diff(traced(), traced(eps=1e-4))  # of two blocks, in two steps
    assert sum(len(step.origins) for step in difference.steps) > 2
    assert "The same happens in 1 more call of step 0.\n" in difference.text()


def test_a_wrong_backward_is_found_though_all_of_forward_agrees(traced):
    difference = bs.diff(traced((0,)), traced((0,), factor=0.5))
    assert difference.first.code == "BS507" and difference.origin.origin.phase == "backward"
    assert difference.origin.origin.places[0].text == "return grad_output * ctx.factor, None"
    modules = [each.relative for each in difference.steps[0].points if each.what in ("module", "loss")]
    assert modules and not any(modules)


def test_another_learning_rate_is_the_optimizers(traced):
    difference = bs.diff(traced(), traced(lr=0.02))
    assert difference.first.code == "BS508"
    assert difference.origin.reasons[0] == "`lr` of the optimizer is 0.01 in A and 0.02 in B"


def test_another_initialization_and_other_data_are_told_apart(traced):
    started = bs.diff(traced((0,)), traced((0,), seed=3))
    assert started.first.code == "BS504" and "blocks.0.up.weight" in started.first.title
    given = bs.diff(traced((0,)), traced((0,), data=3))
    assert given.first.code == "BS505"


def test_renamed_modules_are_the_same(traced):
    difference = bs.diff(traced(), traced(names="layers"))
    assert difference.same
    assert ("model.blocks.0.up.weight", "model.layers.0.up.weight") in difference.steps[0].renamed


def test_an_order_that_rounding_does_not_see_is_no_mistake(traced):
    assert bs.diff(traced(), traced(order=True)).cls in ("same", "noise")


class Summed(nn.Module):
    """The mean of squares of many numbers, added up in one order or another, or in another precision."""

    def __init__(self, how):
        super().__init__()
        self.w, self.how = nn.Parameter(torch.ones(4096)), how

    def forward(self, x):
        y = x * self.w
        if self.how == "bfloat16":
            y = y.bfloat16().float()
        if self.how == "parts":
            y = torch.stack([y[part::7].sum() for part in range(7)]).sum().reshape(1)
        return (y.sum() / 64).square()


def summed(path, how):
    torch.manual_seed(0)
    model, x = Summed(how), torch.randn(4096)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with bs.trace(path) as trace:
        model(x).backward()
        optimizer.step()
    return trace.path


def test_another_order_of_a_sum_is_noise(tmp_path):
    difference = bs.diff(summed(tmp_path / "a", "whole"), summed(tmp_path / "b", "parts"))
    assert difference.cls == "noise" and {each.severity for each in difference.findings} == {"note"}


def test_another_dtype_is_precision(tmp_path):
    difference = bs.diff(summed(tmp_path / "a", "whole"), summed(tmp_path / "b", "bfloat16"))
    assert difference.cls == "precision" and difference.first.code == "BS502"
    assert "casts to bfloat16" in " ".join(difference.origin.reasons)


def normed(path, momentum):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, momentum=momentum))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with bs.trace(path) as trace:
        model(torch.randn(8, 4, generator=torch.Generator().manual_seed(0))).square().sum().backward()
        optimizer.step()
    return trace.path


def test_a_running_statistic_that_is_written_unseen_is_found(tmp_path):
    difference = bs.diff(normed(tmp_path / "a", 0.1), normed(tmp_path / "b", 0.5))
    assert difference.cls == "semantics" and difference.origin.reasons[0] == "`momentum` is 0.1 in A and 0.5 in B"
    assert difference.origin.origin.a.module == "1"


def dropped(path, seed):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5))
    torch.manual_seed(seed)
    with bs.trace(path, model=model) as trace:
        model(torch.ones(8, 4)).sum().backward()
        trace.step()
    return trace.path


def test_other_random_numbers_are_the_generators(tmp_path):
    difference = bs.diff(dropped(tmp_path / "a", 1), dropped(tmp_path / "b", 2))
    assert difference.first.code == "BS506"
    assert difference.origin.reasons[0] == "the state of PyTorch's random generator differs as step 0 begins"


def test_a_recurrence_that_uses_another_part_is_found(tmp_path):
    def run(path, order):
        x = torch.arange(8.0).reshape(1, 8)
        with bs.trace(path) as trace:
            first, second = x.chunk(2, 1)
            if order:
                first, second = second, first
            first.sigmoid() * second
            trace.step()
        return trace.path

    difference = bs.diff(run(tmp_path / "a", False), run(tmp_path / "b", True))
    assert difference.cls == "semantics" and "a different tensor" in " ".join(difference.origin.reasons)


def test_traces_without_a_step_in_common_say_so(traced):
    difference = bs.diff(traced((0,)), traced((1,)))
    assert difference.steps == () and difference.notes == (
        "the traces have no step in common: A has step 0 and B has step 1",
    )


def test_programs_without_a_module_in_common_still_have_an_answer(traced, tmp_path):
    with bs.trace(tmp_path / "other") as trace:
        (torch.randn(3, requires_grad=True) ** 2).sum().backward()
        trace.step()
    difference = bs.diff(traced((0,)), trace.path)
    assert difference.cls == "semantics" and difference.text()


def test_it_is_text_html_and_json(traced, tmp_path):
    difference = bs.diff(traced((0,)), traced((0,), scale=0.5))
    held = json.loads(difference.to_json())
    assert held["class"] == "semantics" and held["findings"][0]["code"] == "BS501"
    assert held["steps"][0]["origins"][0]["reasons"][0] == "only B calls mul(0.5)"
    page = difference.html()
    assert "x = x * self.scale" in page and "<script" not in page
    for name in ("a.html", "a.json", "a.txt"):
        assert difference.save(str(tmp_path / name)).stat().st_size > 200
    with pytest.raises(ValueError, match=r"path must end in .html, .json or .txt, not 'a.pdf'"):
        difference.save("a.pdf")


def test_what_programs_name_cannot_steer_a_terminal_or_a_page(tmp_path):
    def run(path, factor):
        model = nn.Module()
        model.add_module("a\x1b[31m<b>", nn.Linear(2, 2))
        with bs.trace(path, model=model) as trace:
            dict(model.named_modules())["a\x1b[31m<b>"](torch.ones(2, 2) * factor)
            trace.step()
        return trace.path

    torch.manual_seed(0)
    difference = bs.diff(run(tmp_path / "a", 1.0), run(tmp_path / "b", 2.0))
    assert "\x1b" not in str(difference)
    assert "31m<b>" not in difference.html()


def test_what_is_no_trace_is_refused(traced):
    with pytest.raises(TypeError, match="b must be a trace or the folder of one, not Net"):
        bs.diff(traced((0,)), Net())


def test_a_backward_that_differs_because_the_forward_does_is_no_finding_of_its_own(traced):
    for options in ({"scale": 0.5}, {"eps": 1e-2}):
        difference = bs.diff(traced((0,)), traced((0,), **options))
        assert [each.code for each in difference.findings] == ["BS501"]
        assert all(each.origin.phase != "backward" for each in difference.steps[0].origins)


def test_a_wrong_backward_is_found_beside_a_forward_that_differs(traced):
    difference = bs.diff(traced((0,)), traced((0,), eps=1.1e-5, factor=0.25))
    assert {"BS501", "BS507"} <= {each.code for each in difference.findings}


def test_a_headline_says_which_program_calls_what(traced, tmp_path):
    assert bs.diff(traced((0,)), traced((0,), scale=0.5)).first.title == (
        "The programs diverge in step 0, forward: only B calls mul(0.5)."
    )
    for name, make in (("a", lambda x: x.exp()), ("b", lambda x: (x * 2).cos())):
        with bs.trace(tmp_path / name) as trace:
            make(torch.randn(5, generator=torch.Generator().manual_seed(0))).sum()
            trace.step()
    title = bs.diff(tmp_path / "a", tmp_path / "b").first.title
    assert title == "The programs diverge in step 0, forward: A calls exp where B calls cos."


def two_models(path, names, factor=1.0):
    """Trains an embedding and a layer under other variables, that one first which the program calls first."""
    torch.manual_seed(0)
    program = f"""
{names[0]}, {names[1]} = torch.nn.Embedding(6, 4), torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD([*{names[0]}.parameters(), *{names[1]}.parameters()], 0.1)
with bs.trace({str(path)!r}):
    ({names[1]}({names[0]}(torch.arange(6))) * {factor}).square().mean().backward()
    optimizer.step()
"""
    exec(program, {"torch": torch, "bs": bs})
    return path


def test_models_are_called_by_their_variables_and_paired_whatever_these_are(tmp_path):
    ours = two_models(tmp_path / "a", ("emb", "lin"))
    assert bs.diff(ours, two_models(tmp_path / "b", ("table", "emb"))).same  # `emb` of A is not that of B
    difference = bs.diff(ours, two_models(tmp_path / "c", ("table", "proj"), 2.0))
    assert difference.steps[0].renamed == (("emb", "table"), ("lin", "proj"))
    assert {each.name for each in difference.steps[0].points if each.what == "grad"} == {
        *("emb.weight", "lin.weight", "lin.bias")
    }
    assert "in lin.weight, the" in difference.text() and "in weight, the" not in difference.text()
    assert {each["name"] for each in difference.to_dict()["steps"][0]["growth"]} >= {"emb", "lin", "emb.weight"}


def test_a_trace_of_an_older_backsight_is_told_by_its_own_names(tmp_path):
    trace = bs.open_trace(two_models(tmp_path / "a", ("emb", "lin")))
    assert (trace.called("weight"), trace.called("Linear.bias")) == ("emb.weight", "lin.bias")
    assert trace.called.held("state exp_avg of Linear.bias") == "state exp_avg of lin.bias"
    assert replace(trace, called=Variables()).called("Linear.bias") == "Linear.bias"


TRAINING = """
import torch, backsight as bs
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4))
x = torch.randn(32, 8)
with bs.trace(path):
    y = model(x)
    loss = y.square().mean()
    loss.backward()
"""


@pytest.mark.parametrize(
    ("old", "new", "fix", "shown"),
    [
        (
            "LayerNorm(16)",
            "LayerNorm(16, eps=1e-3)",
            "Give `eps` the same value in both: {b}:4 sets it to 0.001.",
            [("a", 7, "runs in A."), ("b", 4, "sets `eps` in B.")],
        ),
        (
            "y.square()",
            "y.tanh().square()",
            "Remove tanh on {b}:8, or add it on {a}:8.",
            [("a", 8, "runs in A."), ("b", 8, "runs in B.")],
        ),
    ],
)
def test_the_fix_says_what_differs_and_where_it_is_written(tmp_path, old, new, fix, shown):
    files = {name: str(tmp_path / f"{name}.py") for name in ("a", "b")}
    for name, text in (("a", TRAINING), ("b", TRAINING.replace(old, new))):
        Path(files[name]).write_text(text)
        runpy.run_path(files[name], {"path": str(tmp_path / name)})
    first = bs.diff(tmp_path / "a", tmp_path / "b").first
    assert first.code == "BS501" and first.fix == fix.format(**files)
    places = [(each.place.file, each.place.line, each.text) for each in first.evidence[:2]]
    assert places == [(files[name], line, text) for name, line, text in shown]
