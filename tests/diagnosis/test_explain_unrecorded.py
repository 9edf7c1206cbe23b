"""BS203: the loss was computed where nothing is recorded."""

import pytest
from failures import at, evidence, explained, failing
from setups import CLASSIFIER as SETUP

import backsight as bs


class TestNothingWasRecorded:
    def test_a_line_too_many_in_the_block(self):
        source = f"""{SETUP}
backbone = nn.Linear(4, 4)
with torch.no_grad():  # here
    features = backbone(x)
    logits = model(features)
loss = F.cross_entropy(logits, labels)
loss.backward()
"""
        finding = explained(source)
        assert finding.source == at(source)
        assert "computed under torch.no_grad()" in finding.title
        assert "uses model, which should be trained." in evidence(finding)
        assert "backbone" not in evidence(finding)
        line = at(source, "logits = model").split(":")[1]
        assert f"End the block before line {line}: dedent line {line}, `logits = model(features)`." in finding.fix

    @pytest.mark.parametrize("decorator", ["torch.no_grad()", "torch.inference_mode()", "torch.no_grad"])
    def test_a_decorated_function(self, decorator):
        source = f"""{SETUP}
class Trainer:
    def __init__(self):
        self.model = model

    @{decorator}
    def compute_loss(self, x):
        return F.cross_entropy(self.model(x), labels)

    def fit(self):
        loss = self.compute_loss(x)
        loss.backward()

Trainer().fit()
"""
        finding = explained(source)
        assert finding.source == at(source, f"@{decorator}")
        assert f"Remove @{decorator} from compute_loss" in finding.fix

    def test_a_block_around_the_call_further_out(self):
        source = f"""{SETUP}
def step():
    loss = F.cross_entropy(model(x), labels)
    loss.backward()

def evaluate():
    with torch.no_grad():  # here
        step()

evaluate()
"""
        finding = explained(source)
        assert finding.source == at(source)
        assert "Remove line 12" in finding.fix and "put `@torch.enable_grad()` above line 7" in finding.fix

    def test_an_optimizer_of_the_users_that_forgets_to_enable_grad_for_its_closure(self):
        source = """
model = torch.nn.Linear(3, 1)

class MySGD(torch.optim.SGD):
    @torch.no_grad()  # here
    def step(self, closure):
        return closure()

def closure():
    loss = model(torch.randn(4, 3)).sum()
    loss.backward()
    return loss

MySGD(model.parameters(), lr=0.1).step(closure)
"""
        assert explained(source).source == at(source)

    def test_a_phase_that_only_evaluates(self):
        source = f"""{SETUP}
def run(phase):
    with torch.set_grad_enabled(phase == "train"):  # here
        loss = F.cross_entropy(model(x), labels)
    loss.backward()

run("val")
"""
        finding = explained(source)
        assert finding.source == at(source)
        assert "Call backward only where the argument of torch.set_grad_enabled(" in finding.fix

    def test_a_leaf_that_was_replaced_by_what_was_detached_from_it(self):
        source = """
            w = torch.zeros(3, requires_grad=True)  # made
            optimizer = torch.optim.SGD([w], 0.1)
            for x in torch.randn(3, 8, 3):
                loss = (x @ w).pow(2).mean()
                loss.backward()
                optimizer.step()
                w = w.clamp(min=0.1)
                w = w.detach()  # cut
            """
        finding = explained(source)
        assert finding.title == ("loss does not require grad: w was replaced in its update by a tensor that does not.")
        assert finding.source == at(source, "# cut")
        assert finding.fix == ("Modify w in place, so it stays a leaf: `with torch.no_grad(): w.clamp_(min=0.1)`.")

    def test_a_leaf_that_was_only_detached(self):
        source = """
            w = torch.ones(3, requires_grad=True)
            w = w.detach()  # cut
            (w * 2).sum().backward()
            """
        finding = explained(source)
        assert finding.source == at(source, "# cut")
        assert finding.fix == "Remove line 2, so w stays a leaf."

    def test_a_state_that_is_detached_on_purpose_is_not_blamed_for_what_the_model_lost(self):
        source = """
            model, state = torch.nn.Linear(3, 3), torch.zeros(3, requires_grad=True)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            state = state.detach()
            scores = model(torch.randn(2, 3) + state)
            loss = scores.argmax(1).float().mean()  # here
            loss.backward()
            """
        assert explained(source).source == at(source)

    def test_switched_off_for_the_whole_program(self):
        source = f"""{SETUP}
torch.set_grad_enabled(False)  # here
loss = F.cross_entropy(model(x), labels)
try:
    loss.backward()
except RuntimeError as error:
    raise Done(explain(error)) from None
"""

        class Done(Exception):
            pass

        (finding,) = failing(source, explain=bs.explain, Done=Done).args
        assert finding.source == at(source)
        assert finding.title == "loss does not require grad: gradients are disabled globally."
