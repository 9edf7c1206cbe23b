"""BS202: weights were changed between the forward pass and its backward, by an optimizer or by hand."""

from __future__ import annotations

import pytest
import torch
from failures import at, evidence, explained

import backsight as bs

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
        assert finding.fix.startswith("Compute g_loss after self.d_opt.step()")

    def test_a_critic_that_is_stepped_before_its_actor_is_to_be_detached(self):
        source = ACTOR_CRITIC.format(advantage="advantage")
        line = at(source, "# uses it").partition(":")[2]
        finding = explained(source)
        assert finding.title == (
            "opt_c.step() changed critic.2.weight between the forward pass of actor_loss and its backward."
        )
        assert finding.fix == (
            f"If actor_loss should not train the parameters of opt_c, use advantage.detach() on line {line}: its "
            "backward then needs none of those weights. If it should, compute actor_loss after opt_c.step(), with a "
            "new forward pass: run line 6 again below line 9. "
            "(Running backward on every loss before the first step also avoids the error, but then opt_c also steps "
            "along the gradient of actor_loss.)"
        )

    def test_the_fix_with_detach_runs(self):
        source = ACTOR_CRITIC.format(advantage="advantage.detach()")
        exec(source, {"torch": torch})

    def test_nothing_is_to_be_detached_where_the_loss_reaches_the_weights_another_way_too(self):
        source = ACTOR_CRITIC.format(advantage="advantage * critic(s)")
        assert explained(source).fix.startswith("Compute actor_loss after opt_c.step()")
        assert explained(GAN).fix.startswith("Compute g_loss after self.d_opt.step()")

    def test_a_hidden_state_leads_into_an_iteration_before_the_step(self):
        finding = explained(RNN)
        assert finding.title == (
            "hidden leads this backward into an earlier iteration, whose weights optimizer.step() has since modified."
        )
        assert finding.source == at(RNN, "hidden = cell(x, hidden)")
        assert "hidden = hidden.detach()" in finding.fix
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
        assert "self.hidden = tuple(h.detach() for h in self.hidden)" in finding.fix

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
        assert "h = h.detach()" in finding.fix

    @pytest.mark.parametrize("level", ["calls", "exact"])
    def test_an_attribute_that_only_methods_which_have_returned_read_and_assign(self, level):
        source = """
            class Filter(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.mix = torch.nn.Linear(6, 3)
                    self.memory = torch.zeros(3)
                def forward(self, x):
                    before = self.memory
                    after = torch.tanh(self.mix(torch.cat([x, before])))
                    self.memory = after
                    return after.square().mean()
            smooth = Filter()
            adam = torch.optim.Adam(smooth.parameters())
            for x in torch.randn(4, 3):
                cost = smooth(x)
                adam.zero_grad()
                cost.backward(retain_graph=True)
                adam.step()
            """
        with bs.watch(level=level):
            finding = explained(source)
        assert finding.title == (
            "smooth.memory leads this backward into an earlier iteration, whose weights adam.step() has since modified."
        )
        assert finding.source == at(source, "self.memory = after")
        assert f"{finding.source}  self.memory = after\n    assigns it for the next call." in evidence(finding)
        assert "before = self.memory\n    reads self.memory from the previous call, still" in evidence(finding)
        assert finding.fix == (
            f"Detach once per step, after line {at(source, 'adam.step()').rpartition(':')[2]}, adam.step(): "
            "smooth.memory = smooth.memory.detach(). Then backward needs no retain_graph=True either."
        )
        assert finding.exact

    def test_what_one_statement_passes_on_in_a_dict_is_named_under_a_watch(self):
        source = """
            cell, notes = torch.nn.GRUCell(3, 4), {"h": torch.zeros(1, 4)}
            sgd = torch.optim.SGD(cell.parameters(), lr=0.1)
            def advance(x):
                notes["h"] = cell(x, notes["h"])
                return notes["h"].sum()
            def update(x):
                advance(x).backward(retain_graph=True)
                sgd.step()
            for x in torch.randn(4, 1, 3):
                update(x)
            """
        with bs.watch(level="exact"):
            finding = explained(source)
        assert finding.title.startswith('notes["h"] leads this backward into an earlier iteration, whose weights sgd.')
        assert finding.source == at(source, 'notes["h"] = cell')
        assert finding.fix.startswith('Detach after each step: notes["h"] = notes["h"].detach(). ')

    def test_what_a_list_keeps_is_named_under_a_watch(self):
        source = """
            cell, path = torch.nn.GRUCell(3, 4), [torch.zeros(1, 4)]
            sgd = torch.optim.SGD(cell.parameters(), lr=0.1)
            def advance(x):
                path.append(cell(x, path[-1]))
                return path[-1].sum()
            def update(x):
                loss = advance(x)
                loss.backward(retain_graph=True)
                sgd.step()
            for x in torch.randn(4, 1, 3):
                update(x)
            """
        with bs.watch(level="exact"):
            finding = explained(source)
        assert finding.title == "path[2] was computed with weights that sgd.step() has since modified."
        assert f"{at(source, 'path.append')}  path.append(cell(x, path[-1]))\n    stores cell(x, path[-1]), still " in (
            evidence(finding)
        )
        assert "sgd.step(): path = [h.detach() for h in path]. Or write `path.append(cell(x, path[-1]).detach())`" in (
            finding.fix
        )

    def test_a_running_watch_makes_that_exact(self):
        with bs.watch():
            finding = explained(RNN)
        assert "Read from the source text" not in evidence(finding)
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
        assert finding.title == "w was modified in place after a power had saved it for backward."
        assert finding.source == at(source, "w -= 0.1")
        assert finding.fix == (
            "Move lines 4 to 5, the block around `w -= 0.1`, below line 6, `loss.backward()`, which needs the "
            "original w."
        )

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
        assert finding.title == "d.weight was modified in place after a matrix product had saved it for backward."
        assert finding.source == at(source, "p.clamp_")
        assert "modifies p, which iterates over the parameters, in place." in evidence(finding)

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
        assert finding.title.startswith("ema.weight was modified in place")
        assert finding.source == at(source, "p.lerp_(q, 0.1)")
        assert finding.fix.startswith("Move line 9, `update()`, below ")
        assert "under torch.no_grad()" in finding.fix


class TestHooks:
    """What steps during the backward, in a hook on a weight."""

    SOURCE = """
        from torch import nn
        net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 1))
        optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in net.parameters()}
        def arrived(p):
            optimizers[p].step()
        for p in net.parameters():
            p.register_post_accumulate_grad_hook(arrived)
        def clip():
            with torch.no_grad():
                for p in net.parameters():
                    p.clamp_(-0.1, 0.1)
        score = net(torch.randn(7, 4, requires_grad=True)).mean()
        """

    def test_one_that_steps_its_own_weight_is_not_to_blame(self):
        source = f"{self.SOURCE}clip()\n        score.backward()\n"
        finding = explained(source)
        assert finding.title.startswith("net.4.weight was modified in place")
        assert finding.source == at(source, "p.clamp_")

    def test_the_variables_of_a_loop_that_it_reads_too_late_become_defaults(self):
        source = """
            from torch import nn
            net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
            for scale, layer in ((0.1, net[2]), (0.2, net[0])):
                optimizer = torch.optim.SGD(layer.parameters(), lr=scale)
                layer.bias.register_post_accumulate_grad_hook(lambda p: optimizer.step())
            for _ in range(3):
                score = net(torch.randn(7, 4, requires_grad=True)).square().mean()
                score.backward()
            """
        finding = explained(source)
        assert finding.title.startswith("A hook ran optimizer.step() while backward was running, and changed")
        assert "hook(lambda p, optimizer=optimizer: optimizer.step())` on line 5" in finding.fix
