"""BS203: which statement left a loss without a history, in programs as people write them."""

import pytest
import torch
from failures import at, evidence, explained
from setups import CLASSIFIER as SETUP

import backsight as bs
from backsight.tracing import sites


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True:UserWarning")
class TestExpressionsThatCut:
    def test_a_teacher_that_no_optimizer_trains_is_not_blamed(self):
        source = f"""{SETUP}
teacher = nn.Linear(4, 3)
with torch.no_grad():
    target = teacher(x)
loss = F.mse_loss(model(x).detach(), target)  # here
loss.backward()
"""
        finding = explained(source)
        assert finding.source == at(source)
        assert "no_grad" not in evidence(finding)


class TestReentrantCheckpoints:
    def test_of_a_transformers_model(self):
        source = f"""{SETUP}
model.gradient_checkpointing = True
loss = criterion(model(x))  # whose layers were checkpointed inside of a library
loss.backward()
"""
        finding = explained(source, criterion=lambda output: output.sum().detach())
        assert "enable_input_require_grads()" in finding.fix


class TestSumsOfNothing:
    @pytest.mark.parametrize("cut", ["detach()", "data"])
    def test_a_watch_that_knows_the_line_alone_names_the_operation(self, monkeypatch, cut):
        known = sites.positions
        monkeypatch.setattr(sites, "positions", lambda site: (known(site)[0], known(site)[0], -1, -1))  # Python 3.10
        source = f"""{SETUP}
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


class TestWhereTheCauseIsNotFound:
    def test_code_without_source(self):
        finding = explained(f"{SETUP}loss = model(x).argmax().float()\nloss.backward()\n", readable=False)
        assert finding.code == "BS203"
        assert "The source of this code is not available, so what detached it is unknown." in finding.evidence
        assert not finding.exact


def test_the_program_can_go_on_after_the_explanation():
    x = torch.ones(2, requires_grad=True)
    try:
        x.detach().sum().backward()
    except RuntimeError as error:
        bs.explain(error)
    x.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
