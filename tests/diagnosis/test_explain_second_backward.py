"""BS201: which variable joins a loss to a graph that was freed, in programs as people write them."""

import contextlib
import threading

import pytest
import torch
from failures import at, evidence, explained, failing, watched
from setups import HIDDEN_STATE
from setups import RECURRENT as SETUP

import backsight as bs

TWO_LOSSES = f"""{SETUP}
features = rnn(x, torch.zeros(2, 8))
first = head(features).mean()
second = head(features).pow(2).mean()
first.backward()  # first
second.backward()  # here
"""

GAN = f"""{SETUP}
generator, discriminator = nn.Sequential(nn.Linear(4, 8), nn.Tanh()), nn.Linear(8, 1)
g_optimizer = torch.optim.SGD(generator.parameters(), lr=0.1)
d_optimizer = torch.optim.SGD(discriminator.parameters(), lr=0.1)
for step in range(2):
    fake = generator(x)
    d_loss = discriminator(fake).pow(2).mean()  # here
    d_optimizer.zero_grad()
    d_loss.backward()
    d_optimizer.step()
    g_loss = -discriminator(fake).pow(2).mean()
    g_loss.backward()
"""

SHARED = """    out = discriminator(fake)
    d_loss = out.pow(2).mean()"""

GENERATOR_STEP = """    g_loss = -out.mean()
    g_optimizer.zero_grad()
    g_loss.backward()  # here
    g_optimizer.step()"""


class TestTheSameLoss:
    def test_backward_twice_on_one_loss(self):
        source = f"{SETUP}loss = head(rnn(x)).pow(2).mean()\nloss.backward()  # first\nloss.backward()  # here\n"
        finding = explained(source)
        assert finding.code == "BS201"
        assert finding.title == "backward() runs on loss a second time."
        assert finding.source == at(source)
        assert f"{at(source, '# first')}  loss.backward()\n    ran first" in evidence(finding)
        assert finding.exact

    def test_a_loss_that_a_scaler_scales(self):
        source = f"""{SETUP}
scaler = torch.amp.GradScaler("cpu")
loss = head(rnn(x)).pow(2).mean()
scaler.scale(loss).backward()
scaler.scale(loss).backward()  # here
"""
        finding = explained(source)
        assert finding.title == "backward() runs on loss a second time."
        assert finding.source == at(source)

    def test_a_loss_computed_before_the_loop(self):
        source = f"""{SETUP}
loss = head(rnn(x)).pow(2).mean()  # here
for step in range(3):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
        finding = explained(source)
        assert finding.title == "loss is computed once, and backward() runs on it in every iteration."
        assert finding.source == at(source)
        assert finding.fix.startswith("Compute loss inside the loop")

    def test_an_input_that_changes_is_the_reason_where_no_optimizer_steps(self):
        source = f"""{SETUP}
def attack(x):
    noise = torch.zeros_like(x, requires_grad=True)
    out = rnn(x + noise)
    loss = head(out).pow(2).mean()  # here
    for _ in range(3):
        (grad,) = torch.autograd.grad(loss, noise)
        with torch.no_grad():
            noise += 0.1 * grad.sign()

attack(x)
"""
        finding = explained(source)
        assert finding.title == "loss is computed once, and torch.autograd.grad() runs on it in every iteration."
        assert finding.fix == (
            "Compute loss inside the loop, from a new forward pass, together with out (line 9), "
            "which it is computed from: noise changes in each iteration."
        )

    @pytest.mark.parametrize(
        ("changes", "why"),
        [
            ("w.data -= 0.1 * w.grad", "w changes in each iteration."),
            ("w.data -= 0.1 * w.grad; b.data -= 0.1 * b.grad", "w and b change in each iteration."),
            ("print(end='')", "each backward() needs a graph of its own."),
        ],
    )
    def test_what_is_changed_by_hand_is_the_reason(self, changes, why):
        source = f"""
w, b = torch.ones(3, requires_grad=True), torch.zeros(3, requires_grad=True)
loss = (torch.randn(2, 3) * w + b).square().sum()
for step in range(3):
    loss.backward()
    {changes}
"""
        assert explained(source).fix == f"Compute loss inside the loop, from a new forward pass: {why}"

    def test_a_loss_given_to_a_function_twice(self):
        source = f"""{SETUP}
def update(loss):
    loss.backward()

total = head(rnn(x)).pow(2).mean()
for step in range(2):  # here
    update(total)
"""
        finding = explained(source)
        assert "total is computed once, and backward() runs on it in every iteration." in finding.title


class TestTwoLosses:
    def test_over_one_forward_pass(self):
        finding = explained(TWO_LOSSES)
        assert finding.title.startswith("first.backward() freed the part of the graph behind features, which second")
        assert "behind features that first and second share." in evidence(finding)
        assert finding.source == at(TWO_LOSSES)
        assert finding.fix.startswith("Add the losses and call backward once: (first + second).backward().")
        assert finding.exact

    def test_of_a_gan_are_told_apart_by_what_the_optimizer_steps(self):
        finding = explained(GAN)
        assert finding.source == at(GAN)
        assert finding.fix.startswith("Compute d_loss from fake.detach()")
        assert "does not update what computes fake" in evidence(finding)

    def test_of_two_optimizers_over_one_forward_pass_are_not_to_be_added(self):
        source = GAN.replace("    d_loss = discriminator(fake).pow(2).mean()  # here", SHARED)
        source = source.replace(
            "    g_loss = -discriminator(fake).pow(2).mean()\n    g_loss.backward()", GENERATOR_STEP
        )
        finding = explained(source)
        assert finding.title.startswith("d_loss.backward() freed the part of the graph behind out, which g_loss")
        assert str(finding.evidence[2]) == (
            "d_optimizer.step() in between trains only a part of what they share: each loss has its own optimizer."
        )
        assert finding.fix == (
            "Compute out again for g_loss, after d_optimizer.step(). For d_loss, detach what its optimizer does not "
            "train. (Adding the losses won't help: each optimizer would get the gradients of both.)"
        )
        assert finding.source == at(source)

    def test_of_which_one_is_trained_by_nobody_are_added(self):
        source = GAN.replace("    d_loss = discriminator(fake).pow(2).mean()  # here", SHARED)
        source = source.replace("-discriminator(fake).pow(2).mean()", "-out.mean()")
        fix = "Add the losses and call backward once: (d_loss + g_loss).backward(). Step the optimizers after that."
        assert explained(source).fix == fix

    def test_that_retain_their_graph_are_not_blamed(self):
        source = TWO_LOSSES.replace("first.backward()", "first.backward(retain_graph=True)")
        finding = explained(f"{source}second.backward()  # again\n")
        assert finding.title == "backward() runs on second a second time."


class TestComputedOnce:
    def test_a_result_from_before_the_loop(self):
        source = f"""{SETUP}
weights = F.softmax(head(torch.randn(5, 8)).flatten(), dim=0)  # here
for step in range(3):
    loss = (weights * torch.randn(5)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
        finding = explained(source)
        assert finding.title.startswith("weights is computed once, before the loop")
        assert finding.source == at(source)
        assert finding.fix.startswith("Move line ") and "inside the loop at line" in finding.fix

    def test_on_purpose_and_without_an_optimizer_may_keep_its_graph(self):
        source = f"""{SETUP}
out = rnn(x)  # here
for column in range(3):
    out[:, column].pow(2).sum().backward()
"""
        finding = explained(source)
        assert finding.source == at(source)
        assert "out[:, column].pow(2).sum().backward(retain_graph=True) in every iteration but the last" in finding.fix

    def test_the_loop_is_in_the_caller(self):
        source = f"""{SETUP}
def step(weights):
    loss = (weights * torch.randn(5)).sum()
    loss.backward()

def train():
    weights = F.softmax(head(torch.randn(5, 8)).flatten(), dim=0)  # here
    for _ in range(3):
        step(weights)

train()
"""
        finding = explained(source)
        assert "weights is computed once" in finding.title
        assert finding.source == at(source)

    def test_a_list_that_nothing_empties(self):
        source = f"""{SETUP}
losses = []
for step in range(3):
    losses.append(head(rnn(x)).pow(2).mean())  # here
    loss = torch.stack(losses).sum()
    loss.backward()
"""
        finding = explained(source)
        assert "losses still holds results of earlier iterations" in finding.title
        assert finding.source == at(source)
        assert finding.fix.startswith("Empty losses at the start of each iteration")


ACTOR_CRITIC = """
trunk, policy, value_of = torch.nn.Linear(4, 8), torch.nn.Linear(8, 2), torch.nn.Linear(8, 1)
class ActorCritic(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = torch.nn.Sequential(trunk, torch.nn.Tanh())
        self.policy, self.value = policy, value_of
    def forward(self, seen):
        found = self.trunk(seen)
        return torch.distributions.Categorical(logits=self.policy(found)), self.value(found).squeeze(-1)
net = ActorCritic()
actor = torch.optim.Adam([*trunk.parameters(), *policy.parameters()])
critic = torch.optim.Adam(value_of.parameters())
def update():
    seen = torch.randn(16, 4)
    choices, value = net(seen)
    action = choices.sample()
    back = (action == (seen[:, 0] > 0)).float()
    advantage = back - value  # here
    actor_loss = -(choices.log_prob(action) * advantage).mean()
    critic_loss = torch.nn.functional.mse_loss(value, back)
    actor.zero_grad()
    actor_loss.backward()  # first
    actor.step()
    critic.zero_grad()
    critic_loss.backward()
    critic.step()
update()
"""


class TestLossesThatAreAdded:
    def test_gradients_are_zeroed_above_the_sum(self):
        finding = explained(ACTOR_CRITIC)
        line = at(ACTOR_CRITIC, "# first").rpartition(":")[2]
        assert finding.source == at(ACTOR_CRITIC)
        assert finding.fix == (
            "Compute actor_loss from value.detach(), and add the losses, which still share net.trunk: "
            f"(actor_loss + critic_loss).backward(). Do so on line {line}, delete `critic_loss.backward()`, and move "
            "`critic.zero_grad()` above it."
        )
        assert evidence(finding).endswith(
            "value only weights actor_loss, as an advantage should: actor_loss should not train it. But both losses "
            "also depend on net.trunk."
        )

    def test_nothing_is_zeroed_between_them(self):
        finding = explained(ACTOR_CRITIC.replace("    critic.zero_grad()\n", ""))
        assert finding.fix.endswith("which still share net.trunk: (actor_loss + critic_loss).backward().")


class TestElsewhere:
    def test_in_a_thread(self):
        caught = []
        thread = threading.Thread(target=lambda: caught.append(failing(HIDDEN_STATE)))
        thread.start()
        thread.join()
        finding = bs.explain(caught[0])
        assert finding.source == at(HIDDEN_STATE)

    def test_in_a_generator(self):
        source = f"""{SETUP}
def steps():
    hidden = torch.zeros(2, 8)
    while True:
        hidden = rnn(x, hidden)  # here
        loss = head(hidden).mean()
        loss.backward()
        yield loss.item()

for number, value in enumerate(steps()):
    assert number < 5
"""
        finding = explained(source)
        assert finding.title.startswith("hidden")
        assert finding.source == at(source)

    def test_code_without_source(self):
        finding = explained(HIDDEN_STATE, readable=False)
        assert finding.code == "BS201"
        assert not finding.exact
        assert "hidden = hidden.detach()" in finding.fix

    @pytest.mark.parametrize("program", [HIDDEN_STATE, TWO_LOSSES, GAN])
    def test_the_gradients_are_left_as_they_are(self, program):
        error = failing(program)
        level = error.__traceback__
        while level.tb_next and "head" not in level.tb_frame.f_globals:
            level = level.tb_next
        weights = [p for p in level.tb_frame.f_globals["head"].parameters() if p.grad is not None]
        before = [(p.clone(), p.grad.clone()) for p in weights]
        bs.explain(error)
        assert all(
            torch.equal(p, old) and torch.equal(p.grad, grad) for p, (old, grad) in zip(weights, before, strict=True)
        )


class TestWhatAWatchKnowsToBeOld:
    """Where the text does not lead to a variable, the one that holds the joint with the last step's graph is named."""

    def test_a_list_that_is_never_emptied(self):
        source = """
        policy = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
        log_probs = []
        def play():
            for _ in range(3):
                log_probs.append(policy(torch.randn(4)).log_softmax(0)[0])  # here
        def finish():
            loss = -torch.stack(log_probs).sum()
            loss.backward()
            optimizer.step()
        for episode in range(2):
            play()
            finish()
        """
        with bs.watch():
            finding = explained(source)
        assert finding.title == "log_probs keeps results of earlier steps, whose graph an earlier backward() freed."
        assert "empty it after each step: put `log_probs.clear()` below line 10" in finding.fix
        assert finding.exact
        assert finding.source == at(source)

    def test_data_that_was_encoded_once(self):
        with bs.watch():
            finding = explained("""
            encoder, head = torch.nn.Linear(5, 3), torch.nn.Linear(3, 1)
            optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
            class Batches:
                def __init__(self):
                    self.codes = torch.sigmoid(encoder(torch.randn(4, 5)))
                def __iter__(self):
                    yield from (head(self.codes).mean() for _ in range(2))
            batches = Batches()
            for loss in batches:
                loss.backward()
                optimizer.step()
            """)
        assert finding.title == (
            "batches.codes is computed once, in __init__, and the first backward() has freed its graph."
        )
        assert finding.fix.startswith(
            "No optimizer trains anything it is computed from: on line 5, write `self.codes = "
        )

    def test_an_attribute_whose_last_value_the_loss_does_not_need(self):
        """An LSTM returns its state beside its output, so the new state is no part of the graph; the old one is."""
        with bs.watch():
            finding = explained("""
            class Net(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.lstm, self.state = torch.nn.LSTM(3, 4, batch_first=True), None
                def forward(self, x):
                    out, self.state = self.lstm(x, self.state)
                    return out[:, -1]
            net = Net()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            def step(x):
                loss = net(x).mean()
                loss.backward()
                optimizer.step()
            for _ in range(2):
                step(torch.randn(2, 5, 3))
            """)
        assert finding.title.startswith("net.state carries the graph of one call into the next")
        assert finding.exact


NUDGED = f"""{SETUP}
class Nudge:
    def __init__(self, held):
        self.held = list(held)
    def _push(self):
        for w in self.held:
            w.mul_(0.99)
    @torch.no_grad()
    def apply(self):
        self._push()
nudge = Nudge([*rnn.parameters(), *head.parameters()])
def update(scores):
    plain = scores.square().mean()
    plain.backward()
    nudge.apply()
    moved = scores.abs().mean()
    moved.backward()  # here
def train():
    out = head(rnn(x))
    update(out)
train()
"""

STEPPED = f"""{SETUP}
adam = torch.optim.Adam([*rnn.parameters(), *head.parameters()])
scores = head(rnn(x))
plain = scores.square().mean()
plain.backward()
adam.step()
again = scores.abs().mean()
again.backward()  # here
"""


class TestWeightsThatChangedBetweenTwoLosses:
    def test_the_second_needs_a_forward_pass_of_its_own(self):
        with bs.watch(level="exact"):
            finding = explained(NUDGED)
        line, made = (at(NUDGED, text).partition(":")[2] for text in ("nudge.apply()", "out = head"))
        assert finding.title.startswith("plain.backward() freed the part of the graph behind scores, which moved")
        assert f"{at(NUDGED, 'nudge.apply()')}  nudge.apply()\n    changes rnn." in evidence(finding)
        assert f"in {at(NUDGED, 'w.mul_')}, w.mul_(0.99): the graph behind scores is that of the old weights." in (
            evidence(finding)
        )
        assert finding.source == at(NUDGED, "moved = scores.abs")
        assert finding.fix == (
            f"Compute scores again below line {line}, nudge.apply(), as line {made} does, out = head(rnn(x)), and "
            "compute moved from that. Adding the losses would backpropagate both through the old weights."
        )

    def test_so_it_does_where_data_is_changed_of_which_no_version_tells(self):
        assert watched(NUDGED.replace("w.mul_", "w.data.mul_")).fix.startswith("Compute scores again below line ")

    def test_without_a_watch_it_is_only_said_to_be_possible(self):
        line = at(NUDGED, "nudge.apply()").partition(":")[2]
        assert explained(NUDGED).fix == (
            f"Add the losses and call backward once: (plain + moved).backward(). If line {line}, nudge.apply(), "
            "changes weights, do not add them; compute scores again below it."
        )

    @pytest.mark.parametrize("level", [None, "calls", "exact"])
    def test_a_step_of_all_of_them_is_known_from_the_text_too(self, level):
        with bs.watch(level=level) if level else contextlib.nullcontext():
            finding = explained(STEPPED)
        line = at(STEPPED, "adam.step()").partition(":")[2]
        assert finding.fix.startswith(f"Compute scores again below line {line}, adam.step(), as line")
        assert "Or, if both losses share one step, add them, (plain + again).backward(), then" in finding.fix

    def test_it_belongs_below_the_loop_that_changes_them(self):
        source = f"""{SETUP}
scores = head(rnn(x))
plain, again = scores.square().mean(), scores.abs().mean()
plain.backward()
with torch.no_grad():
    for p in rnn.parameters():
        p.clamp_(-0.1, 0.1)
        p.mul_(0.9)  # end
again.backward()
"""
        finding = watched(source)
        assert finding.fix.startswith(f"Compute scores again below line {at(source, '# end').partition(':')[2]}, as ")
        assert "computes again from scores." in str(finding.evidence[0])
        assert f"{at(source, 'p.clamp_')}  p.clamp_(-0.1, 0.1)\n    changes rnn." in evidence(finding)

    def test_what_is_counted_or_zeroed_in_between_is_no_change_of_weights(self):
        source = NUDGED.replace("w.mul_(0.99)", "w.grad.zero_()")
        for found in (explained(source), watched(source)):
            assert found.fix == "Add the losses and call backward once: (plain + moved).backward()."

    def test_a_change_before_both_losses_does_not_count(self):
        source = NUDGED.replace("    nudge.apply()\n", "").replace("    out =", "    nudge.apply()\n    out =")
        assert watched(source).fix == "Add the losses and call backward once: (plain + moved).backward()."


def test_a_detached_copy_that_is_thrown_away_is_not_to_blame_where_the_state_enters_detached():
    source = """
import torch

cell, optimizer = torch.nn.GRUCell(3, 4), None
h, total = torch.zeros(2, 4), torch.zeros(())
for _ in range(3):
    h.detach()
    h = cell(torch.randn(2, 3), h.detach())
    total = total + h.mean()
    total.backward()
"""
    assert explained(source).title.startswith("total adds up the losses")


class TestWhatOutlivesAnIteration:
    BODY = """
for step in range(2):
    out = SimpleNamespace(scores=head(rnn(x + drawn())).squeeze(-1))
    loss = out.scores.pow(2).mean()
    loss.backward()  # here
"""
    MIXED = f"{SETUP}from types import SimpleNamespace\nmix = torch.eye(4).requires_grad_()"

    def test_what_this_iteration_makes_and_what_a_view_is_of_do_not(self):
        source = f"""{self.MIXED}
def drawn(kept=[torch.zeros(2, 4)]):
    kept[0] = (kept[0] @ mix).tanh()
    return kept[0] * 1
{self.BODY}"""
        finding = explained(source)
        assert finding.title.startswith("kept[0] carries the graph of one pass into the next")
        assert "put `kept[0] = kept[0].detach()` above line 9" in finding.fix

    def test_an_attribute_of_what_this_iteration_makes_is_not_computed_before_the_loop(self):
        source = f"""{self.MIXED}
def states():
    state = torch.zeros(2, 4)
    while True:
        state = (state @ mix).tanh()
        yield state * 1
drawn = states().__next__
{self.BODY}"""
        assert "computed once" not in explained(source).title

    def test_an_attribute_that_is_read_again_in_the_step_is_detached_after_it(self):
        source = f"""{SETUP}
class Memory:
    def __init__(self):
        self.state = torch.zeros(2, 8)
    def write(self, seen):
        h = torch.tanh(seen + self.state)
        self.state = h  # here
        return h
    def norm(self):
        return self.state.pow(2).mean()
memory = Memory()
optimizer = torch.optim.SGD(rnn.parameters(), lr=0.1)
for step in range(2):
    h = memory.write(rnn(x, torch.zeros(2, 8)))
    loss = head(h).mean() + memory.norm()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
        finding = explained(source)
        assert finding.source == at(source)
        assert "memory.state = memory.state.detach()" in finding.fix
