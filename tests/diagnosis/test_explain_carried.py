"""BS201: what is carried from one iteration, or one call, into the next."""

import pytest
from failures import at, evidence, explained
from setups import HIDDEN_STATE
from setups import RECURRENT as SETUP

import backsight as bs


def projected(statement):
    """A training that keeps its weights in a set, by a statement that makes another tensor of them."""
    return f"""
w = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
for x in torch.randn(4, 8, 3):
    loss = (x @ w).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    {statement}  # here
"""


class TestCarried:
    def test_a_hidden_state(self):
        finding = explained(HIDDEN_STATE)
        assert finding.title.startswith(
            "hidden, a tensor of shape 2×8, carries the graph of one iteration into the next"
        )
        assert finding.source == at(HIDDEN_STATE)
        assert "hidden = hidden.detach()" in finding.fix
        assert "retain_graph=True won't help" in finding.fix
        assert not finding.exact
        assert "`backsight run`" in evidence(finding)

    def test_is_exact_where_a_watch_takes_note_of_the_steps(self):
        with bs.watch():
            finding = explained(HIDDEN_STATE)
        assert finding.exact
        assert finding.source == at(HIDDEN_STATE)
        assert "operations of this graph were recorded before the last optimizer step" in evidence(finding)
        assert "`backsight run`" not in evidence(finding)

    @pytest.mark.parametrize(
        ("statement", "change"),
        [("w = w.clamp(min=0.1)", "w.clamp_(min=0.1)"), ("w = w / w.norm()", "w /= w.norm()")],
    )
    def test_a_leaf_that_an_optimizer_holds_is_to_be_changed_in_place(self, statement, change):
        finding = explained(projected(statement))
        assert finding.source == at(projected(statement))
        assert finding.fix.startswith(
            f"Keep w the leaf that optimizer updates, and modify it in place: `with torch.no_grad(): {change}`."
        )
        assert "w.detach() won't help" in finding.fix

    def test_one_operation_is_spoken_of_as_one(self):
        with bs.watch():
            finding = explained(projected("w = w.clamp(min=0.1)"))
        assert (
            "1 operation of this graph was recorded before the last optimizer step; the new part reaches it through"
            in (evidence(finding))
        )

    def test_a_tuple_of_states_is_detached_one_by_one(self):
        source = f"""{SETUP}
lstm, state = nn.LSTMCell(4, 8), None
for step in range(3):
    state = lstm(x, state)
    loss = head(state[0]).mean()
    loss.backward()
"""
        assert "state = tuple(h.detach() for h in state)" in explained(source).fix

    @pytest.mark.parametrize(
        ("kept", "read", "fix"),
        [
            ("[h, h + 1]", "state[0]", "[h.detach() for h in state]"),
            ("{'k': h, 'v': h + 1}", "state['k']", "{key: h.detach() for key, h in state.items()}"),
            ("[(h, h + 1), (h, h)]", "state[0][0]", "[tuple(h.detach() for h in each) for each in state]"),
            ("{0: (h, h)}", "state[0][0]", "{key: tuple(h.detach() for h in each) for key, each in state.items()}"),
            ("({'k': h},)", "state[0]['k']", "tuple({key: h.detach() for key, h in each.items()} for each in state)"),
        ],
    )
    def test_a_cache_is_detached_as_it_is_built(self, kept, read, fix):
        source = f"""{SETUP}
cell, state = nn.RNNCell(4, 8), None
for step in range(3):
    h = cell(x, None if state is None else {read})
    state = {kept}
    loss = head(h).mean()
    loss.backward()
"""
        assert f"Detach after each step: state = {fix}. " in explained(source).fix

    def test_a_cache_that_no_line_detaches(self):
        source = f"""{SETUP}
cell, state = nn.RNNCell(4, 8), None
for step in range(3):
    h = cell(x, None if state is None else state[0])
    state = [h, None]
    loss = head(h).mean()
    loss.backward()
"""
        assert "after each step: detach() every tensor that state holds. " in explained(source).fix

    def test_a_running_sum(self):
        source = f"""{SETUP}
total = 0.0
for step in range(3):
    total = total + head(rnn(x)).pow(2).mean()  # here
    total.backward()
"""
        finding = explained(source)
        assert finding.title.startswith("total adds up the losses of all iterations")
        assert finding.source == at(source)
        assert "once, after the loop" in finding.fix

    def test_a_running_sum_with_an_augmented_assignment(self):
        source = f"""{SETUP}
total = 0.0
for _ in range(3):
    total += head(rnn(x)).pow(2).mean()  # here
    total.backward()
"""
        assert explained(source).source == at(source)

    def test_an_attribute_of_the_trainer(self):
        source = f"""{SETUP}
class Trainer:
    def __init__(self):
        self.hidden = torch.zeros(2, 8)

    def step(self):
        self.hidden = rnn(x, self.hidden)  # here
        loss = head(self.hidden).mean()
        loss.backward()

trainer = Trainer()
for _ in range(3):
    trainer.step()
"""
        finding = explained(source)
        assert finding.title.startswith(
            "self.hidden, a tensor of shape 2×8, carries the graph of one call into the next"
        )
        assert finding.source == at(source)
        assert "self.hidden = self.hidden.detach()" in finding.fix

    def test_an_attribute_of_the_model_set_in_its_forward(self):
        source = f"""{SETUP}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.hidden = nn.GRUCell(4, 8), None

    def forward(self, x):
        self.hidden = self.rnn(x, self.hidden)  # here
        return self.hidden

model = Model()

def train():
    for _ in range(3):
        loss = model(x).mean()
        loss.backward()

train()
"""
        finding = explained(source)
        assert finding.title.startswith("model.hidden, a tensor of shape 2×8, carries")
        assert finding.source == at(source)
        assert "after line 21, loss.backward(): model.hidden = model.hidden.detach()" in finding.fix

    def test_a_variable_of_a_closure(self):
        source = f"""{SETUP}
def trainer():
    hidden = torch.zeros(2, 8)

    def step():
        nonlocal hidden
        hidden = rnn(x, hidden)  # here
        loss = head(hidden).mean()
        loss.backward()

    for _ in range(3):
        step()

trainer()
"""
        finding = explained(source)
        assert finding.title.startswith("hidden")
        assert finding.source == at(source)
        assert "hidden = hidden.detach()" in finding.fix

    def test_the_loop_is_in_the_caller(self):
        source = f"""{SETUP}
def step(hidden):
    hidden = rnn(x, hidden)
    loss = head(hidden).mean()
    loss.backward()
    return hidden

def train():
    hidden = torch.zeros(2, 8)
    for _ in range(3):
        hidden = step(hidden)  # here

train()
"""
        finding = explained(source)
        assert finding.title.startswith("hidden")
        assert finding.source == at(source)
        assert "hidden = hidden.detach()" in finding.fix
