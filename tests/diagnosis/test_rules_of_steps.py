"""BS103, BS110: what is left over from step to step."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Literal

import pytest
import torch
from audits import batches, codes, mlp, one
from torch import nn

import backsight as bs
from backsight.diagnosis import audit_at


def forgetful(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int, clip: bool = False) -> bs.Report:
    """Train without zero_grad, and return the last audit."""
    for x in batches(steps):
        loss = model(x).mean()
        report = bs.audit(loss)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
        optimizer.step()
    return report


class TestStaleGradient:
    def test_gradients_that_are_never_zeroed_show_by_the_third_step(self) -> None:
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        assert not forgetful(model, optimizer, 2).findings
        report = forgetful(model, optimizer, 1)
        finding = one(report, "BS103")
        assert (finding.severity, finding.title) == (
            "warning",
            "4 gradients have not been zeroed since optimizer.step().",
        )
        assert finding.evidence == (
            "model.0.weight, model.0.bias, model.2.weight and model.2.bias: the gradient of the previous step is "
            "still there, so this backward adds to it, and the next step follows the sum of all gradients so far.",
        )
        assert finding.fix == "Call optimizer.zero_grad() in each step before backward()."

    def test_one_gradient_and_a_long_list_are_both_spelt_well(self) -> None:
        weight = torch.ones(4, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for x in batches(3):
            loss = (weight * x).sum()
            report = bs.audit(loss)
            loss.backward()
            optimizer.step()
        assert one(report, "BS103").title == "1 gradient has not been zeroed since optimizer.step()."
        model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(5)))
        report = forgetful(model, torch.optim.Adam(model.parameters()), 3)
        assert "model.1.bias and 6 more: the gradient" in one(report, "BS103").evidence[0]

    @pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop, torch.optim.Adagrad])
    def test_whatever_the_optimizer(self, make: Callable[..., torch.optim.Optimizer]) -> None:
        model = mlp()
        assert codes(forgetful(model, make(model.parameters(), lr=0.01), 3)) == ["BS103"]

    def test_only_the_optimizer_that_was_forgotten(self) -> None:
        body, head = mlp(), nn.Linear(1, 1)
        first, second = torch.optim.SGD(body.parameters(), lr=0.1), torch.optim.SGD(head.parameters(), lr=0.1)
        for x in batches(3):
            loss = head(body(x)).mean()
            report = bs.audit(loss)
            first.zero_grad()
            loss.backward()
            first.step()
            second.step()
        assert one(report, "BS103").title == "2 gradients have not been zeroed since second.step()."

    def test_sparse_gradients(self) -> None:
        table = nn.Embedding(10, 3, sparse=True)
        optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
        for _ in range(3):
            loss = table(torch.tensor([1, 2])).sum()
            report = bs.audit(loss)
            loss.backward()
            optimizer.step()
        assert one(report, "BS103").title == "1 gradient has not been zeroed since optimizer.step()."

    def test_a_model_on_the_meta_device_has_no_values_and_is_judged_all_the_same(self) -> None:
        model = mlp().to("meta")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            loss = model(torch.empty(3, 4, device="meta")).mean()
            report = bs.audit(loss)
            loss.backward()
            optimizer.step()
        assert codes(report) == ["BS103"]

    def test_gradients_zeroed_in_place_after_the_step_are_in_order(self) -> None:
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in batches(4):
            loss = model(x).mean()
            assert not bs.audit(loss).findings
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)

    def test_within_a_backward_clipping_does_not_hide_it(self) -> None:
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        reports = []
        with bs.watch():
            for x in batches(3):
                loss = model(x).mean()
                loss.register_hook(
                    lambda _, loss=loss: reports.append(audit_at(("here", 1), (loss,), moment="during backward"))
                )
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
                optimizer.step()
        assert [codes(report) for report in reports] == [[], [], ["BS103"]]

    @pytest.mark.parametrize("level", ["calls", "exact"])
    def test_before_the_step_the_backward_has_run_already(self, level: Literal["calls", "exact"]) -> None:
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        reports = []
        with bs.watch(level=level):
            for x in batches(3):
                loss = model(x).mean()
                loss.backward(retain_graph=True)
                reports.append(audit_at(("here", 2), (loss,), moment="before step"))
                optimizer.step()
        assert [codes(report) for report in reports] == [[], [], ["BS103"]]


class TestGraphGrows:
    def test_a_sum_of_losses_that_keeps_every_step(self) -> None:
        model, total = nn.Linear(4, 1), torch.zeros(())
        for x in batches(3):
            total = total + model(x).mean()
            report = bs.audit(total)
            total.backward(retain_graph=True)
        finding = one(report, "BS110")
        assert (finding.severity, finding.title) == (
            "warning",
            "The graph grows from step to step: this loss is still attached to the graph of every earlier step.",
        )
        assert finding.evidence[0] == (
            "4, 8, 12 operations in the last three audits at this line; 8 of the 12 were already in the graph of the "
            "previous step."
        )
        assert str(finding.evidence[1]).endswith(
            "  total = total + model(x).mean()\n    adds model(x).mean(), still attached to its graph."
        )
        # not total + model(x).mean().item(): a backward is run on the sum itself
        assert finding.fix == "Detach it at the start of each step: total = total.detach()."

    def test_what_carries_the_graph_is_named_where_the_source_shows_it(self) -> None:
        model, average = nn.Linear(4, 1), torch.zeros(())
        for x in batches(3):
            loss = model(x).mean()
            average = average + loss
            report = bs.audit(average)
            loss.backward(retain_graph=True)
        finding = one(report, "BS110")
        assert finding.source is not None and "test_rules_of_steps.py:" in finding.source
        assert finding.fix == "average = average + loss.item(), which keeps the number and drops the graph."

    def test_without_the_source_the_fix_is_given_in_general(self) -> None:
        program = """
        model, total, reports = torch.nn.Linear(4, 1), torch.zeros(()), []
        for _ in range(3):
            total = total + model(torch.randn(3, 4)).mean()
            reports.append(backsight.audit(total))
            total.backward(retain_graph=True)
        """
        variables = {"torch": torch, "backsight": bs}
        exec(textwrap.dedent(program), variables)
        finding = one(variables["reports"][-1], "BS110")
        assert finding.source is None and len(finding.evidence) == 1
        assert finding.fix == (
            "Detach what is carried over: hidden = hidden.detach() for a state, total += loss.item() for a sum that "
            "you only print."
        )

    def test_a_hidden_state_that_is_not_cut(self) -> None:
        cell, hidden = nn.RNNCell(4, 4), torch.zeros(3, 4)
        reports = []
        for x in batches(4):
            hidden = cell(x, hidden)
            loss = hidden.mean()
            reports.append(bs.audit(loss))
            loss.backward(retain_graph=True)
        assert [codes(report) for report in reports] == [[], [], ["BS110"], ["BS110"]]

    def test_a_hidden_state_that_is_cut_is_in_order(self) -> None:
        cell, hidden = nn.RNNCell(4, 4), torch.zeros(3, 4)
        for x in batches(4):
            hidden = cell(x, hidden.detach())
            loss = hidden.mean()
            assert not bs.audit(loss).findings
            loss.backward()

    def test_one_loss_summed_up_before_one_backward_is_in_order(self) -> None:
        model = nn.Linear(4, 1)
        for _ in range(2):
            total = torch.zeros(())
            for x in batches(4):
                total = total + model(x).mean()
                assert not bs.audit(total).findings
            total.backward()

    def test_the_same_graph_audited_again_and_again_does_not_grow(self) -> None:
        model = nn.Linear(4, 1)
        loss = model(torch.randn(3, 4)).mean()
        for _ in range(5):
            assert not bs.audit(loss).findings
            loss.backward(retain_graph=True)

    def test_graphs_that_grow_without_sharing_are_in_order(self) -> None:
        model = nn.Linear(4, 4)
        for depth in range(1, 6):
            h = torch.randn(3, 4)
            for _ in range(depth):
                h = model(h)
            loss = h.mean()
            assert not bs.audit(loss).findings
            loss.backward()

    def test_a_part_computed_once_and_kept_is_in_order(self) -> None:
        encoder, head = nn.Linear(4, 4), nn.Linear(4, 1)
        features = encoder(torch.randn(3, 4))
        for extra in range(5):
            h = head(features)
            for _ in range(extra):
                h = h.tanh()
            loss = h.mean()
            assert not bs.audit(loss).findings
            loss.backward(retain_graph=True)

    def test_training_by_hand_through_data(self) -> None:
        weight, state = torch.ones(4, requires_grad=True), torch.zeros(4)
        for x in batches(4):
            state = (state + x[0] * weight).tanh()
            loss = state.sum()
            report = bs.audit(loss)
            (gradient,) = torch.autograd.grad(loss, weight, retain_graph=True)
            weight.grad = gradient
            weight.data -= 0.1 * gradient
        assert codes(report) == ["BS110"]
