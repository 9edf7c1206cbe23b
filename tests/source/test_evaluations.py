"""Which code evaluates, and which drops values in any mode, as the text has it."""

import textwrap

import pytest

from backsight.source.body import functions
from backsight.source.evaluations import always_dropping, evaluates


@pytest.fixture
def evaluated(tmp_path):
    def read(source, trains=False):
        file = tmp_path / "train.py"
        file.write_text(textwrap.dedent(source).lstrip("\n"))
        line = next(n for n, text in enumerate(file.read_text().splitlines(), 1) if "#!" in text)
        body = next(b for b in functions(str(file)) if trains or getattr(b.node, "name", ""))
        return evaluates(body, line, trains=trains)

    return read


@pytest.mark.parametrize("name", ["validate", "test_accuracy", "evalModel", "evaluate2", "validation_step"])
def test_a_function_that_evaluates_by_its_name(evaluated, name):
    assert evaluated(f"def {name}(model, x):\n    return model(x).argmax(1)  #!\n")


@pytest.mark.parametrize(
    "name", ["act", "predict", "train_epoch", "predict_mc", "refresh_bn_eval", "latest", "contest"]
)
def test_a_function_that_does_not(evaluated, name):
    assert not evaluated(f"def {name}(model, x):\n    return model(x).argmax(1)  #!\n")


def test_a_call_for_its_own_sake_computes_statistics(evaluated):
    assert not evaluated("def evaluate(model, data):\n    for x in data:\n        model(x)  #!\n")


def test_a_function_that_asks_for_training_mode_means_it(evaluated):
    assert not evaluated("def evaluate(model, x):\n    model.train()\n    return model(x).var()  #!\n")


@pytest.mark.parametrize(
    ("data", "is_one"),
    [("x_val", True), ("test_loader[0]", True), ("x", False), ("latest", False), ("next_val", False)],
)
def test_a_block_without_gradients_by_its_data(evaluated, data, is_one):
    source = f"for step in range(9):\n    loss.backward()\n    with torch.no_grad():\n        y = model({data})  #!\n"
    assert evaluated(source, trains=True) is is_one


@pytest.mark.parametrize(
    ("call", "drops"),
    [
        ("F.dropout(x, 0.5)", True),
        ("nn.functional.dropout(x, p=self.p)", True),
        ("dropout2d(x)", True),
        ("nn.Dropout(0.1)(x)", True),
        ("F.scaled_dot_product_attention(q, k, v, dropout_p=0.1)", True),
        ("F.scaled_dot_product_attention(q, k, v)", False),
        ("F.dropout(x, 0.5, self.training)", False),
        ("F.dropout(x, training=on)", False),
        ("F.dropout(x, 0.5) if self.training else x", False),
        ("self.dropout(x)", False),
        ("F.alpha_dropout(x)", False),
    ],
)
def test_dropout_that_does_not_know_of_the_mode(tmp_path, call, drops):
    file = tmp_path / "train.py"
    file.write_text(f"def forward(self, x):\n    return {call}\n")
    body = next(each for each in functions(str(file)) if getattr(each.node, "name", ""))
    assert [place.line for place, _ in always_dropping(body)] == ([2] if drops else [])
