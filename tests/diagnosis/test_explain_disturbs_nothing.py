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
from setups import HIDDEN_STATE
from sharded import examples
from torch import nn

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

    def test_in_a_tuple_that_changes_between_two_runs_is_not_printed(self):
        finding = explained("""
        from torch import nn
        from torch.utils.checkpoint import checkpoint


        class Loud:
            def __repr__(self):
                raise SystemError("printed")


        class View:
            rows = (2, Loud())


        class Pooled(nn.Module):
            def __init__(self, view):
                super().__init__()
                self.view, self.layer = view, nn.Linear(6, 6)

            def forward(self, x):
                h = self.layer(x)
                return h.unfold(0, self.view.rows[0], 1).sin()


        view = View()
        block = Pooled(view)
        loss = 0.0
        for n in (2, 3):
            view.rows = (n, Loud())
            loss = loss + checkpoint(block, torch.randn(6, 6), use_reentrant=False).sum()
        loss.backward()
        """)
        assert (finding.code, "reads self.view.rows" in str(finding)) == ("BS210", True)
        assert "could not analyze it further" not in str(finding)

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


class Hostile(nn.Module):
    def __getattr__(self, name):
        raise ValueError("asked")

    def __repr__(self):
        raise ValueError("asked")

    __eq__ = __bool__ = __len__ = __hash__ = __repr__  # type: ignore[assignment]


class HostileTensor(torch.Tensor):
    @property
    def shape(self):
        raise ValueError("asked")

    def __repr__(self):
        raise ValueError("asked")

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        raise ValueError("asked")


MODIFIED = {
    "BS202": "x = torch.randn(3, requires_grad=True)\ny = x.sigmoid()\ny += 1\ny.sum().backward()\n",
    "BS205": "w = torch.randn(3, requires_grad=True)\nw += 1\n",
    "BS209": "a, b = (torch.randn(4, requires_grad=True) * 2).chunk(2)\na += b\n",
}


class TestWhatWasModifiedInPlace:
    @pytest.mark.parametrize("code", MODIFIED)
    def test_hostile_objects_beside_the_failure_are_not_asked(self, code):
        lines = ["def main(hostile, other):", "    mine = [hostile, other]"]
        lines += [f"    {line}" for line in MODIFIED[code].splitlines()]
        source = "\n".join([*lines, "main(hostile, other)"])
        other = torch.ones(3).as_subclass(HostileTensor)
        finding = explained(source, hostile=object.__new__(Hostile), other=other)
        assert finding.code == code
        assert "could not analyze it further" not in str(finding)

    def test_what_a_model_overrides_is_not_run(self):
        source = """
            class Guarded(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = torch.nn.Linear(2, 2)
                def forward(self, x):
                    h = self.fc(x).sigmoid()
                    h += 1
                    return h
                def named_modules(self, *args, **kwargs):
                    raise ValueError("asked")
                modules = children = parameters = named_parameters = named_modules
            model = Guarded()
            model(torch.randn(3, 2)).sum().backward()
            """
        finding = explained(source)
        assert finding.source == at(source, "h += 1")

    @pytest.mark.parametrize("code", MODIFIED)
    def test_nothing_is_kept_alive(self, code):
        error = failing(MODIFIED[code])
        trace = error.__traceback__
        while trace.tb_next:
            trace = trace.tb_next
        frame = failing(MODIFIED[code]).__traceback__.tb_next.tb_frame
        tensors = [weakref.ref(value) for value in frame.f_globals.values() if isinstance(value, torch.Tensor)]
        del frame, trace
        finding = bs.explain(error)
        error.__traceback__ = None
        del error
        gc.collect()
        assert finding.code == code
        assert tensors
        assert all(ref() is None for ref in tensors)


FUNCTION = """
class Meta(type(torch.autograd.Function)):
    def __repr__(cls):
        raise ValueError
class Op(torch.autograd.Function, metaclass=Meta):
    @staticmethod
    def forward(ctx, x, k=1):
        return k * x
    @staticmethod
    def backward(ctx, g):
        return {}
a = torch.randn(4, 3, requires_grad=True)
Op.apply(a{}).sum().backward()
"""


@pytest.mark.parametrize(("returned", "second", "code"), [("2 * g", ", 2", "BS207"), ("g[0]", "", "BS208")])
def test_a_function_whose_class_answers_no_questions(returned, second, code):
    finding = explained(FUNCTION.format(returned, second))
    assert finding.code == code
    assert "could not analyze it further" not in str(finding)


def test_nothing_of_the_users_is_evaluated_to_find_a_gradient():
    source = """
class Model:
    @property
    def weight(self):
        raise AssertionError("a property was evaluated")

    def __getattr__(self, name):
        raise AssertionError("an attribute was looked up")

def read(model):
    None.grad.norm(model.weight.grad)
read(Model())
"""
    assert bs.explain(failing(source)).code == "BS200"


def test_the_weights_and_their_gradients_are_left_as_they_are():
    error = failing(HIDDEN_STATE)
    level = error.__traceback__
    while level.tb_next and "head" not in level.tb_frame.f_globals:
        level = level.tb_next
    weights = [p for p in level.tb_frame.f_globals["head"].parameters() if p.grad is not None]
    before = [(p.clone(), p.grad.clone()) for p in weights]
    bs.explain(error)
    assert all(
        torch.equal(p, old) and torch.equal(p.grad, grad) for p, (old, grad) in zip(weights, before, strict=True)
    )


@pytest.mark.parametrize("source", [HIDDEN_STATE, MODIFIED["BS202"].replace("y += 1", "y += 1  # here")])
def test_the_variables_of_a_thread_that_has_ended_are_known(source):
    errors = []
    thread = threading.Thread(target=lambda: errors.append(failing(source)))
    thread.start()
    thread.join()
    assert bs.explain(errors[0]).source == at(source)
