"""BS201: which variable joins a loss to a graph that was freed, in programs as people write them."""

import threading

import pytest
import torch
from failures import at, explained, failing
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


class TestElsewhere:
    def test_in_a_thread(self):
        caught = []
        thread = threading.Thread(target=lambda: caught.append(failing(HIDDEN_STATE)))
        thread.start()
        thread.join()
        finding = bs.explain(caught[0])
        assert finding.source == at(HIDDEN_STATE)

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
                log_probs.append(policy(torch.randn(4)).log_softmax(0)[0])
        def finish():
            loss = -torch.stack(log_probs).sum()
            loss.backward()  # here
            optimizer.step()
        for episode in range(2):
            play()
            finish()
        """
        with bs.watch():
            finding = explained(source)
        assert finding.title == (
            "log_probs still holds 3 results from before the last optimizer step, and an earlier backward() freed "
            "the graph behind them."
        )
        assert "log_probs.clear()" in finding.fix
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
        assert finding.title.startswith("batches.codes, a tensor of shape 4×3, is a result from before the last")
        assert "torch.no_grad()" in finding.fix

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
