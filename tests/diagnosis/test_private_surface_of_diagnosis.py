"""What diagnosis takes from inside PyTorch is still there: each test names what would stop working."""

import warnings

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from backsight.diagnosis import _torch
from backsight.story.failure import failure_of
from backsight.tape import ENGINE_CALLS
from backsight.tape._torch import forward_class


def levels(program):
    try:
        program()
    except Exception as error:
        return failure_of(error).levels
    raise AssertionError("no error")


class TestEngineCalls:
    """Without them, no explanation knows what backward was called on."""

    @pytest.mark.parametrize(
        "program",
        [
            lambda x: x.backward(),
            lambda x: torch.autograd.backward(x),
            lambda x: torch.autograd.grad(x, x),
        ],
    )
    def test_hold_the_roots(self, program):
        x = torch.ones(3, requires_grad=True)
        held = [
            level.variables[ENGINE_CALLS[level.frame.f_code][1]]
            for level in levels(lambda: program(x))
            if level.frame.f_code in ENGINE_CALLS
        ]
        assert held
        assert all(each is x or (len(each) == 1 and each[0] is x) for each in held)

    def test_hold_the_inputs_of_grad_even_of_an_iterator(self):
        x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)

        def program():
            torch.autograd.grad((x * 2).sum(), (each for each in (x, y)))

        try:
            program()
        except RuntimeError as error:
            failure = failure_of(error)
        assert failure.call == "grad"
        assert [each is y for each in failure.inputs] == [False, True]


def test_an_optimizer_holds_the_group_that_it_refuses():
    leaf = torch.ones(3, requires_grad=True)
    result = leaf * 2
    (level,) = [
        level
        for level in levels(lambda: torch.optim.Adam([leaf, result]))
        if level.frame.f_code is _torch.ADD_PARAMETERS
    ]
    assert [each is result for each in level.variables["param_group"]["params"]] == [False, True]


def test_ddp_has_a_forward_of_its_own_whose_self_holds_the_module():
    assert _torch.DDP_FORWARD.co_name == "forward"
    assert _torch.DDP_FORWARD.co_varnames[0] == "self"


@pytest.mark.parametrize("early_stop", [True, False])
def test_the_frames_of_checkpoint_lead_to_the_function(early_stop):
    calls = []

    def function(x):
        calls.append(1)
        return x.sin() if len(calls) == 1 else x.sin().cos().exp() if not early_stop else x * 2

    def program():
        x = torch.ones(3, requires_grad=True)
        with torch.utils.checkpoint.set_checkpoint_early_stop(early_stop):
            y = checkpoint(function, x, use_reentrant=False)
        y.sum().backward()

    found = [
        _torch.checkpointed(dict(level.variables))
        for level in levels(program)
        if level.frame.f_code.co_filename == _torch.CHECKPOINT_FILE
    ]
    assert any(each is function for each in found)
    assert all(each is function or each is None for each in found)


def test_a_custom_node_leads_to_its_class():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    node = Double.apply(torch.ones(3, requires_grad=True)).grad_fn
    assert forward_class(type(node)) is Double
    assert forward_class(type(torch.ones(3, requires_grad=True).exp().grad_fn)) is None


def test_attributes_are_read_past_those_of_a_subclass():
    class Liar(torch.Tensor):
        shape = grad_fn = requires_grad = is_leaf = _base = "a lie"

    tensor = (torch.ones(3, requires_grad=True) * 2)[:2].as_subclass(Liar)
    read = {name: getattr(torch.Tensor, name).__get__(tensor) for name in ("shape", "requires_grad", "is_leaf")}
    assert read == {"shape": (2,), "requires_grad": True, "is_leaf": False}
    assert torch.Tensor.grad_fn.__get__(tensor).name() == "AliasBackward0"
    assert isinstance(torch.Tensor._base.__get__(tensor), torch.Tensor)
    assert torch.Tensor.untyped_storage(tensor)._cdata == tensor.untyped_storage()._cdata


def test_a_custom_node_tells_which_arguments_need_a_gradient():
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            return x * factor

        @staticmethod
        def backward(ctx, gradient):
            return gradient, None

    node = Scale.apply(torch.ones(3, requires_grad=True), 2.0).grad_fn
    assert torch.autograd.Function.needs_input_grad.__get__(node) == (True, False)


def test_the_frames_of_checkpoint_lead_to_what_both_runs_saved():
    calls = []

    def function(x):
        calls.append(1)
        return x.sin() if len(calls) == 1 else x.double().sin()

    x = torch.ones(3, requires_grad=True)
    y = checkpoint(function, x, use_reentrant=False)
    found = [pair for level in levels(lambda: y.sum().backward()) if (pair := _torch.recomputed(dict(level.variables)))]
    frame, run = found[0]
    (holder,) = [reference() for reference in frame.weak_holders]
    assert frame.x_metadatas[0]["dtype"] is torch.float32
    assert frame.recomputed[run][holder.handles[run]].dtype is torch.float64
    assert _torch.saved_as(y.grad_fn, holder) == "self"
    assert _torch.saved_as(y.grad_fn, object()) == ""


def test_inference_tensors_say_so_past_what_a_subclass_overrides():
    with torch.inference_mode():
        made = torch.ones(3)
    assert torch.Tensor.is_inference(made)
    assert not torch.Tensor.is_inference(torch.ones(3))


def test_warnings_go_through_showwarning():
    shown = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *given, **named: shown.append(str(message))
        (torch.ones(3, requires_grad=True) * 2).grad
    assert len(shown) == 1
    assert shown[0].startswith("The .grad attribute of a Tensor that is not a leaf")


def test_vmap_stands_between_its_caller_and_the_function_that_it_maps():
    def mapped(x):
        raise ValueError

    found = [level.frame.f_code for level in levels(lambda: torch.vmap(mapped)(torch.ones(3)))]
    assert 0 < found.index(_torch.VMAP) < found.index(mapped.__code__)


@pytest.mark.parametrize("view", ["a", "b"])
def test_asking_for_the_history_of_a_lost_view_is_what_raises(view):
    """The reason why these explanations are careful with such views."""
    x = torch.randn(4, requires_grad=True) * 2
    views = dict(zip("ab", x.chunk(2), strict=True))
    x += 1
    with pytest.raises(RuntimeError, match="its base or another view of its base has been modified inplace"):
        views[view].grad_fn


def test_the_engine_counts_tensors_alone():
    """What `argument_at` relies on: an edge for each tensor, in the order of the arguments."""

    class Op(torch.autograd.Function):
        @staticmethod
        def forward(ctx, k, x, fixed, y):
            return x + y

        @staticmethod
        def backward(ctx, g):
            return None, g, None, g

    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    made = Op.apply(3, x, torch.ones(2), y)  # held: before PyTorch 2.13 a custom node dies with what it made
    node = made.grad_fn
    assert node.needs_input_grad == (False, True, False, True)
    assert [edge is not None for edge, _ in node.next_functions] == [True, False, True]
