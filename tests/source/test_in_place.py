"""Assignments rewritten as changes of the tensor itself, checked against what PyTorch makes of both."""

import pytest
import torch

from backsight.source.out_of_place import in_place

REWRITTEN = {
    "w = w.clamp(min=0.1)": "w.clamp_(min=0.1)",
    "w = torch.clamp(w, 0.1, max=0.5)": "w.clamp_(0.1, max=0.5)",
    "w = w / w.norm()": "w /= w.norm()",
    "w = w - 0.1 * w": "w -= 0.1 * w",
    "w = w.abs().detach()": "w.abs_()",
    "w = (w * 2).data": "w *= 2",
    "w = w.detach().clamp(-0.3, 0.3).requires_grad_(True)": "w.clamp_(-0.3, 0.3)",
    "w = (w.data * 2).clone()": "w *= 2",
    "w = torch.softmax(w, 0)": "w.copy_(torch.softmax(w, 0))",
    "w = 1 - w": "w.copy_(1 - w)",
    "w = torch.where(w > 0.5, w, 0.0)": "w.copy_(torch.where(w > 0.5, w, 0.0))",
}


@pytest.mark.parametrize("statement", REWRITTEN)
def test_gives_the_same_tensor_the_same_values(body_of, statement):
    text = in_place(body_of(f"{statement}\n"), "w", 1)
    assert text == REWRITTEN[statement]
    before, after = ({"torch": torch, "w": torch.linspace(-1, 1, 5)} for _ in range(2))
    changed = after["w"]
    exec(statement, before)
    exec(text, after)
    assert after["w"] is changed
    assert torch.equal(before["w"], after["w"])


@pytest.mark.parametrize("statement", ["w = w.detach()", "w = w.data", "w = torch.zeros(3)", "w += 1", "v = w.exp()"])
def test_says_nothing_of_what_is_no_computation_of_the_tensor_from_itself(body_of, statement):
    assert in_place(body_of(f"{statement}\n"), "w", 1) is None
