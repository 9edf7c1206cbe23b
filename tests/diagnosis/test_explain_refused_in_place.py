"""BS205 and BS209: in-place changes that autograd refuses at once, of leaves and of views."""

from __future__ import annotations

import pytest
import torch
from failures import at, evidence, explained, failing

import backsight as bs

NO_FIX = "won't help: p would no longer be a leaf, and its .grad would stay None.)"

# How people update a weight, and how the fix for each ends.
UPDATES = {
    "p -= 0.1 * p.grad": f"(p = p - (0.1 * p.grad) {NO_FIX}",
    "p.sub_(p.grad)": f"(p = p.sub(p.grad) {NO_FIX}",
    "p.add_(p.grad, alpha=-0.1)": "Or let an optimizer do it.",
    "p[:] = p - p.grad": "Or let an optimizer do it.",
}


# How people move a target network or an average of the weights.
AVERAGES = [
    "tp.mul_(0.99).add_(p, alpha=0.01)",
    "tp.lerp_(p, 0.01)",
    "tp.copy_(p)",
    "tp.copy_(0.99 * tp + 0.01 * p)",
    "tp *= 0.99",
]


class TestLeaves:
    @pytest.mark.parametrize("update", UPDATES)
    def test_an_update_belongs_under_no_grad(self, update):
        source = f"""
            model = torch.nn.Linear(2, 2)
            model(torch.randn(3, 2)).sum().backward()
            for p in model.parameters():
                {update}
            """
        finding = explained(source)
        assert finding.code == "BS205"
        assert finding.title == "model.weight is a leaf that requires grad, and this statement modifies it in place."
        assert finding.source == at(source, update)
        assert "updates p with its gradient." in evidence(finding)
        assert finding.fix.startswith(f"Update without recording: `with torch.no_grad(): {update}`.")
        assert finding.fix.endswith(UPDATES[update])
        assert finding.exact

    @pytest.mark.parametrize("update", AVERAGES)
    def test_an_average_of_weights_belongs_under_no_grad(self, update):
        source = f"""
            net, target = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
            for p, tp in zip(net.parameters(), target.parameters()):  # loop
                {update}
            """
        finding = explained(source)
        assert finding.title == "target.weight is a leaf that requires grad, and this statement modifies it in place."
        line = at(source, "# loop").partition(":")[2]
        assert finding.fix == (
            f"Update without recording: put the loop on line {line} inside `with torch.no_grad():`. "
            "A clone won't help: target.weight itself would never change."
        )

    @pytest.mark.parametrize("update", ["copy_(net.weight)", "mul_(0.99).add_(net.weight, alpha=0.01)"])
    def test_an_average_of_one_weight_needs_no_loop_to_be_known(self, update):
        finding = explained(
            f"""
            net, target = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
            target.weight.{update}
            """
        )
        assert finding.fix.startswith("Update without recording: put line 2 inside `with torch.no_grad():`.")

    def test_a_weight_scaled_by_another_is_a_part_of_the_computation(self):
        finding = explained(
            """
            net = torch.nn.Linear(2, 2)
            net.weight.mul_(net.bias)
            """
        )
        assert "as part of the computation" in evidence(finding)
        assert finding.fix.startswith("Create a new tensor: on line 2, write `new_weight = net.weight.mul(net.bias)`.")

    def test_an_update_is_known_by_what_its_step_was_computed_from(self):
        finding = explained(
            """
            w = torch.randn(3, requires_grad=True)
            (w ** 2).sum().backward()
            step = 0.1 * w.grad
            w.sub_(step)
            """
        )
        assert "updates w with its gradient." in evidence(finding)

    def test_the_element_of_a_list_is_the_one_that_the_statement_names(self):
        finding = explained(
            """
            params = [torch.randn(2, requires_grad=True), torch.randn(2, requires_grad=True)]
            (params[0] * params[1]).sum().backward()
            k = 1
            params[k] -= params[k].grad
            """
        )
        assert finding.title.startswith("params[1] is a leaf")
        assert "updates params[k] with its gradient." in evidence(finding)

    def test_an_optimizer_written_by_hand(self):
        source = """
            class Descent:
                def __init__(self, params):
                    self.params = list(params)
                def step(self):
                    for p in self.params:
                        p.add_(p.grad, alpha=-0.1)
            model = torch.nn.Linear(2, 1)
            model(torch.randn(1, 2)).sum().backward()
            Descent(model.parameters()).step()
            """
        finding = explained(source)
        assert finding.title.startswith("model.weight is a leaf")
        assert finding.source == at(source, "p.add_(")

    def test_lines_already_under_no_grad_are_not_announced_as_the_next_to_fail(self):
        finding = explained(
            """
            a, b, c = (torch.ones(2, requires_grad=True) for _ in range(3))
            (a * b * c).sum().backward()
            a -= a.grad
            b -= b.grad
            with torch.no_grad():
                c -= c.grad
            """
        )
        assert "Line 4 would raise the same error: b -= b.grad" in finding.evidence
        assert "c.grad" not in evidence(finding)

    def test_a_parameter_is_given_its_first_values(self):
        source = """
            class Scaled(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.scale = torch.nn.Parameter(torch.ones(3))
                    self.scale.mul_(0.1)
            Scaled()
            """
        finding = explained(source)
        assert finding.title == "self.scale is a leaf that requires grad, and this statement modifies it in place."
        assert "self.scale = torch.nn.Parameter(torch.ones(3))\n    creates self.scale, a leaf" in evidence(finding)
        assert finding.fix == "Put line 5 inside `with torch.no_grad():`, as the functions of torch.nn.init do."

    def test_a_tensor_is_filled_after_it_was_told_to_require_grad(self):
        source = """
            table = torch.zeros(3, requires_grad=True)
            for i in range(3):
                table[i] = i / 2
            """
        finding = explained(source)
        assert finding.source == at(source, "table[i] =")
        assert finding.fix.startswith("Fill table first and call table.requires_grad_() afterwards,")

    def test_a_part_of_the_computation_is_written_into_a_leaf(self):
        source = """
            def embed(model):
                x = torch.zeros(3, 4, requires_grad=True)
                x[:, 0] = model(torch.randn(3, 2)).squeeze()
                return x
            embed(torch.nn.Linear(2, 1))
            """
        finding = explained(source)
        assert finding.source == at(source, "x[:, 0] =")
        assert finding.fix == (
            "Modify a copy: put new_x = x.clone() before line 3, and use new_x instead of x on lines 3 and 4. x stays "
            "the leaf and keeps its gradient."
        )

    def test_a_view_of_a_leaf(self):
        finding = explained("w = torch.randn(3, 3, requires_grad=True)\nrow = w[0]\nrow *= 2\n")
        assert finding.title == "w is a leaf that requires grad, and this statement modifies part of it in place."
        assert "modifies row, a view of w, in place" in evidence(finding)
        assert finding.fix.startswith("Create a new tensor: on line 3, write `new_row = row * 2`.")

    def test_a_module_that_works_in_place_is_given_a_leaf(self):
        source = """
            from torch import nn
            model = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(3, 1))
            image = torch.randn(2, 3, requires_grad=True)
            model(image)
            """
        finding = explained(source)
        assert finding.title.startswith("image is a leaf")
        assert finding.source == at(source, "model(image)")
        assert "hands image to a ReLU created with inplace=True." in evidence(finding)
        assert finding.fix == "Pass a copy, image.clone(), or make that ReLU without inplace=True."

    def test_a_custom_function_marks_a_leaf_as_dirty(self):
        finding = explained(
            """
            class AddOne(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    ctx.mark_dirty(x)
                    return x.add_(1)
            weight = torch.randn(3, requires_grad=True)
            AddOne.apply(weight)
            """
        )
        assert finding.title.startswith("weight is a leaf")
        assert finding.fix.startswith("Pass a copy, weight.clone(),")

    def test_without_source_nothing_is_guessed(self):
        finding = bs.explain(failing("w = torch.ones(3, requires_grad=True)\nw += 1\n", readable=False))
        assert finding.title == "A leaf that requires grad was modified in place while autograd was recording."
        assert finding.source == "train.py:2"
        assert not finding.exact


VIEWS = """
from torch import nn
import torch.nn.functional as F
def gated(act=nn.ReLU(inplace=True)):
    h = nn.Linear(4, 4)(torch.randn(2, 4))
    a, b = h.chunk(2, dim=1)
    {change}
gated()
"""

CHANGES = {
    "a *= torch.sigmoid(b)": "Write a = a * torch.sigmoid(b): that creates a new tensor.",
    "a.exp_()": "Write a = a.exp(): that creates a new tensor.",
    "a[0] = 0": "Modify a copy: a = a.clone() just before.",
    "F.relu(a, inplace=True)": "Remove inplace=True: F.relu(a)",
    "act(a)": "Create that ReLU without inplace=True, or pass it a copy: a.clone().",
}


class TestOneOfSeveralViews:
    @pytest.mark.parametrize("change", CHANGES)
    def test_the_view_its_maker_and_the_fix(self, change):
        source = VIEWS.format(change=change)
        finding = explained(source)
        assert finding.code == "BS209"
        assert "is one of several views that" in finding.title
        assert finding.title.startswith("a ")
        assert finding.source == at(source, change)
        assert finding.fix == CHANGES[change]
        assert finding.exact

    def test_the_call_is_named_as_the_text_has_it(self):
        finding = explained(VIEWS.format(change="a += 1"))
        assert finding.title == (
            "a is one of several views that chunk returned together, and this statement modifies it in place."
        )
        assert "a, b = h.chunk(2, dim=1)\n    creates a, one of several views of the same tensor." in evidence(finding)

    def test_a_part_that_is_not_unpacked(self):
        finding = explained(
            """
            h = torch.nn.Linear(4, 4)(torch.randn(2, 4))
            parts = h.split(2, dim=1)
            parts[1].relu_()
            """
        )
        assert finding.title.startswith("parts[1] is one of several views that split returned together")
        assert finding.fix == "Use parts[1].relu() instead: that creates a new tensor."

    def test_a_view_without_a_name_has_none_in_the_fix(self):
        finding = explained(
            """
            x = torch.randn(4, 4, requires_grad=True) * 2
            list(map(torch.Tensor.exp_, x.unbind(1)))
            """
        )
        assert finding.title.startswith("the tensor is one of several views that unbind returned together")
        assert finding.fix == "Modify a copy of it, created with .clone() just before."

    def test_the_rows_that_a_loop_goes_through(self):
        source = """
            x = torch.randn(4, 4, requires_grad=True) * 2
            for row in x:
                row += 1
            """
        finding = explained(source)
        assert finding.title == (
            "row is one of the views that the loop takes from x, and this statement modifies it in place."
        )
        assert finding.source == at(source, "row += 1")
        assert "Assigning to row does not write into it." in finding.fix

    def test_the_whole_was_changed_and_the_view_is_used_after_that(self):
        source = """
            def f():
                x = torch.nn.Linear(4, 4)(torch.randn(2, 4))
                a, b = x.chunk(2, dim=1)
                x += 1
                return (a * b).sum()
            f()
            """
        finding = explained(source)
        assert finding.code == "BS209"
        assert finding.title == "a is one of several views of x, which was modified in place after they were created."
        assert finding.source == at(source, "x += 1")
        assert finding.fix == (
            "Take the views after the change: move line 4, `x += 1`, above line 3; or write x = x + 1, which leaves "
            "them unchanged."
        )


class TestViewsMadeWithoutHistory:
    def test_under_no_grad(self):
        source = """
            encoder, bias = torch.nn.Linear(4, 4), torch.nn.Parameter(torch.zeros(2))
            def f(x):
                with torch.no_grad():
                    features = encoder(x)[:, :2]
                features += bias
            f(torch.randn(3, 4))
            """
        finding = explained(source)
        assert finding.title.startswith(
            "features is a view created under torch.no_grad(), but this statement modifies it"
        )
        assert finding.source == at(source, "features += bias")
        assert "makes features as a view inside the block at line 3." in evidence(finding)
        assert "write features = features + bias, which creates a new tensor." in finding.fix

    def test_by_a_function_that_runs_under_no_grad(self):
        source = """
            bias = torch.nn.Parameter(torch.zeros(4))
            @torch.no_grad()
            def encode(x):
                return x.view(-1, 4)
            h = encode(torch.randn(12))
            h.add_(bias)
            """
        finding = explained(source)
        assert "h = encode(torch.randn(12))\n    makes h as a view under torch.no_grad()." in evidence(finding)
        assert "write h = h.add(bias)" in finding.fix

    def test_under_inference_mode(self):
        finding = explained(
            """
            bias, x = torch.nn.Parameter(torch.zeros(4)), torch.randn(12)
            with torch.inference_mode():
                v = x.view(-1, 4)
            v += bias
            """
        )
        assert finding.title.startswith("v is a view created under torch.inference_mode()")

    def test_of_a_weight(self):
        finding = explained(
            """
            w = torch.randn(4, 4, requires_grad=True)
            with torch.no_grad():
                flat = w.view(-1)
            flat.zero_()
            """
        )
        assert finding.fix == "Put the change under torch.no_grad() too: flat shares memory with w, a leaf."


def test_a_message_without_traceback_is_explained_too():
    error = failing(VIEWS.format(change="a += 1")).with_traceback(None)
    finding = bs.explain(error)
    assert finding.title == "A view made by split was modified in place, which autograd cannot follow."
    assert not finding.exact


@pytest.mark.parametrize("view", ["a", "b"])
def test_asking_for_the_history_of_a_lost_view_is_what_raises(view):
    """The reason why these explanations are careful with such views."""
    x = torch.randn(4, requires_grad=True) * 2
    views = dict(zip("ab", x.chunk(2), strict=True))
    x += 1
    with pytest.raises(RuntimeError, match="its base or another view of its base has been modified inplace"):
        views[view].grad_fn


def test_a_new_tensor_under_a_condition_has_its_value_where_the_condition_does_not_hold():
    finding = explained(
        """
class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(3))
    def forward(self, x):
        if self.training:
            self.scale *= 1 + 0.1 * torch.rand(3)  # here
        return x * self.scale
Scaled()(torch.ones(2, 3)).sum().backward()
"""
    )
    assert finding.code == "BS205"
    assert finding.fix.startswith(
        "Create a new tensor: put new_scale = self.scale above line 6, write new_scale = self.scale * (1 + 0.1 * "
        "torch.rand(3)) on line 7, and use new_scale instead of self.scale on line 8."
    )
