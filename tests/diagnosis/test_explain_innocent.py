"""Programs in which the likeliest suspect is innocent: a wrong explanation is worse than none."""

import torch
from failures import at, explained, failing

import backsight as bs


def test_a_block_that_may_have_lost_the_history_of_something_is_not_said_to_contain_the_loss():
    said = explained("""
    def step(params):
        with torch.no_grad():
            return [p - 0.1 * p.grad for p in params]
    params = [torch.randn(3, requires_grad=True)]
    for _ in range(2):
        loss = (torch.ones(5, 3) @ params[0]).mean()
        loss.backward()
        params = step(params)
    """)
    assert said.title.startswith("loss does not require grad: one of its inputs was computed under")
    assert "w -= lr * w.grad" in said.fix


def test_gradients_switched_off_by_a_function_that_has_returned():
    source = """
    def evaluate():
        torch.set_grad_enabled(False)  # here
    w = torch.ones(3, requires_grad=True)
    evaluate()
    loss = w.sum()
    loss.backward()
    """
    error = failing(source)
    with torch.set_grad_enabled(False):
        said = bs.explain(error)
    assert "gradients are disabled globally" in said.title
    assert said.source == at(source)
