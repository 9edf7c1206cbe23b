"""BS202, BS205 and BS209: what was modified in place, by which statement, and what to write instead."""

from __future__ import annotations

import textwrap
import threading

import pytest
import torch
from failures import at, evidence, explained, failing, of_example

import backsight as bs


class TestTheExamples:
    def test_04_a_gate_is_overwritten_after_the_sigmoid_that_made_it(self):
        finding = of_example("04")
        assert finding.code == "BS202"
        assert finding.title == "gates was modified in place after sigmoid had saved it for backward."
        assert finding.source.endswith("04_inplace_saved.py:22")
        assert "in model.0, saves gates: the gradient of sigmoid is computed from its result." in evidence(finding)
        assert finding.fix == "Modify a copy: put gates = gates.clone() before line 22."
        assert not finding.exact
        assert [each.certainty for each in finding.evidence] == ["read", "read", "held"]

    def test_05_a_shortcut_is_added_to_the_result_of_a_relu(self):
        finding = of_example("05")
        assert finding.title == "out was modified in place after relu had saved it for backward."
        assert finding.source.endswith("05_inplace_residual.py:23")
        assert "05_inplace_residual.py:22  out = F.relu(self.conv2(out))" in evidence(finding)
        assert finding.fix.startswith("Write out = out + shortcut:")

    def test_06_an_optimizer_steps_between_forward_and_backward(self):
        finding = of_example("06")
        assert finding.title == (
            "d_optimizer.step() changed discriminator.2.weight between the forward pass of g_loss and its backward."
        )
        assert finding.source.endswith("06_inplace_optimizer_step.py:28")
        assert "06_inplace_optimizer_step.py:24  g_loss = -discriminator(fake).mean()" in evidence(finding)
        assert finding.fix.startswith(
            "Compute g_loss after d_optimizer.step(), with a new forward pass: run line 24 again below line 28."
        )
        assert finding.exact

    def test_10_weights_are_updated_by_hand(self):
        finding = of_example("10")
        assert finding.code == "BS205"
        assert finding.title == "w is a leaf that requires grad, and this statement modifies it in place."
        assert finding.source.endswith("10_leaf_inplace.py:24")
        assert "Line 25 would raise the same error: b -= lr * b.grad" in finding.evidence
        assert finding.fix.startswith("Update without recording: `with torch.no_grad(): w -= lr * w.grad`.")
        assert "won't help: w would no longer be a leaf" in finding.fix

    def test_14_one_of_four_views_is_changed(self):
        finding = of_example("14")
        assert finding.code == "BS209"
        assert finding.title == (
            "width is one of several views that unbind returned together, and this statement modifies it in place."
        )
        assert finding.source.endswith("14_view_inplace.py:21")
        assert "Line 22 would raise the same error: height.exp_()" in finding.evidence
        assert finding.fix == "Write width = width.exp(): that creates a new tensor. Line 22 needs the same."


class TestAChangedInput:
    def test_the_reason_is_the_operation_s(self):
        source = """
            h = torch.randn(3, requires_grad=True) * 2
            loss = (h ** 2).sum()
            h += 1
            loss.backward()
            """
        finding = explained(source)
        assert finding.title == "h was modified in place after a power had saved it for backward."
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

    @pytest.mark.parametrize("change", ["cov -= gain @ cov", "cov.sub_(gain @ cov)"])
    @pytest.mark.parametrize("loop", ["if True:", "for _ in range(2):"])
    def test_one_statement_saves_and_then_modifies(self, change, loop):
        finding = explained(f"""
            gain = torch.ones(2, 2, requires_grad=True)
            {loop}
                cov = gain * 2
                {change}
            cov.sum().backward()
            """)
        assert finding.title == "cov was modified in place after a matrix product had saved it for backward."
        assert (
            f"{change}\n    computes `gain @ cov`, which saves cov, and then modifies cov in place: the gradient of a "
            "matrix product needs both factors."
        ) in evidence(finding)

    def test_one_statement_modifies_and_then_saves(self):
        finding = explained("""
            h, total = torch.ones(3, requires_grad=True) * 2, 0
            for _ in range(2):
                total = total + torch.sin(h.add_(1)).sum()
            total.backward()
            """)
        assert "saves h, and the next iteration modifies it in place" in evidence(finding)

    def test_data_without_a_gradient_written_by_out(self):
        source = """
            scale = torch.ones(3)
            loss = (torch.randn(3, requires_grad=True) * scale).sum()
            torch.add(scale, 1, out=scale)
            loss.backward()
            """
        finding = explained(source)
        assert finding.title == "scale was modified in place after a product had saved it for backward."
        assert finding.source == at(source, "out=scale")
        assert finding.fix == "Write scale = torch.add(scale, 1): that creates a new tensor."

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
        assert "needs the original value" in evidence(finding)

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
        assert finding.title == "states was modified in place after a product had saved it for backward."
        assert finding.source == at(source, "states[t + 1] =")
        assert "saves a part of states, then writes into states" in evidence(finding)
        assert "torch.stack" in finding.fix

    @pytest.mark.parametrize("index", ["spikes.bool()", "memory > 0.5", ":, 0", "0", ":t", "order[t]", "3 - t"])
    def test_a_state_that_is_reset_in_part_is_copied_and_no_list_is_made_of_it(self, index):
        source = f"""
            cell, memory, order = torch.nn.Linear(4, 4), torch.zeros(4, 4), torch.tensor([2, 0, 1])
            loss = 0
            for t in range(3):
                memory = torch.sigmoid(cell(memory))
                spikes = (memory > 0.5).float()
                memory[{index}] = 0.0
                loss = loss + memory.sum()
            loss.backward()
            """
        finding = explained(source)
        reset = f"memory[{index}] = 0.0"
        line = int(at(source, reset).rpartition(":")[2])
        assert finding.fix == f"Modify a copy: put memory = memory.clone() before line {line}."
        exec(textwrap.dedent(source.replace(reset, f"memory = memory.clone(); {reset}")), {"torch": torch})

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
        assert finding.title == "norm.scale was modified in place after a quotient had saved it for backward."
        assert finding.source == at(source, "self.scale.mul_")
        assert "modifies self.scale in place, in a later call." in evidence(finding)
        assert "may change: write `return h / self.scale.clone()` on line 9." in finding.fix


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
        assert finding.title == "y was modified in place after relu had saved it for backward."
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
        assert [each.certainty for each in finding.evidence] == ["read", "read", "held"]

    @pytest.mark.parametrize(
        "made",
        [
            "def energy_of(f):\n    def energy(k):\n        return (f * f * k).sum()  # saved\n    return energy\n"
            "energy = energy_of(h)",
            "energy_of = lambda f: lambda k: (f * f * k).sum()  # saved\nenergy = energy_of(h)",
            "import functools\ndef energy_of(f, k):\n    return (f * f * k).sum()  # saved\n"
            "energy = functools.partial(energy_of, h)",
            "def energy(k):\n    return inner(h, k)\ndef inner(f, k):\n    return (f * f * k).sum()  # saved",
        ],
    )
    def test_a_function_that_was_returned_and_called_later_saved_it(self, made):
        source = """
from torch import nn
layer = nn.Linear(3, 3)
for step in range(2):
    h = layer(torch.ones(2, 3))
    MADE
    loss = energy(1.0) if step else h.sum()
    h.mul_(0.9)  # here
    loss.backward()
"""
        source = source.replace("    MADE\n", "".join(f"    {line}\n" for line in made.splitlines()))
        finding = explained(source)
        assert finding.source == at(source)
        assert f"{at(source, '# saved')}  " in evidence(finding)
        assert "no longer known" not in evidence(finding)

    def test_a_function_that_was_called_made_the_result(self):
        source = """
from torch import nn
def squashed(x):
    return torch.sigmoid(layer(x))  # saved
layer = nn.Linear(3, 3)
gate = squashed(torch.ones(2, 3))
gate *= 2  # here
gate.sum().backward()
"""
        finding = explained(source)
        assert finding.source == at(source)
        assert f"{at(source, '# saved')}  " in evidence(finding)

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
        assert finding.title == "gates was modified in place after sigmoid had saved it for backward."
        assert finding.source == at(source, "t[:, 0] = 0")
        assert "modifies t, which is gates, in place; close_first was called at line 9." in evidence(finding)
        assert finding.fix == "Modify a copy: put gates = gates.clone() before line 9."

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
        assert finding.title == "net.h was modified in place after tanh had saved it for backward."
        assert finding.source == at(source, "self.h.mul_(0.5)")
        assert finding.fix.startswith("Write self.h = self.h.mul(0.5):")
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
        assert finding.title.startswith("y was modified in place after sigmoid")


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
        assert finding.title == "h was modified in place after sigmoid had saved it for backward."
        assert finding.source == at(source, "y = self.act(h)")
        assert "modifies h in place: this ReLU was created with inplace=True." in evidence(finding)
        assert finding.fix == "Create that ReLU without inplace=True: train.py:5, nn.ReLU(inplace=True)."

    def test_one_in_a_sequential_where_no_statement_shows_it(self):
        finding = explained(
            """
            from torch import nn
            model = nn.Sequential(nn.Linear(4, 4), nn.Sigmoid(), nn.ReLU(inplace=True), nn.Linear(4, 1))
            loss = model(torch.randn(3, 4)).sum()
            loss.backward()
            """
        )
        assert finding.title == (
            "model.2, a ReLU created with inplace=True, changed what sigmoid had saved for backward."
        )
        assert finding.fix == "Create that ReLU without inplace=True: train.py:2, nn.ReLU(inplace=True)."

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
        assert "ReLU created with inplace=True" in str(finding)
        assert "without inplace=True" in finding.fix


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
        assert finding.title == "y was modified in place after sigmoid had saved it for backward."
        assert (
            "Where it was saved and modified is no longer known: `backsight run` would have seen it."
            in finding.evidence
        )
        assert not finding.exact

    def test_without_traceback_the_message_is_read(self):
        error = failing(self.CODE).with_traceback(None)
        finding = bs.explain(error)
        assert finding.code == "BS202"
        assert finding.title == (
            "A tensor of shape 3 that backward needs was modified in place after the forward pass saved it."
        )
        assert "It was saved at version 0 and is at version 1 now." in finding.evidence
        assert "sigmoid created it, or modified it last." in finding.evidence

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
        assert finding.title == "A tensor of shape 3 was modified in place after sigmoid had saved it for backward."
        assert not finding.exact
