"""How the operation whose gradient may be infinite is written instead: with the expression of the program."""

import pytest

from backsight.diagnosis.evidence.singular import Singular, kept_away, may_be_infinite
from backsight.source.body import body_around, statement_at
from backsight.source.edits import without_marks

LINES = {
    (
        "sqrt",
        "at 0",
        "loss = d.pow(2).sum(1).sqrt().mean()",
    ): "torch.linalg.vector_norm, whose gradient at 0 is 0; or a "
    "small number inside the sqrt: (d.pow(2).sum(1) + 1e-12).sqrt().",
    ("sqrt", "at 0", "y = torch.sqrt(v)"): "Add a small number inside the sqrt, not outside it: torch.sqrt(v + 1e-12).",
    ("log", "at 0", "y = p.log()"): "Keep the input of log away from there: p.clamp_min(1e-12).log().",
    ("log", "at 0", "y = torch.where(p > 0, torch.log(p), p)"): "Keep the input of log away from there: "
    "torch.log(p.clamp_min(1e-12)). torch.where around its result is too late.",
    ("div", "where it divides by 0", "y = a / (b + c)"): "Keep what it divides by away from there: "
    "a / (b + c).clamp_min(1e-12).",
    ("acos", "at -1 and 1", "y = torch.acos(c)"): "Keep the input of acos away from there: "
    "torch.acos(c.clamp(-1 + 1e-6, 1 - 1e-6)).",
    (
        "sqrt",
        "at 0",
        "y = a.sqrt() + b.sqrt()",
    ): "Add a small number inside the sqrt, not outside it: torch.sqrt(x + 1e-12).",
}


@pytest.mark.parametrize(("op", "at", "text"), LINES)
def test_the_expression_is_that_of_the_program(tmp_path, op, at, text):
    (tmp_path / "train.py").write_text(text + "\n")
    body = body_around(str(tmp_path / "train.py"), 1)
    assert body is not None
    place = body.place(statement_at(body, 1))
    assert without_marks(kept_away([Singular(op, at, place)])).strip() == LINES[op, at, text]


def test_of_several_none_is_rewritten(tmp_path):
    (tmp_path / "train.py").write_text("y = p.log()\n")
    body = body_around(str(tmp_path / "train.py"), 1)
    assert body is not None
    place = body.place(statement_at(body, 1))
    assert kept_away([Singular("log", "at 0", place), Singular("sqrt", "at 0", place)]) == ""


def test_a_free_parameter_has_to_be_kept_from_becoming_negative(tmp_path):
    (tmp_path / "train.py").write_text("std = torch.sqrt(self.var)\n")
    body = body_around(str(tmp_path / "train.py"), 1)
    assert body is not None
    root = Singular("sqrt", "at 0", body.place(statement_at(body, 1)), is_free=True)
    assert (
        may_be_infinite(root) == "computes sqrt of a parameter: it is NaN below 0, and its gradient is infinite at 0."
    )
    assert without_marks(kept_away([root])).strip() == (
        "Nothing keeps a parameter from becoming negative; softplus does: torch.sqrt(F.softplus(self.var))."
    )
