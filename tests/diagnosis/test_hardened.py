"""What trains in place of a choice by the greatest value, and which choices only measure an accuracy."""

import pytest

from backsight.diagnosis.evidence.cuts import hardened, is_accuracy
from backsight.source.body import body_around

LINES = {
    "aux = (probs.argmax(1) != y).float().mean()": "an accuracy",
    "aux = torch.argmax(probs, 1).eq(y).float().mean()": "an accuracy",
    "best = probs.argmax(1)\nright = best.view(-1) == y": "an accuracy",
    "best = probs.argmax(1)\nright = y == other": "Use probs itself",
    "aux = (probs.argmax(1) * 1.0).mean()": "Use probs itself",
    "aux = F.one_hot(probs.argmax(1), 5).float()[:, 0].mean()": "Use probs itself",
    "hot = F.one_hot(probs.argmax(1), 5).float()": "Use probs itself, or hot + probs - probs.detach() to keep the "
    "choice and pass on its gradient",
}


@pytest.mark.parametrize("text", LINES)
def test_the_choice_is_told_from_the_accuracy(tmp_path, text):
    (tmp_path / "train.py").write_text(f"probs = torch.softmax(x, 1)\n{text}\n")
    body = body_around(str(tmp_path / "train.py"), 2)
    chosen = "torch.argmax(probs, 1)" if "torch.argmax" in text else "probs.argmax(1)"
    assert body is not None
    accuracy = LINES[text] == "an accuracy"
    assert is_accuracy(body, chosen, 2) is accuracy
    expected = "Use a loss that has a gradient, such as cross_entropy, in place of the accuracy"
    assert hardened(body, chosen, 2) == (expected if accuracy else LINES[text])
