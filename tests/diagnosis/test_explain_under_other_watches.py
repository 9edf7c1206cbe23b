"""What watches of other levels than the exact one make of an explanation, and those that know less, or have ended."""

import pytest
from failures import at, evidence, explained, failing
from setups import CLASSIFIER, HIDDEN_STATE

import backsight as bs
from backsight.tracing import sites

PROJECTED = """
w = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
for x in torch.randn(4, 8, 3):
    loss = (x @ w).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    w = w.clamp(min=0.1)
"""
MODIFIED = f"{CLASSIFIER}h = torch.exp(model(x))\nh.add_(1)\nh.sum().backward()\n"


def test_a_hidden_state_is_exact_where_a_watch_takes_note_of_the_steps():
    with bs.watch():
        finding = explained(HIDDEN_STATE)
    assert finding.exact
    assert finding.source == at(HIDDEN_STATE)
    assert "operations of this graph were recorded before the last optimizer step" in evidence(finding)
    assert "`backsight run`" not in evidence(finding)


def test_one_operation_is_spoken_of_as_one():
    with bs.watch():
        finding = explained(PROJECTED)
    assert "1 operation of this graph was recorded before the last optimizer step; the new part reaches it through" in (
        evidence(finding)
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


def only_lines(monkeypatch):
    """As on Python 3.10, which tells of an instruction no more than its line."""
    known = sites.positions
    monkeypatch.setattr(sites, "positions", lambda site: (known(site)[0], known(site)[0], -1, -1))


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("h[:, 0] = 0", "h"),
        ("h.mul_(2)", "h"),
        ("torch.relu_(h)", "h"),
        ("h += 1", "h"),
        ("h.mul_(2); x.mul_(2)", "A tensor of shape 8×3"),
    ],
)
def test_where_only_the_line_is_known_the_name_is_the_one_that_it_changes(monkeypatch, line, name):
    only_lines(monkeypatch)
    source = f"""{CLASSIFIER}
def forward(x):
    h = torch.sigmoid(model(x))
    {line}  # here
    return h
forward(x).sum().backward()
"""
    with bs.watch(level="exact"):
        finding = explained(source)
    assert finding.source == at(source)
    assert finding.title.startswith(f"{name} was modified in place")


@pytest.mark.parametrize("cut", ["detach()", "data"])
def test_where_only_the_line_is_known_the_operation_that_cuts_is_named(monkeypatch, cut):
    only_lines(monkeypatch)
    source = f"""{CLASSIFIER}
class Metric:
    def __call__(self, prediction, target):
        return F.mse_loss(prediction.{cut}, target)

metrics = {{"mse": Metric()}}
loss = sum(metrics[name](model(x).sum(-1), labels.float()) for name in ["mse"])
loss.backward()
"""
    with bs.watch(level="exact"):
        finding = explained(source)
    assert finding.fix.startswith(f"Use the values, without .{cut}: that is for logging")


def test_a_watch_that_ended_before_is_not_asked():
    with bs.watch(level="exact"):
        error = failing(MODIFIED)
    assert bs.explain(error).code == "BS202"
