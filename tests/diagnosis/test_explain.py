"""`explain` and `explaining`: which exception is explained, and what never happens to the program."""

import sys
import traceback
from pathlib import Path

import fresh
import pytest
import torch
from failures import at, explained, failing

import backsight as bs
from backsight.diagnosis.errors import ERRORS, explains

SOURCE = """
x = torch.ones(3, requires_grad=True)
loss = x * 2
loss.backward()  # here
"""


def vector_backward():
    torch.ones(3, requires_grad=True).exp().backward()


def caught(function=vector_backward):
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("no error")


class TestWhichException:
    def test_the_one_that_is_given(self):
        finding = bs.explain(failing(SOURCE))
        assert (finding.code, finding.severity, finding.source) == ("BS212", "error", at(SOURCE))

    def test_the_one_being_handled(self):
        try:
            vector_backward()
        except RuntimeError:
            assert bs.explain().code == "BS212"

    @pytest.mark.parametrize("name", ["last_exc", "last_value"])
    def test_the_last_that_nobody_caught(self, monkeypatch, name):
        for each in ("last_exc", "last_value"):
            monkeypatch.delattr(sys, each, raising=False)
        monkeypatch.setattr(sys, name, caught(), raising=False)
        assert bs.explain().code == "BS212"

    def test_none_where_there_is_none(self, monkeypatch):
        for each in ("last_exc", "last_value"):
            monkeypatch.delattr(sys, each, raising=False)
        with pytest.raises(ValueError, match="was given no exception, and none is being handled"):
            bs.explain()

    @pytest.mark.parametrize("other", ["a message", RuntimeError, 3, torch.ones(1)])
    def test_something_else_is_refused(self, other):
        with pytest.raises(TypeError, match="explain\\(\\) expects an exception, not "):
            bs.explain(other)

    def test_one_without_a_traceback_is_explained_from_its_text(self):
        finding = bs.explain(RuntimeError("grad can be implicitly created only for scalar outputs"))
        assert finding.code == "BS212"
        assert "The exception has no traceback, so this is based on its message alone." in finding.evidence
        assert not finding.exact

    @pytest.mark.parametrize(
        "error", [KeyError("x"), RuntimeError(), RuntimeError("CUDA out of memory"), ValueError(3)]
    )
    def test_one_that_is_not_known_is_called_so(self, error):
        finding = bs.explain(error)
        assert (finding.code, finding.severity) == ("BS200", "note")
        assert (
            finding.title == f"This {type(error).__name__} is not one of the autograd errors that backsight explains."
        )


class TestChains:
    def test_the_cause_of_another(self):
        finding = explained(
            """
            def train():
                (torch.ones(3, requires_grad=True) * 2).backward()  # here

            try:
                train()
            except RuntimeError as error:
                raise ValueError("step 3 failed") from error
            """
        )
        assert (finding.code, finding.source) == ("BS212", "train.py:2")

    def test_one_that_was_being_handled_when_another_came(self):
        def program():
            try:
                vector_backward()
            finally:
                raise KeyError("clean-up failed")

        assert bs.explain(caught(program)).code == "BS212"

    def test_one_that_was_hidden_on_purpose_is_left_hidden(self):
        def program():
            try:
                vector_backward()
            except RuntimeError:
                raise KeyError("something else") from None

        assert bs.explain(caught(program)).code == "BS200"

    def test_one_that_a_library_raised_again_with_its_text(self):
        def program():
            try:
                vector_backward()
            except RuntimeError as error:
                raise RuntimeError(f"in worker 3: {error}") from error

        finding = bs.explain(caught(program))
        assert finding.code == "BS212"
        assert "exp().backward()" in "".join(map(str, finding.evidence))

    def test_a_known_error_in_the_handler_of_another_is_the_one_that_ended_the_program(self):
        def program():
            try:
                vector_backward()
            except RuntimeError:
                torch.ones(3).sum().backward()

        assert bs.explain(caught(program)).code == "BS203"

    @pytest.mark.skipif(sys.version_info < (3, 11), reason="groups came with Python 3.11")
    def test_one_of_a_group(self):
        group = ExceptionGroup("workers", [KeyError("x"), ExceptionGroup("inner", [caught()])])  # noqa: F821
        assert bs.explain(group).code == "BS212"

    def test_a_chain_that_bites_its_tail(self):
        first, second = KeyError("first"), caught()
        first.__cause__, second.__context__ = second, first
        assert bs.explain(first).code == "BS212"

    def test_a_chain_of_ten_thousand(self):
        error = caught()
        for number in range(10_000):
            outer = KeyError(number)
            outer.__context__ = error
            error = outer
        assert bs.explain(error).code == "BS212"
        while error is not None:  # Python frees such a chain recursively
            error.__context__, error = None, error.__context__


class TestExplaining:
    def test_the_error_passes_with_a_note(self):
        with pytest.raises(RuntimeError, match="only for scalar outputs") as raised, bs.explaining():
            vector_backward()
        (note,) = raised.value.__notes__
        assert note == f"\nbacksight: {bs.explain(raised.value)}"

    @pytest.mark.skipif(sys.version_info < (3, 11), reason="Python prints notes from 3.11 on")
    def test_the_note_stands_below_the_traceback(self):
        with pytest.raises(RuntimeError) as raised, bs.explaining():
            vector_backward()
        text = "".join(traceback.format_exception(raised.value))
        assert text.index("Traceback") < text.index("scalar outputs\n") < text.index("backsight: error BS212")

    def test_it_is_the_same_exception(self):
        error = caught()
        with pytest.raises(RuntimeError) as raised, bs.explaining():
            raise error
        assert raised.value is error

    def test_other_exceptions_pass_untouched(self):
        with pytest.raises(KeyError) as raised, bs.explaining():
            raise KeyError("x")
        assert not hasattr(raised.value, "__notes__")

    def test_no_exception_is_no_exception(self):
        with bs.explaining() as context:
            pass
        assert isinstance(context, bs.explaining)

    def test_a_failure_of_ours_does_not_hide_the_error(self, monkeypatch):
        def broken(error):
            raise ZeroDivisionError

        monkeypatch.setattr(sys.modules["backsight.diagnosis.explanations"], "explained_error", broken)
        with pytest.raises(RuntimeError, match="only for scalar outputs") as raised, bs.explaining():
            vector_backward()
        assert "backsight could not explain this error: ZeroDivisionError in broken:" in raised.value.__notes__[0]

    def test_an_exception_that_refuses_notes(self):
        class Refuses(RuntimeError):
            def add_note(self, note):
                raise SystemError("refused")

        with pytest.raises(Refuses) as raised, bs.explaining():
            raise Refuses("grad can be implicitly created only for scalar outputs")
        assert "BS212" in raised.value.__notes__[0]

    def test_ends_a_script_with_the_explanation_on_stderr(self, tmp_path):
        script = tmp_path / "train.py"
        script.write_text(
            "import torch, backsight\n"
            "with backsight.explaining():\n"
            "    x = torch.ones(3, requires_grad=True)\n"
            "    (x * 2).backward()\n"
        )
        ended = fresh.run([sys.executable, script])
        assert ended.returncode == 1
        assert ended.stdout == ""
        if sys.version_info >= (3, 11):
            assert "Call (x * 2).sum().backward()" in ended.stderr


class TestRegistry:
    def test_a_code_is_entered_once(self):
        with pytest.raises(ValueError, match="the code BS212 is taken; another needs another"):

            @explains("BS212", "never")
            def another(failure, match): ...

    def test_the_codes_are_those_of_the_documentation(self):
        pages = sorted(page.stem for page in (Path(__file__).parents[2] / "docs" / "codes").glob("BS2*.md"))
        assert sorted({"BS200", *(entry.code for entry in ERRORS)}) == pages

    def test_every_explanation_says_in_a_sentence_what_it_does(self):
        for entry in ERRORS:
            assert entry.explain.__doc__ and entry.explain.__doc__.endswith(".")


def test_every_error_is_explained_from_its_text_alone_too():
    texts = {
        "BS201": "Trying to backward through the graph a second time",
        "BS203": "element 0 of tensors does not require grad and does not have a grad_fn",
        "BS204": "The differentiated Tensor at index 1 appears to not have been used in the graph.",
        "BS206": "can't optimize a non-leaf Tensor",
        "BS210": "torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
        "recomputation.",
        "BS211": "Expected to have finished reduction in the prior iteration before starting a new one.",
        "BS212": "grad can be implicitly created only for scalar outputs",
    }
    for code, text in texts.items():
        finding = bs.explain(RuntimeError(text))
        assert finding.code == code
        assert not finding.exact
        assert "could not analyze it further" not in "".join(map(str, finding.evidence))
        assert finding.title and finding.fix


def test_an_error_that_passes_two_explainings_is_explained_once():
    x = torch.ones(2, requires_grad=True)
    loss = x.square().sum()
    with pytest.raises(RuntimeError) as caught, bs.explaining(), bs.explaining():
        loss.backward()
        loss.backward()
    assert len(caught.value.__notes__) == 1
