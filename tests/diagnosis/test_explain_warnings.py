"""BS216, BS217, BS218, BS227: PyTorch's warnings about autograd, explained as they are given."""

import io
import sys
import warnings
from contextlib import contextmanager, redirect_stderr

import pytest
import torch
from failures import FILE, written

import backsight as bs
from backsight.diagnosis.heeding import Heeding

STREAMS = (
    "The AccumulateGrad node's stream does not match the stream of the node that produced the incoming gradient. This "
    "may incur unnecessary synchronization and break CUDA graph capture."
)


def shown(message, category, filename, lineno, file=None, line=None):
    """Show a warning as Python does; pytest would keep it."""
    if sys.stderr is not None:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))


@contextmanager
def every_warning():
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = shown
            yield
    finally:
        torch.set_warn_always(always)


def run(source, **variables):
    import linecache

    text = written(source)
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    exec(compile(text, FILE, "exec"), {"__name__": "__main__", "torch": torch, **variables})


def told(source, **variables):
    """What is said of the warnings of a program, and what stands on its stderr."""
    stderr = io.StringIO()
    with every_warning(), redirect_stderr(stderr), bs.explaining() as explaining:
        run(source, **variables)
    return explaining.findings, stderr.getvalue()


RESULT = """
w = torch.ones(3, requires_grad=True)
h = w * 2
h.sum().backward()
g = h.grad
"""


class TestGradientsOfResults:
    def test_a_retained_gradient_is_no_warning(self):
        findings, _ = told(RESULT.replace("h.sum()", "h.retain_grad(); h.sum()"))
        assert findings == ()

    def test_each_place_is_told_once(self):
        findings, stderr = told(f"{RESULT}for _ in range(3):\n    h.grad\n")
        assert [finding.source for finding in findings] == ["train.py:4", "train.py:6"]
        assert stderr.count("BS216") == 2

    def test_as_an_error_it_is_explained_too(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(UserWarning) as caught:
                run(RESULT)
        assert bs.explain(caught.value).code == "BS216"


class TestStreams:
    """The warning itself needs a GPU, so it is given here from inside of PyTorch's code, as the engine gives it."""

    SOURCE = """
w = torch.ones(3, requires_grad=True)
history = [(w ** 2).sum()]
loss = (w ** 3).sum()
loss.register_hook(warn)
loss.backward()
"""
    WARN = staticmethod(
        eval(
            compile("lambda gradient: warnings.warn(text)", torch.autograd.graph.__file__, "eval"),
            {"warnings": warnings, "text": STREAMS},
        )
    )

    def test_what_holds_an_earlier_graph_is_named(self):
        (finding,), _ = told(self.SOURCE, warn=self.WARN)
        assert (finding.code, finding.severity) == ("BS218", "warning")
        assert finding.title == (
            "history[0] still holds an earlier graph, and its AccumulateGrad nodes were created on another stream."
        )
        assert "keep history[0].detach()" in finding.fix

    def test_where_nothing_does_it_says_so(self):
        (finding,), _ = told(self.SOURCE.replace("[(w ** 2).sum()]", "[]"), warn=self.WARN)
        assert finding.title.startswith("An earlier graph is still alive")


class TestHeeding:
    def test_other_warnings_pass_untouched(self):
        findings, stderr = told("import warnings\nwarnings.warn('something else')\n")
        assert findings == ()
        assert "something else" in stderr

    def test_it_leaves_nothing_behind(self):
        before = warnings.showwarning
        with bs.explaining():
            assert warnings.showwarning is not before
        assert warnings.showwarning is before

    def test_it_makes_way_for_who_comes_after(self):
        before = warnings.showwarning
        heeding = Heeding(lambda finding: None)
        try:
            theirs = warnings.showwarning = lambda *given, **named: None
            heeding.remove()
            assert warnings.showwarning is theirs
        finally:
            warnings.showwarning = before

    def test_a_line_that_warns_again_and_again_is_looked_at_once(self, monkeypatch):
        looked_at = []
        monkeypatch.setattr(
            "backsight.diagnosis.explained.explained_warning", lambda warning, frame: looked_at.append(str(warning))
        )
        told(
            "import warnings\n"
            "for k in range(9):\n"
            "    warnings.warn('the same')\n"
            "    warnings.warn(f'another {k % 2}')\n"
        )
        assert looked_at == ["the same", "another 0", "another 1"]

    def test_a_filter_of_the_programs_keeps_both_away(self):
        stderr = io.StringIO()
        with warnings.catch_warnings(), redirect_stderr(stderr), bs.explaining() as explaining:
            warnings.simplefilter("ignore")
            run(RESULT)
        assert explaining.findings == ()
        assert stderr.getvalue() == ""

    def test_a_failure_of_ours_ends_nothing(self):
        def broken(finding):
            raise ValueError("ours")

        stderr = io.StringIO()
        with every_warning(), redirect_stderr(stderr):
            heeding = Heeding(broken)
            try:
                run(RESULT)
            finally:
                heeding.remove()
        assert "UserWarning" in stderr.getvalue()

    def test_no_frame_is_kept_alive(self):
        import weakref

        class Held:
            pass

        def program():
            held = Held()
            refs.append(weakref.ref(held))
            w = torch.ones(3, requires_grad=True)
            (w * 2).grad

        refs: list = []
        with every_warning(), redirect_stderr(io.StringIO()), bs.explaining() as explaining:
            program()
        assert [finding.code for finding in explaining.findings] == ["BS216"]
        assert refs[0]() is None


def test_without_a_stderr_nothing_is_printed_elsewhere(capsys, monkeypatch):
    with every_warning(), bs.explaining() as explaining:
        monkeypatch.setattr(sys, "stderr", None)
        run(RESULT)
    assert [finding.code for finding in explaining.findings] == ["BS216"]
    assert capsys.readouterr().out == ""
