"""BS104, BS105, BS108, BS122: what will make this backward raise, or yield NaN."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from audits import codes, mlp, of, one
from torch import nn
from torch.utils.checkpoint import checkpoint

import backsight as bs

INPLACE_FIX = (
    "Create a new tensor instead (x = x + 1, not x += 1), or modify a copy: x = x.clone() first. If an optimizer "
    "modified it, call step() after the last backward() that needs the old weights."
)
TWICE_FIX = (
    "Recompute the loss for each backward(). Detach what is carried from step to step: hidden = hidden.detach(). Two "
    "losses over one forward pass: (loss_a + loss_b).backward()."
)
ORIGIN_FIX = (
    "Look at the operation before it: a division by 0, log(0), sqrt of a negative number, an overflow in half "
    "precision, or non-finite "
    "input data. `backsight run --nonfinite` names the line."
)


class TestModifiedSaved:
    def test_a_result_changed_in_place(self) -> None:
        model = mlp()
        hidden = model[0](torch.randn(3, 4)).exp()
        hidden += 1
        loss = model[2](hidden).mean()
        finding = one(bs.audit(loss), "BS104")
        assert (finding.severity, finding.title) == (
            "error",
            "hidden was modified in place after ExpBackward0 saved it: backward will raise.",
        )
        assert finding.evidence == (
            "ExpBackward0 saved it as `result` (shape 3×8) at version 0; it is now at version 1: 1 change since.",
        )
        assert finding.fix == INPLACE_FIX
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()

    def test_weights_that_an_optimizer_stepped_too_early(self) -> None:
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loss = model(torch.randn(3, 4)).mean()
        loss.backward(retain_graph=True)
        optimizer.step()
        optimizer.step()
        finding = one(bs.audit(loss), "BS104")
        assert finding.title == (
            "model.2.weight was modified in place after AddmmBackward0 saved it: backward will raise."
        )
        assert finding.evidence[0].endswith("2 changes since.")
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()

    def test_an_operation_that_saved_nothing_of_it_is_in_order(self) -> None:
        model = mlp()
        hidden = model[0](torch.randn(3, 4))
        hidden += 1
        loss = model[2](hidden).mean()
        assert not bs.audit(loss).findings
        loss.backward()

    def test_a_change_through_a_view(self) -> None:
        weight = torch.ones(3, requires_grad=True)
        kept = weight.exp()
        first = kept[0]
        first.mul_(2)
        loss = kept.sum()
        assert codes(bs.audit(loss)) == ["BS104"]
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()

    def test_one_tensor_saved_by_several_nodes_is_one_finding(self) -> None:
        weight, x = torch.ones(3, requires_grad=True), torch.ones(3)
        loss = (weight * x).sum() + (weight.sin() * x).sum()
        x.add_(1)
        assert one(bs.audit(loss), "BS104").title.startswith("x was modified in place after MulBackward0")

    def test_a_batch_norm_that_runs_twice_is_in_order(self) -> None:
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        loss = (model(torch.randn(3, 4)) - model(torch.randn(3, 4))).pow(2).mean()
        assert not bs.audit(loss).findings
        loss.backward()

    def test_a_buffer_overwritten_after_it_was_saved(self) -> None:
        class Scaled(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.fc = nn.Linear(4, 4)
                self.register_buffer("scale", torch.ones(4))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                out = self.fc(x) * self.scale
                self.scale.mul_(0.9)
                return out

        model = Scaled()
        loss = model(torch.randn(3, 4)).mean()
        assert one(bs.audit(loss), "BS104").title.startswith("model.scale was modified in place after MulBackward0")

    @pytest.mark.parametrize(("value", "code"), [(1.0, "BS104"), (float("nan"), "BS108")])
    def test_what_saved_it_outside_of_the_modules_is_in_none(self, value: float, code: str) -> None:
        model = mlp()
        with bs.watch():
            hidden = model(torch.randn(3, 4)).exp()
            (hidden.fill_ if code == "BS104" else hidden.data.fill_)(value)
            report = bs.audit(hidden.sum())
        assert one(report, code).evidence[0].startswith("ExpBackward0 saved it as `result`")


class TestFreedGraph:
    def test_a_second_backward(self) -> None:
        model = mlp()
        loss = model(torch.randn(3, 4)).mean()
        loss.backward()
        finding = one(bs.audit(loss), "BS105")
        assert (finding.severity, finding.title) == (
            "error",
            "backward() would go through this graph a second time and raise.",
        )
        assert finding.evidence == (
            "The whole graph lost saved tensors in an earlier backward(); the first one that backward reaches is "
            "AddmmBackward0 (3×1, in 2).",
        )
        assert finding.fix == TWICE_FIX
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()

    def test_a_part_that_another_loss_went_through(self) -> None:
        model = mlp()
        hidden = model[0](torch.randn(3, 4)).tanh()
        hidden.sum().backward()
        loss = model[2](hidden).mean()
        assert one(bs.audit(loss), "BS105").evidence == (
            "2 of the 3 nodes that save tensors lost saved tensors in an earlier backward(); the first one that "
            "backward reaches is TanhBackward0 (3×8).",
        )

    def test_an_operation_outside_of_the_modules_is_in_none(self) -> None:
        model = mlp()
        with bs.watch():
            loss = model(torch.randn(3, 4)).square().sum()
            loss.backward()
            report = bs.audit(loss)
        assert one(report, "BS105").evidence[0].endswith("reaches is PowBackward0 (3×1).")

    def test_a_retained_graph_is_in_order(self) -> None:
        loss = mlp()(torch.randn(3, 4)).mean()
        loss.backward(retain_graph=True)
        assert not bs.audit(loss).findings
        loss.backward()

    def test_operations_that_save_nothing_can_be_gone_through_again(self) -> None:
        weight = torch.ones(3, requires_grad=True)
        loss = (weight + 1).sum()
        loss.backward()
        assert not bs.audit(loss).findings
        loss.backward()

    def test_a_custom_function_that_saves_nothing_can_be_gone_through_again(self) -> None:
        class Twice(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return 2 * x

            @staticmethod
            def backward(ctx, g):
                return 2 * g

        weight = torch.ones(3, requires_grad=True)
        loss = Twice.apply(weight).sum()
        loss.backward()
        assert not bs.audit(loss).findings
        loss.backward()

    def test_a_graph_for_gradients_of_gradients_is_in_order(self) -> None:
        weight = torch.ones(3, requires_grad=True)
        (gradient,) = torch.autograd.grad(weight.exp().sum(), weight, create_graph=True)
        assert not bs.audit(gradient.pow(2).sum()).findings

    def test_a_checkpointed_graph_is_in_order_and_not_recomputed(self) -> None:
        model, calls = mlp(), []
        model.register_forward_hook(lambda *_: calls.append(1))
        loss = checkpoint(model, torch.randn(3, 4), use_reentrant=False).mean()
        assert not bs.audit(loss).findings
        assert len(calls) == 1


class TestNonFinite:
    def test_the_first_of_them_is_named(self) -> None:
        model = mlp()
        scores = model(torch.randn(3, 4)).abs() / torch.zeros(1)
        loss = (scores.exp() * model(torch.randn(3, 4))).mean()
        finding = one(bs.audit(loss), "BS108")
        assert (finding.severity, finding.title) == (
            "warning",
            "A tensor of shape 3×1, saved for backward, holds NaN or infinity.",
        )
        assert finding.evidence == (
            "ExpBackward0 saved it as `result`: the first of 2 such tensors in forward order, so the bad values "
            "arose there or just before.",
        )
        assert finding.fix == ORIGIN_FIX

    def test_what_a_checkpoint_has_packed_may_be_its_origin(self) -> None:
        model, x = mlp(), torch.randn(3, 4)
        scores = checkpoint(lambda x: model(x).abs() / torch.zeros(1), x, use_reentrant=False)
        assert one(bs.audit(scores.exp().mean()), "BS108").evidence == (
            "ExpBackward0 saved it as `result`: the only such tensor, so the bad values arose there or earlier. "
            "(Tensors "
            "packed by a checkpoint or another hook were not inspected.)",
        )

    def test_a_variable_that_holds_it_is_named(self) -> None:
        weight = torch.zeros(3, requires_grad=True)
        inverse = weight.reciprocal()
        assert one(bs.audit((inverse * inverse).clamp(max=1).sum()), "BS108").title == (
            "inverse, saved for backward, holds NaN or infinity."
        )

    def test_a_branch_that_where_did_not_take(self) -> None:
        weight = torch.zeros(3, requires_grad=True)
        loss = torch.where(weight > 0, weight.rsqrt(), weight).sum()
        assert torch.isfinite(loss)
        assert codes(bs.audit(loss)) == ["BS108"]
        loss.backward()
        assert weight.grad is not None
        assert weight.grad.isnan().all()

    def test_weights_that_are_nan_already(self) -> None:
        model = mlp()
        with torch.no_grad():
            model[0].weight[0] = torch.nan
            model[2].bias.fill_(torch.inf)
        finding = one(bs.audit(model(torch.randn(3, 4)).mean()), "BS108")
        assert finding.title == "model.0.weight and 1 more hold NaN or infinity."
        assert finding.evidence == (
            ("They are leaves of this loss: the bad values come from an earlier step or from the initialization."),
        )
        assert finding.fix == (
            "Run it again with `backsight run --nonfinite`: it names the line that produces the first NaN or infinity."
        )

    def test_a_loss_of_nan_from_finite_tensors(self) -> None:
        weight = torch.ones(3, requires_grad=True)
        finding = one(bs.audit(weight.sum() * torch.nan), "BS108")
        assert finding.title == "The loss is NaN or infinite."
        assert finding.evidence == (
            "All saved tensors are finite, so it arose in the last operations, or came in as data.",
        )

    def test_scores_masked_with_minus_infinity_are_in_order(self) -> None:
        model, mask = nn.Linear(4, 5), torch.tensor([False, True, False, False, True])
        logits = model(torch.randn(3, 4)).masked_fill(mask, -torch.inf)
        loss = F.cross_entropy(logits, torch.tensor([0, 2, 3])) + logits.logsumexp(-1).mean()
        assert not bs.audit(loss).findings

    def test_a_row_that_is_masked_entirely_is_not(self) -> None:
        scores = torch.ones(2, 3, requires_grad=True) * 1
        loss = scores.masked_fill(torch.tensor([[True], [False]]), -torch.inf).softmax(-1).sum()
        assert one(bs.audit(loss), "BS108").evidence[0].startswith("SoftmaxBackward0 saved it as `result`")

    def test_values_are_read_on_no_device_that_has_none(self) -> None:
        model = mlp().to("meta")
        assert not of(bs.audit(model(torch.empty(3, 4, device="meta")).mean()), "BS108")

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.complex64, torch.float64])
    def test_whatever_the_dtype(self, dtype: torch.dtype) -> None:
        weight = torch.ones(3, dtype=dtype, requires_grad=True)
        assert not bs.audit((weight * weight).sum()).findings
        assert codes(bs.audit((weight * weight / 0 * weight).sum())) == ["BS108"]


class TestSoftmaxOverTheBatch:
    """BS136, by what the graph has saved alone: no watch, no lines."""

    def pooled(self, dim: int, rows: int = 16) -> torch.Tensor:
        score, out = nn.Linear(8, 1), nn.Linear(8, 3)
        words = torch.randn(rows, 20, 8)
        weights = torch.softmax(score(words).squeeze(-1), dim)
        return F.cross_entropy(out((weights.unsqueeze(-1) * words).sum(1)), torch.zeros(rows, dtype=torch.long))

    def test_weights_of_sums_by_sample_that_compete_across_samples(self) -> None:
        finding = one(bs.audit(self.pooled(0)), "BS136")
        assert (finding.severity, finding.title) == ("warning", "softmax is taken over the 16 samples of the batch.")

    def test_weights_of_each_sample(self) -> None:
        assert "BS136" not in codes(bs.audit(self.pooled(1)))

    def test_a_batch_as_large_as_the_sequence_is_long_tells_nothing(self) -> None:
        assert "BS136" not in codes(bs.audit(self.pooled(0, rows=20)))

    def test_log_probabilities_that_a_loss_takes_by_row(self) -> None:
        logits, target = nn.Linear(4, 3)(torch.randn(8, 4)), torch.zeros(8, dtype=torch.long)
        assert "BS136" in codes(bs.audit(F.nll_loss(F.log_softmax(logits, 0), target)))
        assert "BS136" not in codes(bs.audit(F.nll_loss(F.log_softmax(logits, 1), target)))
        assert "BS136" not in codes(bs.audit(-F.log_softmax(logits @ torch.randn(3, 8), 0).diagonal().mean()))

    def test_the_one_output_of_a_layer(self) -> None:
        finding = one(bs.audit(F.softmax(nn.Linear(4, 1)(torch.randn(8, 4)), 1).square().mean()), "BS136")
        assert finding.title == "softmax is taken over a dimension of size 1: its result does not depend on it."


class TestLossArgument:
    @pytest.mark.parametrize(
        "chosen",
        [
            lambda p: p.gather(-1, torch.tensor([[0], [2], [1], [0]])).squeeze(-1),
            lambda p: p.masked_fill(torch.tensor([True, False, False]), 0.5),
            lambda p: p.masked_select(p > 0),
            lambda p: torch.where(p > 0.5, p, 0.5),
            lambda p: torch.stack(p.unbind(1)).flip(0).roll(1),
            lambda p: p.split(2)[0].repeat(2, 1).diagonal(),
            lambda p: p.max(-1).values,
            lambda p: p.topk(2).values.sort().values,
        ],
    )
    def test_probabilities_that_were_selected_or_rearranged_are_still_probabilities(self, chosen) -> None:
        p = chosen(torch.sigmoid(nn.Linear(4, 3)(torch.randn(4, 4))))
        finding = one(bs.audit(F.binary_cross_entropy_with_logits(p, torch.ones_like(p))), "BS122")
        assert finding.title == "binary_cross_entropy_with_logits expects logits, but gets the output of sigmoid."

    @pytest.mark.parametrize("computed", [torch.logit, lambda p: 8 * p - 4, lambda p: p.sum(-1)])
    def test_what_is_computed_of_probabilities_may_be_logits(self, computed) -> None:
        p = computed(torch.sigmoid(nn.Linear(4, 3)(torch.randn(4, 4))))
        assert not of(bs.audit(F.binary_cross_entropy_with_logits(p, torch.ones_like(p))), "BS122")
