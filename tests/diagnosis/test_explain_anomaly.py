"""What is said where anomaly mode has stopped a backward: the origin that a watch saw, or what to suspect."""

import warnings

import pytest
from failures import at, evidence, failing

import backsight as bs

ROOT = """
        net = torch.nn.Linear(3, 3)
        d = net(torch.ones(2, 3)) - net(torch.ones(2, 3))
        loss = d.pow(2).sum(1).sqrt().mean() + net(torch.ones(2, 3)).square().mean()  # here
        with torch.autograd.detect_anomaly():
            loss.backward()
"""
CUSTOM = """
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, gradient):
                return gradient * float("nan")

        x = torch.ones(3, requires_grad=True)
        with torch.autograd.detect_anomaly():
            Scale.apply(x).sum().backward()  # here
"""


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def told(source, **settings):
    with bs.watch(level="exact", **settings):
        return bs.explain(failing(source))


def test_a_watch_for_nan_names_the_origin_and_not_where_the_mode_stopped():
    finding = told(ROOT, nonfinite=True)
    assert (finding.code, finding.source) == ("BS112", at(ROOT))
    assert finding.title == "The gradient of d.pow(2).sum(1).sqrt() is infinite: sqrt has an infinite slope at 0.0."
    assert "is where anomaly mode stopped, at the gradient of pow." in evidence(finding)
    assert "(d.pow(2).sum(1) + 1e-12).sqrt()" in finding.fix
    assert "--nonfinite" not in finding.fix


def test_without_one_the_operations_with_an_infinite_gradient_are_named():
    finding = told(ROOT)
    assert (finding.code, finding.source) == ("BS200", at(ROOT))
    assert "computes sqrt, whose gradient is infinite at 0." in evidence(finding)
    assert "torch.linalg.vector_norm" in finding.fix
    assert "(d.pow(2).sum(1) + 1e-12).sqrt()" in finding.fix


def test_what_is_told_to_write_passes_the_mode():
    mended = ROOT.replace("d.pow(2).sum(1).sqrt()", "(d.pow(2).sum(1) + 1e-12).sqrt()")
    with pytest.raises(AssertionError, match="ended without an error"):
        failing(mended)


def test_a_backward_of_the_program_s_own_is_named_as_the_origin():
    finding = told(CUSTOM, nonfinite=True)
    assert (finding.code, finding.source) == ("BS112", at(CUSTOM))
    assert finding.title.startswith("The gradient of Scale.apply(x) is NaN")


def test_a_loss_with_nothing_to_suspect_is_told_how_to_find_it():
    assert told(CUSTOM).fix.startswith("`backsight run --nonfinite` names")
