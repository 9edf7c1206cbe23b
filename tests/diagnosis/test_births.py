"""BS112: where NaN and infinity are born, why, and a fix that is right for it; nothing of what only looks like it."""

from __future__ import annotations

import linecache
from typing import Any

import pytest
import torch
from audits import codes, one
from births_in import BACKWARD, BEGIN, FORWARD, HEALTHY
from columns import needs_columns
from failures import at, evidence, written
from hypothesis import given
from hypothesis import strategies as st

import backsight as bs
from backsight.diagnosis.births import CAUSES, Birth, told
from backsight.diagnosis.births.birth import condition_around, number, numbers, replaced
from backsight.source.edits import edited
from backsight.tracing import Line, NonFinite, Values

pytestmark = pytest.mark.filterwarnings("ignore:.*degrees of freedom is <= 0", "ignore:Mean of empty")

CASES = {**FORWARD, **BACKWARD}


def ran(program: str) -> tuple[bs.Finding | None, dict[str, Any]]:
    """Run a program and the backward of its loss, and return what is told of births, and its variables."""
    return ran_text(written(BEGIN) + written(program))


def ran_text(text: str) -> tuple[bs.Finding | None, dict[str, Any]]:
    linecache.cache["train.py"] = (len(text), None, text.splitlines(keepends=True), "train.py")
    variables: dict[str, Any] = {"__name__": "__main__"}
    with torch.random.fork_rng(), bs.watch(nonfinite=True) as watch:
        exec(compile(text, "train.py", "exec"), variables)
        variables["loss"].backward()
    return told(watch.nonfinite, watch.lost), variables


def born(program: str) -> bs.Finding:
    finding, _ = ran(program)
    assert finding is not None
    return finding


@pytest.mark.parametrize("case", CASES)
@needs_columns
def test_a_birth_is_told_with_its_line_its_cause_and_the_fix_for_it(case: str) -> None:
    program, title, fix = CASES[case]
    finding = born(program)
    assert (finding.code, finding.severity) == ("BS112", "error")
    assert finding.title == title
    assert finding.fix == fix
    assert finding.source == at(written(BEGIN) + written(program))


@pytest.mark.parametrize("case", HEALTHY)
def test_what_is_meant_is_left_in_peace(case: str) -> None:
    finding, variables = ran(HEALTHY[case])
    assert finding is None
    assert bool(variables["loss"].isfinite())


EXPRESSIONS = (
    *("log of 0", "log of a negative number", "log1p of -1", "0 / 0", "1 / 0", "sqrt of a negative number"),
    *("rsqrt of 0", "a fractional power of a negative number", "a negative power of 0"),
    *("sqrt of a sum of squares at 0", "a distance between equal points", "sqrt behind torch.where"),
    *("sqrt of negative numbers behind torch.where", "log behind torch.where", "a quotient behind torch.where"),
    "a power below 1 at 0",
)
"""Those whose fix is an expression to put in place of the one that went wrong."""


@pytest.mark.parametrize("case", EXPRESSIONS)
def test_the_expression_that_a_fix_proposes_has_a_finite_value(case: str) -> None:
    program, title, fix = CASES[case]
    expression = title.removeprefix("The gradient of ").partition(" is ")[0]
    proposed = fix.partition("; add")[0].partition(". (")[0].rstrip(".").rpartition(": ")[2]
    assert expression in program
    finding, variables = ran(program.replace(expression, f"({proposed})", 1))
    assert finding is None
    assert bool(variables["loss"].isfinite())


@pytest.mark.parametrize("case", CASES)
@needs_columns
def test_with_the_edits_of_a_fix_everything_is_finite(case: str) -> None:
    text = written(BEGIN) + written(CASES[case][0])
    for edits in born(CASES[case][0]).edits:
        after = edited(edits, {"train.py": text})["train.py"]
        finding, variables = ran_text(after)
        assert finding is None, after
        assert bool(variables["loss"].isfinite())


def test_most_expressions_that_a_fix_proposes_are_edits() -> None:
    assert [case for case in EXPRESSIONS if not born(CASES[case][0]).edits] == []


@needs_columns
def test_the_values_and_what_the_mask_does_are_told() -> None:
    finding = born(BACKWARD["sqrt behind torch.where"][0])
    assert evidence(finding) == (
        "train.py:6  loss = torch.where(x > 0, x.sqrt(), torch.zeros_like(x)).sum()  # here\n"
        "    1 of 2 values of the gradient of x.sqrt() is NaN: x.sqrt() is 0.0, the incoming gradient is 0.0.\n"
        "The loss does not use it there, but its gradient is still computed: torch.where evaluates both branches, "
        "forward "
        "and backward, and 0 times NaN or infinity is NaN."
    ).replace("  # here", "")


@needs_columns
def test_an_infinity_is_followed_to_where_it_became_nan() -> None:
    finding = born(FORWARD["inf - inf"][0])
    assert evidence(finding) == (
        "train.py:6  e = torch.exp(x)\n"
        "    torch.exp(x) is infinite: x is 100.0.\n"
        "train.py:7  loss = (e - e).sum()\n"
        "    e - e becomes NaN because of it: e is inf there, and inf - inf is NaN."
    )


@needs_columns
def test_of_several_births_it_is_the_one_that_no_where_drops() -> None:
    program = """
    x = torch.tensor([0.0, 100.0], requires_grad=True)
    logs = torch.where(x > 0, torch.log(x), 0.0)
    loss = (logs * 0.0).sum() + x.exp().sum()  # here
    """
    finding = born(program)
    assert finding.title.startswith("x.exp() is infinite: x is 100.0 there")


def test_an_operation_without_an_explanation_of_its_own_is_told_in_general_terms() -> None:
    finding = born(
        """
        x = torch.tensor([-0.5], requires_grad=True, dtype=torch.float64)
        loss = torch.special.entr(x).sum() + torch.digamma(torch.zeros(1, requires_grad=True).double() - 1.0).sum()
        """
    )
    assert "received finite values" in finding.title or "is larger than" in finding.title


HIDDEN = {
    "a checkpoint": (
        """
        from torch.utils.checkpoint import checkpoint
        def block(x):
            return torch.where(x > 0, x.sqrt(), torch.zeros_like(x))  # here
        x = torch.tensor([4.0, 0.0], requires_grad=True)
        loss = checkpoint(block, x, use_reentrant=False).sum()
        """,
        "The gradient of x.sqrt() is NaN: sqrt has an infinite slope at 0.0, and times the incoming 0, that is NaN "
        "(its "
        "values were not kept).",
        "torch.where(x > 0, x, 1.0).sqrt()",
    ),
    "a reentrant checkpoint": (
        """
        from torch.utils.checkpoint import checkpoint
        x = torch.tensor([4.0, 0.0], requires_grad=True)
        loss = checkpoint(torch.sqrt, x, use_reentrant=True).sum()  # here
        """,
        "The gradient of checkpoint(torch.sqrt, x, use_reentrant=True) is infinite: it arose in the part that a "
        "reentrant checkpoint recomputes, which backsight cannot watch.",
        "use_reentrant=False",
    ),
    "in place": (
        """
        x = torch.tensor([4.0, 0.0], requires_grad=True)
        y = x * 1
        y.log_()  # here
        loss = y.sum()
        """,
        "y.log_() is -inf: log is not finite at 0.0 (its values were not kept).",
        ".clamp_min(1e-12)",
    ),
    "the backward of a custom Function": (
        """
        class Root(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x.sqrt())
                return x.sqrt()

            @staticmethod
            def backward(ctx, grad):
                (root,) = ctx.saved_tensors
                return grad / (2 * root)  # here

        loss = Root.apply(torch.tensor([4.0, 0.0], requires_grad=True)).sum()
        """,
        "grad / (2 * root) is infinite: 2 * root is 0.0 there.",
        "grad / (2 * root).clamp_min(1e-8)",
    ),
    "under no_grad": (
        """
        def weigh(x):
            with torch.no_grad():
                return torch.log(x)  # here
        x = torch.tensor([1.0, 0.0], requires_grad=True)
        loss = (x * weigh(x)).sum()
        """,
        "torch.log(x) is -inf: x is 0.0 there.",
        "torch.log(x.clamp_min(1e-12))",
    ),
    "a generator": (
        """
        parts = [torch.tensor(1.0, requires_grad=True), torch.tensor(0.0, requires_grad=True)]
        loss = sum(part.log() for part in parts)  # here
        """,
        "part.log() is -inf: part is 0.0 there.",
        "part.clamp_min(1e-12).log()",
    ),
}


@pytest.mark.parametrize("case", HIDDEN)
@needs_columns
def test_births_where_they_are_hard_to_see(case: str) -> None:
    program, title, fix = HIDDEN[case]
    finding = born(program)
    assert finding.title == title
    assert fix in finding.fix
    assert finding.source == at(written(BEGIN) + written(program))


class TestAudit:
    @needs_columns
    def test_an_audit_under_the_watch_tells_it_before_backward(self) -> None:
        with bs.watch(nonfinite=True):
            p = torch.tensor([0.5, 0.0], requires_grad=True)
            report = bs.audit(p.log().sum())
        finding = one(report, "BS112")
        assert (finding.severity, finding.title) == ("error", "p.log() is -inf: p is 0.0 there.")
        assert "BS108" not in codes(report)

    def test_a_gradient_of_an_earlier_backward_is_a_warning(self) -> None:
        with bs.watch(nonfinite=True):
            x = torch.zeros(3, requires_grad=True)
            (x**2).sum().sqrt().backward()
            report = bs.audit(x.sum())
        assert one(report, "BS112").severity == "warning"

    def test_without_the_watch_what_was_saved_is_all_that_is_known(self) -> None:
        p = torch.tensor([0.5, 0.0], requires_grad=True)
        assert codes(bs.audit((p.log() * p).sum())) == ["BS108"]

    def test_a_finite_loss_is_no_finding_whatever_was_masked_on_the_way(self) -> None:
        with bs.watch(nonfinite=True):
            x = torch.tensor([4.0, 0.0], requires_grad=True)
            assert codes(bs.audit(torch.where(x > 0, x.log(), 0.0).sum())) == []


class TestWords:
    @pytest.mark.parametrize(
        ("value", "said"),
        [
            (0.0, "0.0"),
            (-0.0010000000474974513, "-0.001"),
            (1.0001, "1.0001"),
            (1.00000012, "1.0000001"),
            (1e6, "1e+06"),
            (float("nan"), "NaN"),
            (float("-inf"), "-inf"),
            (2.5, "2.5"),
            (12345.678, "12345.7"),
            (0.99999994, "0.99999994"),
        ],
    )
    def test_numbers_are_short_and_never_rounded_onto_an_edge(self, value: float, said: str) -> None:
        assert number(value) == said

    def test_several_numbers(self) -> None:
        assert numbers([0.0, 0.0]) == "0.0"
        assert numbers([1.0, 2.0]) == "1.0 and 2.0"
        assert numbers([1.0, 2.0, 3.0, 4.0]) == "1.0, 2.0, 3.0, …"

    def test_expressions_are_rewritten_by_their_structure(self) -> None:
        assert replaced("torch.sqrt(x)", "x", "x + 1e-12") == "torch.sqrt(x + 1e-12)"
        assert replaced("f(xs, x[0])", "x", "y") == "f(xs, y[0])"
        assert replaced("f(x)", "z", "y") == "" and replaced("f(x", "x", "y") == ""

    @pytest.mark.parametrize(
        ("statement", "condition"),
        [
            ("y = torch.where(x > 0, x.log(), 0.0)", "x > 0"),
            ("y = torch.where(x <= 0, 0.0, x.log() + 1)", "x > 0"),
            ("y = torch.where(bad, 0.0, x.log())", "~bad"),
            ("y = torch.where(~good, 0.0, x.log())", "good"),
            ("y = x.log().where(good, 0.0)", "good"),
            ("if torch.where(good, x.log(), 0.0).any():", "good"),
            ("y = x.log()", ""),
            ("y = (", ""),
        ],
    )
    def test_the_condition_of_a_where(self, statement: str, condition: str) -> None:
        assert condition_around(statement, "x.log()") == condition

    @pytest.mark.parametrize(
        ("said", "op"),
        [
            ("SqrtBackward0", "sqrt"),
            ("__rtruediv__", "div"),
            ("true_divide", "div"),
            ("log_", "log"),
            ("LogSoftmaxBackward0", "log_softmax"),
            ("AddmmBackward0", "matmul"),
            ("LinalgEighBackward0", "linalg_eigh"),
            ("PowBackward1", "pow"),
        ],
    )
    def test_an_operation_has_one_name(self, said: str, op: str) -> None:
        assert Birth(NonFinite("forward", "nan", said, None, (), 1, 1)).op == op

    @given(
        op=st.sampled_from([*CAUSES, "SqrtBackward0", "erfinv", "__rpow__", "RootBackward"]),
        phase=st.sampled_from(["forward", "backward"]),
        kind=st.sampled_from(["nan", "inf"]),
        segment=st.sampled_from(["", "x.sqrt()", "a / b", "f(", "torch.exp(x)[0] ** p", "é + 'ü'"]),
        operands=st.lists(
            st.builds(
                Values,
                st.sampled_from(["", "x", "a", "b", "x[0]", "result", "f("]),
                st.lists(st.integers(0, 3), max_size=2).map(tuple),
                st.lists(st.floats(width=32), max_size=4).map(tuple),
                st.integers(0, 3),
            ),
            max_size=3,
        ),
        incoming=st.lists(st.floats(width=32), max_size=3).map(tuple),
        dtype=st.sampled_from(["", "float16", "bfloat16", "float32", "float64", "complex64"]),
        lost=st.booleans(),
    )
    def test_whatever_was_seen_is_told_in_full_sentences(
        self, op: str, phase: Any, kind: Any, segment: str, operands: Any, incoming: Any, dtype: str, lost: bool
    ) -> None:
        line = Line("train.py", 3, 3, "train", segment, f"y = torch.where(m, {segment}, 0)") if segment else None
        fact = NonFinite(phase, kind, op, line, tuple(operands), 1, 2, incoming, dtype=dtype, backward=0)
        finding = told([fact], [0] if lost else [])
        if finding is None:  # a loss that is lost is not by a backward, and a gradient is not by a forward pass
            assert lost == (phase == "backward")
            return
        assert finding.title.endswith(".") and finding.fix.rstrip(")").endswith((".", "...")) and str(finding)
