"""An explanation asks nothing of the program, keeps nothing alive, and survives any text."""

import gc
import pickle
import threading
import weakref
from typing import ClassVar

import pytest
import torch
from failures import at, explained, failing
from hypothesis import given, settings
from hypothesis import strategies as st
from sharded import examples

import backsight as bs
from backsight.diagnosis.errors import Known, registry
from backsight.diagnosis.errors.registry import known

SOURCE = """
x = torch.ones(3, requires_grad=True)
loss = x * 2
loss.backward()  # here
"""


def vector_backward():
    torch.ones(3, requires_grad=True).exp().backward()


class TestHostileObjects:
    HOSTILE = """
class Refuses:
    def __getattribute__(self, name): raise SystemError("looked at")
    def __repr__(self): raise SystemError("printed")
    def __eq__(self, other): raise SystemError("compared")
    def __hash__(self): raise SystemError("hashed")
    def __bool__(self): raise SystemError("tested")
    def __len__(self): raise SystemError("counted")
    def __iter__(self): raise SystemError("iterated")
    def __call__(self): raise SystemError("called")

class Proud(torch.Tensor):
    def __repr__(self): raise SystemError("printed")

class Module(torch.nn.Linear):
    def __getattr__(self, name):
        if name in ("weight", "bias"):
            return super().__getattr__(name)
        raise SystemError("asked for " + name)
    def parameters(self, *args): raise SystemError("asked for parameters")
    def __repr__(self): raise SystemError("printed")
    def __eq__(self, other): raise SystemError("compared")
    def __hash__(self): return id(self)

one, proud, model = Refuses(), torch.ones(3).as_subclass(Proud), Module(3, 2)
things = [one, {1: one}, (proud, one)]
x = torch.ones(4, 3)
"""
    PROGRAMS: ClassVar = {
        "loss = model(x).argmax().float()\nloss.backward()": "BS203",
        "loss = (model(x) * 2)\nloss.backward()": "BS212",
        "loss = model(x).exp().sum()\nloss.backward()\nloss.backward()": "BS201",
        "h = model(x).sigmoid()\nh += 1\nh.sum().backward()": "BS202",
        "torch.autograd.grad(model(x).sum(), proud.requires_grad_())": "BS204",
        "model.weight += 1": "BS205",
        "torch.optim.SGD([proud.requires_grad_() * 2], lr=1)": "BS206",
        "model(x).unbind(1)[0].exp_()": "BS209",
        "loss = proud.sum()\nloss.backward()": "BS203",
    }

    @pytest.mark.parametrize("program", PROGRAMS)
    def test_around_the_failure_are_never_asked(self, program):
        finding = explained(f"{self.HOSTILE}{program}\n")
        assert finding.code == self.PROGRAMS[program]
        assert "backsight could not analyze it further" not in "".join(map(str, finding.evidence))

    def test_an_exception_that_cannot_be_printed(self):
        class Shy(RuntimeError):
            args = property(lambda self: 1 / 0)

            def __str__(self):
                raise SystemError("printed")

            __repr__ = __str__

        assert bs.explain(Shy("grad can be implicitly created only for scalar outputs")).code == "BS212"

    def test_a_tensor_that_overrides_every_operation(self):
        source = """
class Loud(torch.Tensor):
    armed = False

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if cls.armed:
            raise SystemError("overridden")
        return super().__torch_function__(function, types, args, kwargs or {})

x = torch.ones(3).as_subclass(Loud).requires_grad_()
loss = x * 2
try:
    loss.backward()
finally:
    Loud.armed = True
"""
        assert explained(source).code == "BS212"

    def test_a_message_with_escapes_is_not_passed_on_to_the_terminal(self):
        finding = explained(
            "name = 'x\\x1b[31m'\nx = torch.ones(3, requires_grad=True)\n(x * 2).backward()  # \x1b[31m\n"
        )
        assert "\x1b" not in str(finding)


class TestTheProgramIsLeftAlone:
    @pytest.mark.parametrize("source", [SOURCE, "loss = torch.ones(3).sum()\nloss.backward()\n"])
    def test_nothing_is_kept_alive(self, source):
        error = failing(source)
        trace = error.__traceback__
        while trace.tb_next and "loss" not in trace.tb_frame.f_globals:
            trace = trace.tb_next
        loss = weakref.ref(trace.tb_frame.f_globals["loss"])
        finding = bs.explain(error)
        del error, trace
        gc.collect()
        assert loss() is None
        assert pickle.loads(pickle.dumps(finding)) == finding

    def test_variables_that_were_deleted_stay_deleted(self):
        class Big:
            pass

        def program():
            big = Big()
            alive.append(weakref.ref(big))
            try:
                vector_backward()
            except RuntimeError as error:
                bs.explain(error)
            del big
            gc.collect()
            alive.append(alive[0]())

        alive: list = []
        program()
        assert alive[1] is None

    def test_the_graph_can_still_be_used(self):
        x = torch.ones(3, requires_grad=True)
        loss = x.exp()
        try:
            loss.backward()
        except RuntimeError as error:
            bs.explain(error)
        loss.sum().backward()
        assert torch.equal(x.grad, x.exp())

    def test_an_error_of_another_thread(self):
        errors = []
        thread = threading.Thread(target=lambda: errors.append(failing(SOURCE)))
        thread.start()
        thread.join()
        assert bs.explain(errors[0]).source == at(SOURCE)

    def test_a_failure_of_ours_is_said_and_what_is_known_is_kept(self, monkeypatch):
        def broken(failure, match):
            raise ZeroDivisionError

        entry = known("grad can be implicitly created only for scalar outputs")[0]
        monkeypatch.setattr(registry, "ERRORS", [Known(entry.code, entry.pattern, broken)])
        finding = bs.explain(failing(SOURCE))
        assert (finding.code, finding.source) == ("BS212", at(SOURCE))
        assert finding.title == "grad can be implicitly created only for scalar outputs"
        assert finding.evidence[0].startswith("backsight could not analyze it further: ZeroDivisionError in broken:")


class TestAnyText:
    """The message of an exception may be anything."""

    PATTERNS = (
        "Trying to backward through the graph a second time",
        "element 7 of tensors does not require grad and does not have a grad_fn",
        "element 99999999999999999999 of tensors does not require grad",
        "One of the differentiated Tensors does not require grad",
        "appears to not have been used in the graph",
        "can't optimize a non-leaf Tensor",
        "tensors have different metadata than during the forward pass.\ntensor at position 1:\nsaved metadata: {}",
        "Expected to have finished reduction in the prior iteration before starting a new one\n"
        "Parameter indices which did not receive grad for rank 0: 4 5 99",
        "grad can be implicitly created only for real scalar outputs but got",
    )

    @settings(max_examples=examples(40))
    @given(before=st.text(), pattern=st.sampled_from(PATTERNS), after=st.text())
    def test_around_what_is_known_does_no_harm(self, before, pattern, after):
        finding = bs.explain(RuntimeError(f"{before}{pattern}{after}"))
        assert finding.code != "BS200"
        assert "could not analyze it further" not in "".join(map(str, finding.evidence))
        assert "\x1b" not in str(finding)

    @given(st.text())
    def test_that_is_not_known_is_called_so(self, text):
        assert bs.explain(ValueError(text)).code == "BS200"
