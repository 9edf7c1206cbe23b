"""BS202, BS205 and BS209: what was changed in place, by which statement, and what to write instead."""

from __future__ import annotations

import gc
import io
import runpy
import threading
import weakref
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import torch
from failures import at, evidence, explained, failing
from torch import nn

import backsight as bs

EXAMPLES = Path(__file__).parents[2] / "examples" / "broken"


def of_example(name: str) -> bs.Finding:
    with redirect_stdout(io.StringIO()), pytest.raises(RuntimeError) as caught:
        runpy.run_path(str(next(EXAMPLES.glob(f"{name}*.py"))), run_name="__main__")
    return bs.explain(caught.value)


class TestTheExamples:
    def test_04_a_gate_is_overwritten_after_the_sigmoid_that_made_it(self):
        finding = of_example("04")
        assert finding.code == "BS202"
        assert finding.title == "gates was changed in place after sigmoid had saved it for backward."
        assert finding.source.endswith("04_inplace_saved.py:22")
        assert "in model.0, saves gates: the gradient of sigmoid is computed from its own result." in evidence(finding)
        assert finding.cure == "Change a copy: put gates = gates.clone() before line 22."
        assert not finding.exact
        assert "(Read from the source text: forward has returned, so its variables are gone.)" in finding.evidence

    def test_05_a_shortcut_is_added_to_the_result_of_a_relu(self):
        finding = of_example("05")
        assert finding.title == "out was changed in place after relu had saved it for backward."
        assert finding.source.endswith("05_inplace_residual.py:23")
        assert "05_inplace_residual.py:22  out = F.relu(self.conv2(out))" in evidence(finding)
        assert finding.cure.startswith("Write out = out + shortcut:")

    def test_06_an_optimizer_steps_between_forward_and_backward(self):
        finding = of_example("06")
        assert finding.title == (
            "d_optimizer.step() changed discriminator.2.weight between the forward pass of g_loss and its backward."
        )
        assert finding.source.endswith("06_inplace_optimizer_step.py:28")
        assert "06_inplace_optimizer_step.py:24  g_loss = -discriminator(fake).mean()" in evidence(finding)
        assert finding.cure.startswith("Compute g_loss after d_optimizer.step(), with a new forward pass.")
        assert finding.exact

    def test_10_weights_are_updated_by_hand(self):
        finding = of_example("10")
        assert finding.code == "BS205"
        assert finding.title == "w is a leaf that requires grad, and this statement changes it in place."
        assert finding.source.endswith("10_leaf_inplace.py:24")
        assert "Line 25 would raise the same: b -= lr * b.grad" in finding.evidence
        assert finding.cure.startswith("Do not record the update: `with torch.no_grad(): w -= lr * w.grad`.")
        assert "is no cure: w would be no leaf any more" in finding.cure

    def test_14_one_of_four_views_is_changed(self):
        finding = of_example("14")
        assert finding.code == "BS209"
        assert finding.title == (
            "width is one of several views that unbind made at once, and this statement changes it in place."
        )
        assert finding.source.endswith("14_view_inplace.py:21")
        assert "Line 22 would raise the same: height.exp_()" in finding.evidence
        assert finding.cure == "Write width = width.exp(): that makes a new tensor."


SIGMOID = """
from torch import nn
import torch.nn.functional as F
def train(act=nn.ReLU(inplace=True)):
    x = torch.randn(3, requires_grad=True)
    y = torch.sigmoid(x)
    {change}
    y.sum().backward()
train()
"""

NEW = "that makes a new tensor and leaves the saved one as it was."

# What changes y after sigmoid has saved it, and what to write instead.
CHANGES = {
    "y += 1": f"Write y = y + 1: {NEW}",
    "y *= x.detach()": f"Write y = y * x.detach(): {NEW}",
    "y.neg_()": f"Write y = y.neg(): {NEW}",
    "y.add_(1)": f"Write y = y.add(1): {NEW}",
    "torch.relu_(y)": f"Write y = torch.relu(y): {NEW}",
    "y[0] = 1": "Change a copy: put y = y.clone() before line 6.",
    "y[0] += 1": "Change a copy: put y = y.clone() before line 6.",
    "y.view(-1).zero_()": "Change a copy: put y = y.clone() before line 6.",
    "F.relu(y, inplace=True)": "Leave out inplace=True: F.relu(y)",
    "z = F.relu(y, inplace=True)": "Leave out inplace=True: z = F.relu(y)",
    "nn.ReLU(inplace=True)(y)": "Leave out inplace=True: nn.ReLU()(y)",
    "act(y)": "Make that ReLU without inplace=True.",
}


class TestAChangedResult:
    @pytest.mark.parametrize("change", CHANGES)
    def test_the_statement_that_changed_it_is_named_with_its_cure(self, change):
        finding = explained(SIGMOID.format(change=change))
        assert finding.title == "y was changed in place after sigmoid had saved it for backward."
        assert finding.source == "train.py:6"
        assert finding.cure == CHANGES[change]
        assert finding.exact

    def test_the_saving_statement_comes_first_and_the_backward_last(self):
        finding = explained(
            """
            x = torch.randn(3, requires_grad=True)
            y = torch.exp(x)
            y += 1
            y.sum().backward()
            """
        )
        assert finding.evidence == (
            "train.py:2  y = torch.exp(x)\n    saves y: the gradient of exp is computed from its own result.",
            "train.py:3  y += 1\n    changes y in place.",
            "train.py:4  y.sum().backward()\n"
            "    needs it as it was, but it was changed once since (version 0 then, 1 now).",
        )

    def test_all_statements_are_named_when_there_were_as_many_changes(self):
        finding = explained(
            """
            y = torch.randn(3, requires_grad=True).sigmoid()
            y.mul_(2)
            y += 1
            y[0] = 3
            y.sum().backward()
            """
        )
        assert [text in evidence(finding) for text in ("y.mul_(2)", "y += 1", "y[0] = 3", "3 times")] == [True] * 4
        assert finding.cure == "Change a copy: put y = y.clone() before line 2."
        assert finding.exact

    def test_a_change_through_data_is_not_blamed_for_it_counts_no_version(self):
        source = """
            y = torch.randn(3, requires_grad=True).sigmoid()
            y.data.mul_(2)
            y += 1
            y.sum().backward()
            """
        finding = explained(source)
        assert finding.source == at(source, "y += 1")
        assert "y.data.mul_" not in evidence(finding)

    def test_a_change_of_a_view_names_the_whole(self):
        source = """
            y = torch.randn(3, 3, requires_grad=True).sigmoid()
            first = y[0]
            first.zero_()
            y.sum().backward()
            """
        finding = explained(source)
        assert finding.title == (
            "y was changed in place through first, a view of it, after sigmoid had saved it for backward."
        )
        assert finding.source == at(source, "first.zero_()")
        assert finding.cure == "Change a copy: put y = y.clone() before first is taken from it."

    def test_a_statement_that_ran_before_the_saving_is_not_blamed(self):
        finding = explained(
            """
            x = torch.zeros(3)
            x[0] = 1
            loss = (torch.ones(3, requires_grad=True) * x).sum()
            (lambda t: t.add_(1))(x)
            loss.backward()
            """
        )
        assert finding.title == "x was changed in place after a product had saved it for backward."
        assert "x[0] = 1" not in evidence(finding)
        assert not finding.exact

    def test_a_variable_that_is_still_what_it_was_is_not_blamed_for_want_of_another(self):
        finding = explained(
            """
            def compute(change):
                held = [torch.randn(3, requires_grad=True).sigmoid()]
                change(held[0])
                return held[0].sum()
            other = torch.ones(3).sigmoid()
            loss = compute(lambda t: t.zero_()) + other.sum()
            other += 1
            loss.backward()
            """
        )
        assert "other" not in finding.title
        assert not finding.exact

    def test_an_element_of_a_list_is_called_so(self):
        finding = explained(
            """
            x = torch.randn(3, requires_grad=True)
            outs = [x.sigmoid(), x.tanh()]
            outs[0] += 1
            (outs[0] * outs[1]).sum().backward()
            """
        )
        assert finding.title.startswith("outs[0] was changed in place")
        assert finding.cure == "Put a new tensor in its place: outs[0] = outs[0] + 1."

    def test_a_change_after_the_name_went_to_a_new_tensor_is_not_listed(self):
        source = gated("h = h + x")
        finding = explained(source)
        assert finding.source == at(source, "h *= g")
        assert "h[:, 0] = 0" not in evidence(finding)
        assert finding.cure.startswith("Write h = h * g:")

    @pytest.mark.parametrize("between", ["if x.dim() > 2: h = h + x", "h = h.view(2, 3)", "h = self.act(h)"])
    def test_a_change_after_the_name_may_have_gone_to_a_new_tensor_is_listed(self, between):
        assert "h[:, 0] = 0" in evidence(explained(gated(between)))

    def test_a_variable_that_holds_another_tensor_is_not_blamed(self):
        source = """
            x = torch.randn(3, requires_grad=True)
            other = torch.ones(3)
            y = x.sigmoid() * other.sum()
            other += 1
            z = (x * 2).tanh()
            z.mul_(2)
            (y.sum() + z.sum()).backward()
            """
        assert explained(source).source == at(source, "z.mul_(2)")


def gated(between):
    """A module that changes the result of its tanh, and then, after a statement, what the variable holds then."""
    return f"""
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.gate, self.act = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3), torch.nn.Identity()
    def forward(self, x):
        g = torch.sigmoid(self.gate(x))
        h = torch.tanh(self.fc(x))
        h *= g
        {between}
        h[:, 0] = 0
        return self.fc(h)
block = Block()
block(torch.randn(2, 3)).sum().backward()
"""


class TestAChangedInput:
    def test_the_reason_is_the_operation_s(self):
        source = """
            h = torch.randn(3, requires_grad=True) * 2
            loss = (h ** 2).sum()
            h += 1
            loss.backward()
            """
        finding = explained(source)
        assert finding.title == "h was changed in place after a power had saved it for backward."
        assert finding.source == at(source, "h += 1")
        assert "loss = (h ** 2).sum()\n    saves h: the gradient of a power needs the base." in evidence(finding)

    @pytest.mark.parametrize(("flag", "blamed"), [(True, "a.neg_()"), (False, "b += 1")])
    def test_of_two_statements_the_one_is_blamed_that_runs_the_operation_in_the_message(self, flag, blamed):
        source = f"""
            def compute(x, flag):
                a, b = x * 2, x * 3
                out = (a ** 2).sum() + (b ** 2).sum()
                if flag:
                    a.neg_()
                else:
                    b += 1
                return out
            loss = compute(torch.randn(3, requires_grad=True), {flag})
            loss.backward()
            """
        finding = explained(source)
        assert finding.source == at(source, blamed)

    def test_data_without_a_gradient_written_by_out(self):
        source = """
            scale = torch.ones(3)
            loss = (torch.randn(3, requires_grad=True) * scale).sum()
            torch.add(scale, 1, out=scale)
            loss.backward()
            """
        finding = explained(source)
        assert finding.title == "scale was changed in place after a product had saved it for backward."
        assert finding.source == at(source, "out=scale")
        assert finding.cure == "Write scale = torch.add(scale, 1): that makes a new tensor."

    def test_autograd_grad_is_explained_as_backward_is(self):
        source = """
            x = torch.randn(3, requires_grad=True)
            y = x.sigmoid()
            z = y * y
            y.neg_()
            torch.autograd.grad(z.sum(), x)
            """
        finding = explained(source)
        assert finding.source == at(source, "y.neg_()")
        assert "needs it as it was" in evidence(finding)

    def test_states_written_one_after_the_other_into_one_tensor(self):
        source = """
            def unroll(cell, x, steps=4):
                states = torch.zeros(steps + 1, 3)
                for t in range(steps):
                    states[t + 1] = torch.tanh(states[t] * cell(x))
                return states.sum()
            loss = unroll(torch.nn.Linear(3, 3), torch.randn(3))
            loss.backward()
            """
        finding = explained(source)
        assert finding.title == "states was changed in place after a product had saved it for backward."
        assert finding.source == at(source, "states[t + 1] =")
        assert "saves states, and the next iteration changes it in place" in evidence(finding)
        assert "torch.stack" in finding.cure

    def test_a_running_statistic_is_used_and_updated_in_the_next_call(self):
        source = """
            class Norm(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = torch.nn.Linear(4, 4)
                    self.register_buffer("scale", torch.ones(4))
                def forward(self, x):
                    h = self.fc(x)
                    self.scale.mul_(0.9).add_(h.detach().std(0), alpha=0.1)
                    return h / self.scale
            norm = Norm()
            loss = (norm(torch.randn(3, 4)) + norm(torch.randn(3, 4))).sum()
            loss.backward()
            """
        finding = explained(source)
        assert finding.title == "norm.scale was changed in place after a quotient had saved it for backward."
        assert finding.source == at(source, "self.scale.mul_")
        assert "changes self.scale in place, in a later call." in evidence(finding)
        assert finding.cure.startswith("Compute with a copy, self.scale.clone()")


class TestInFunctionsThatHaveReturned:
    def test_the_forward_of_a_module_inside_of_a_list(self):
        source = """
            from torch import nn
            class Block(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.lin, self.act = nn.Linear(4, 4), nn.ReLU()
                def forward(self, x):
                    y = self.act(self.lin(x))
                    y += x
                    return y
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.blocks = nn.ModuleList([Block() for _ in range(3)])
                    self.head = nn.Linear(4, 1)
                def forward(self, x):
                    for block in self.blocks:
                        x = block(x)
                    return self.head(x)
            net = Net()
            def fit(net):
                net(torch.randn(5, 4)).mean().backward()
            fit(net)
            """
        finding = explained(source)
        assert finding.title == "y was changed in place after relu had saved it for backward."
        assert finding.source == at(source, "y += x")
        assert "in net.blocks.2, saves y:" in evidence(finding)
        assert not finding.exact

    def test_a_function_of_the_user_s_that_computes(self):
        source = """
            def scaled(h):
                s = torch.exp(h)
                s.clamp_(max=2)
                return s
            def step(model, x):
                return scaled(model(x)).mean()
            loss = step(torch.nn.Linear(4, 4), torch.randn(3, 4))
            loss.backward()
            """
        finding = explained(source)
        assert finding.source == at(source, "s.clamp_")
        assert "(Read from the source text: scaled has returned, so its variables are gone.)" in finding.evidence

    def test_a_function_that_is_called_for_its_effect(self):
        source = """
            def close_first(t):
                t[:, 0] = 0
            class Gates(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.lin = torch.nn.Linear(3, 3)
                def forward(self, x):
                    gates = torch.sigmoid(self.lin(x))
                    close_first(gates)
                    return gates
            model = Gates()
            model(torch.randn(2, 3)).sum().backward()
            """
        finding = explained(source)
        assert finding.title == "gates was changed in place after sigmoid had saved it for backward."
        assert finding.source == at(source, "t[:, 0] = 0")
        assert "changes t, which is gates, in place; close_first was called at line 9." in evidence(finding)
        assert finding.cure == "Change a copy: put gates = gates.clone() before line 9."

    def test_a_method_and_an_attribute_that_outlives_it(self):
        source = """
            class Net(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = torch.nn.Linear(4, 4)
                def forward(self, x):
                    self.h = torch.tanh(self.fc(x))
                    out = self.h * 2
                    self.h.mul_(0.5)
                    return out.sum()
            net = Net()
            net(torch.randn(2, 4)).backward()
            """
        finding = explained(source)
        assert finding.title == "net.h was changed in place after tanh had saved it for backward."
        assert finding.source == at(source, "self.h.mul_(0.5)")
        assert finding.cure.startswith("Write self.h = self.h.mul(0.5):")
        assert finding.exact

    def test_a_local_is_not_taken_for_the_global_of_the_same_name(self):
        source = """
            y = torch.ones(3)
            def forward(x):
                y = x.sigmoid()
                y += 1
                return y.sum()
            loss = forward(torch.randn(3, requires_grad=True))
            loss.backward()
            """
        finding = explained(source)
        assert finding.source == at(source, "y += 1")
        assert finding.title.startswith("y was changed in place after sigmoid")


class TestModulesThatWorkInPlace:
    def test_one_that_a_forward_calls(self):
        source = """
            from torch import nn
            class Block(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.lin, self.act = nn.Linear(4, 4), nn.ReLU(inplace=True)
                def forward(self, x):
                    h = torch.sigmoid(self.lin(x))
                    y = self.act(h)
                    return (h * y).sum()
            block = Block()
            block(torch.randn(2, 4)).backward()
            """
        finding = explained(source)
        assert finding.title == "h was changed in place after sigmoid had saved it for backward."
        assert finding.source == at(source, "y = self.act(h)")
        assert "changes h in place: this ReLU was made with inplace=True." in evidence(finding)
        assert finding.cure == "Make that ReLU without inplace=True."

    def test_one_in_a_sequential_where_no_statement_shows_it(self):
        finding = explained(
            """
            from torch import nn
            model = nn.Sequential(nn.Linear(4, 4), nn.Sigmoid(), nn.ReLU(inplace=True), nn.Linear(4, 1))
            loss = model(torch.randn(3, 4)).sum()
            loss.backward()
            """
        )
        assert finding.title == ("model.2, a ReLU made with inplace=True, changed what sigmoid had saved for backward.")
        assert finding.cure == "Make it without inplace=True: nn.ReLU()."

    def test_one_that_writes_over_what_a_branch_needs(self):
        finding = explained(
            """
            from torch import nn
            class Res(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 4))
                def forward(self, x):
                    gate = x ** 2
                    return self.body(x) + gate
            stem, res = nn.Linear(4, 4), Res()
            loss = res(stem(torch.randn(3, 4))).sum()
            loss.backward()
            """
        )
        assert "ReLU made with inplace=True" in str(finding)
        assert "without inplace=True" in finding.cure


GAN = """
from torch import nn
class Trainer:
    def __init__(self):
        self.g, self.d = nn.Linear(2, 2), nn.Linear(2, 1)
        self.g_opt = torch.optim.Adam(self.g.parameters())
        self.d_opt = torch.optim.Adam(self.d.parameters())
    def losses(self, real):
        fake = self.g(torch.randn(4, 2))
        return self.d(fake.detach()).mean() - self.d(real).mean(), -self.d(fake).mean()
    def update_d(self, loss):
        self.d_opt.zero_grad()
        loss.backward()
        self.d_opt.step()
    def step(self, real):
        d_loss, g_loss = self.losses(real)
        self.update_d(d_loss)
        self.g_opt.zero_grad()
        g_loss.backward()
        self.g_opt.step()
trainer = Trainer()
for _ in range(2):
    trainer.step(torch.randn(4, 2))
"""

RNN = """
from torch import nn
cell = nn.RNNCell(3, 3)
optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
hidden = torch.zeros(1, 3)
for x in torch.randn(4, 1, 3):
    hidden = cell(x, hidden)
    loss = hidden.pow(2).sum()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
"""


ACTOR_CRITIC = """
from torch import nn
actor, critic = nn.Linear(4, 1), nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
opt_a, opt_c = torch.optim.Adam(actor.parameters()), torch.optim.Adam(critic.parameters())
s, r = torch.randn(8, 4), torch.randn(8, 1)
policy = actor(s)
advantage = r - critic(s)
opt_c.zero_grad()
advantage.pow(2).mean().backward(retain_graph=True)
opt_c.step()
actor_loss = -(policy * {advantage}).mean()  # uses it
actor_loss.backward()
"""


class TestWeightsThatChanged:
    def test_the_step_stands_in_a_method_that_has_returned(self):
        finding = explained(GAN)
        assert finding.title == (
            "self.d_opt.step() changed self.d.weight between the forward pass of g_loss and its backward."
        )
        assert finding.source == at(GAN, "self.d_opt.step()")
        line = at(GAN, "self.update_d(d_loss)").partition(":")[2]
        assert f"It was called at line {line}: self.update_d(d_loss)" in evidence(finding)
        assert finding.cure.startswith("Compute g_loss after self.d_opt.step()")

    def test_a_critic_that_is_stepped_before_its_actor_is_to_be_detached(self):
        source = ACTOR_CRITIC.format(advantage="advantage")
        line = at(source, "# uses it").partition(":")[2]
        finding = explained(source)
        assert finding.title == (
            "opt_c.step() changed critic.2.weight between the forward pass of actor_loss and its backward."
        )
        assert finding.cure == (
            f"If actor_loss is not to train what opt_c holds, use advantage.detach() in line {line}: then its backward "
            "needs none of those weights. If it is, compute actor_loss after opt_c.step(), with a new forward pass. "
            "(Backward on every loss before the first step would run too, but opt_c then steps by the gradient of "
            "actor_loss as well.)"
        )

    def test_the_cure_with_detach_runs(self):
        source = ACTOR_CRITIC.format(advantage="advantage.detach()")
        exec(source, {"torch": torch})

    def test_nothing_is_to_be_detached_where_the_loss_reaches_the_weights_another_way_too(self):
        source = ACTOR_CRITIC.format(advantage="advantage * critic(s)")
        assert explained(source).cure.startswith("Compute actor_loss after opt_c.step()")
        assert explained(GAN).cure.startswith("Compute g_loss after self.d_opt.step()")

    def test_a_hidden_state_leads_into_an_iteration_before_the_step(self):
        finding = explained(RNN)
        assert finding.title == (
            "hidden leads this backward into an earlier iteration, whose weights optimizer.step() has changed since."
        )
        assert finding.source == at(RNN, "hidden = cell(x, hidden)")
        assert "hidden = hidden.detach()" in finding.cure
        assert not finding.exact

    def test_an_attribute_that_holds_a_pair_of_states(self):
        source = """
            class Trainer:
                def __init__(self):
                    self.rnn = torch.nn.LSTM(3, 4)
                    self.optimizer = torch.optim.SGD(self.rnn.parameters(), lr=0.1)
                    self.hidden = None
                def step(self, x):
                    out, self.hidden = self.rnn(x, self.hidden)
                    loss = out.pow(2).mean()
                    self.optimizer.zero_grad()
                    loss.backward(retain_graph=True)
                    self.optimizer.step()
            trainer = Trainer()
            for _ in range(3):
                trainer.step(torch.randn(2, 5, 3))
            """
        finding = explained(source)
        assert finding.title.startswith("self.hidden leads this backward into an earlier iteration")
        assert finding.source == at(source, "out, self.hidden =")
        assert "self.hidden = tuple(h.detach() for h in self.hidden)" in finding.cure

    def test_the_loop_that_carries_it_is_in_the_caller(self):
        source = """
            cell = torch.nn.RNNCell(3, 3)
            optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
            def update(hidden, x):
                hidden = cell(x, hidden)
                optimizer.zero_grad()
                hidden.sum().backward(retain_graph=True)
                optimizer.step()
                return hidden
            h = torch.zeros(1, 3)
            for x in torch.randn(4, 1, 3):
                h = update(h, x)
            """
        finding = explained(source)
        assert finding.title.startswith("h leads this backward into an earlier iteration")
        assert finding.source == at(source, "h = update(h, x)")
        assert "h = h.detach()" in finding.cure

    def test_a_running_watch_makes_that_exact(self):
        with bs.watch():
            finding = explained(RNN)
        assert "was made before the last optimizer step, as the running watch has noted." in evidence(finding)
        assert finding.exact

    def test_a_manual_update_before_backward(self):
        source = """
            w = torch.randn(3, requires_grad=True)
            for step in range(3):
                loss = (w ** 3).sum()
                with torch.no_grad():
                    w -= 0.1
                loss.backward()
            """
        finding = explained(source)
        assert finding.title == "w was changed in place after a power had saved it for backward."
        assert finding.source == at(source, "w -= 0.1")
        assert finding.cure == "Move line 5 below every backward() that needs w as it was."

    def test_weights_clipped_in_a_loop_over_the_parameters(self):
        source = """
            from torch import nn
            g, d = nn.Linear(2, 2), nn.Linear(2, 1)
            loss = -d(g(torch.randn(4, 2))).mean()
            with torch.no_grad():
                for p in d.parameters():
                    p.clamp_(-0.01, 0.01)
            loss.backward()
            """
        finding = explained(source)
        assert finding.title == "d.weight was changed in place after a matrix product had saved it for backward."
        assert finding.source == at(source, "p.clamp_")
        assert "changes p, which runs over the parameters, in place." in evidence(finding)

    def test_a_moving_average_updated_by_a_function(self):
        source = """
            from torch import nn
            net, ema = nn.Linear(2, 2), nn.Linear(2, 2)
            x = torch.randn(4, 2)
            target = ema(net(x))
            def update():
                with torch.no_grad():
                    for p, q in zip(ema.parameters(), net.parameters()):
                        p.lerp_(q, 0.1)
            update()
            loss = ((net(x) - target) ** 2).mean()
            loss.backward()
            """
        finding = explained(source)
        assert finding.title.startswith("ema.weight was changed in place")
        assert finding.source == at(source, "p.lerp_(q, 0.1)")
        assert finding.cure.startswith("Move line 9 below every backward()")
        assert "under torch.no_grad()" in finding.cure


class TestWhereLittleIsLeft:
    CODE = """
        def main():
            x = torch.randn(3, requires_grad=True)
            y = x.sigmoid()
            y[0] = 1
            y.sum().backward()
        main()
        """

    def test_without_source_the_variable_is_named_still(self):
        finding = bs.explain(failing(self.CODE, readable=False))
        assert finding.title == "y was changed in place after sigmoid had saved it for backward."
        assert "Which statement changed it could not be found out after the fact." in finding.evidence
        assert not finding.exact

    def test_without_traceback_the_message_is_read(self):
        error = failing(self.CODE).with_traceback(None)
        finding = bs.explain(error)
        assert finding.code == "BS202"
        assert finding.title == (
            "A tensor of shape 3 that backward needs was changed in place after the forward pass had saved it."
        )
        assert "It was saved at version 0 and is at version 1 now." in finding.evidence
        assert "Sigmoid made it, or changed it last." in finding.evidence

    def test_in_a_thread_that_has_ended(self):
        caught = []
        thread = threading.Thread(target=lambda: caught.append(failing(self.CODE)))
        thread.start()
        thread.join()
        assert bs.explain(caught[0]).source == at(self.CODE, "y[0] = 1")

    def test_what_no_text_shows_is_not_guessed(self):
        finding = explained(
            """
            def compute(change):
                held = [torch.randn(3, requires_grad=True).sigmoid()]
                change(held[0])
                return held[0].sum()
            compute(lambda t: t.zero_()).backward()
            """
        )
        assert finding.title == "A tensor of shape 3 was changed in place after sigmoid had saved it for backward."
        assert not finding.exact


class Hostile(nn.Module):
    def __getattr__(self, name):
        raise ValueError("asked")

    def __repr__(self):
        raise ValueError("asked")

    __eq__ = __bool__ = __len__ = __hash__ = __repr__  # type: ignore[assignment]


class HostileTensor(torch.Tensor):
    @property
    def shape(self):
        raise ValueError("asked")

    def __repr__(self):
        raise ValueError("asked")

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        raise ValueError("asked")


PROGRAMS = {
    "BS202": "x = torch.randn(3, requires_grad=True)\ny = x.sigmoid()\ny += 1\ny.sum().backward()\n",
    "BS205": "w = torch.randn(3, requires_grad=True)\nw += 1\n",
    "BS209": "a, b = (torch.randn(4, requires_grad=True) * 2).chunk(2)\na += b\n",
}


class TestSafety:
    @pytest.mark.parametrize("code", PROGRAMS)
    def test_hostile_objects_beside_the_failure_are_not_asked(self, code):
        lines = ["def main(hostile, other):", "    mine = [hostile, other]"]
        lines += [f"    {line}" for line in PROGRAMS[code].splitlines()]
        source = "\n".join([*lines, "main(hostile, other)"])
        other = torch.ones(3).as_subclass(HostileTensor)
        finding = explained(source, hostile=object.__new__(Hostile), other=other)
        assert finding.code == code
        assert "could not look closer" not in str(finding)

    def test_what_a_model_overrides_is_not_run(self):
        source = """
            class Guarded(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = torch.nn.Linear(2, 2)
                def forward(self, x):
                    h = self.fc(x).sigmoid()
                    h += 1
                    return h
                def named_modules(self, *args, **kwargs):
                    raise ValueError("asked")
                modules = children = parameters = named_parameters = named_modules
            model = Guarded()
            model(torch.randn(3, 2)).sum().backward()
            """
        finding = explained(source)
        assert finding.source == at(source, "h += 1")

    @pytest.mark.parametrize("code", PROGRAMS)
    def test_nothing_is_kept_alive(self, code):
        error = failing(PROGRAMS[code])
        trace = error.__traceback__
        while trace.tb_next:
            trace = trace.tb_next
        frame = failing(PROGRAMS[code]).__traceback__.tb_next.tb_frame
        tensors = [weakref.ref(value) for value in frame.f_globals.values() if isinstance(value, torch.Tensor)]
        del frame, trace
        finding = bs.explain(error)
        error.__traceback__ = None
        del error
        gc.collect()
        assert finding.code == code
        assert tensors
        assert all(ref() is None for ref in tensors)
