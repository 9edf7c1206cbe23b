"""PyTorch's private attributes that the tape reads, each with what we need of it. A failure names what has changed."""

import subprocess
import sys
import threading

import pytest
import torch
from torch.autograd.graph import get_gradient_edge

from backsight.tape import _torch


class Half(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x / 2

    @staticmethod
    def backward(ctx, grad):
        return grad / 2


alone = pytest.mark.skipif(
    not hasattr(torch._C._autograd.SavedTensor, "unpack"), reason="this PyTorch unpacks a saved tensor by its node only"
)


@pytest.fixture
def w():
    return torch.ones(2, 3, requires_grad=True)


def test_sequence_numbers_rise_with_creation(w):
    y = w.sin().cos()
    below = y.grad_fn.next_functions[0][0]
    assert _torch.sequence_number(y.grad_fn) > _torch.sequence_number(below), "_sequence_nr() fell in creation order"


def test_a_leaf_has_the_number_that_stands_for_none(w):
    node = get_gradient_edge(w).node
    assert _torch.sequence_number(node) == _torch.NO_SEQUENCE, "AccumulateGrad has another _sequence_nr()"
    assert type(node).__name__ == "AccumulateGrad", "the leaves' nodes have another class name"
    assert node.variable is w, "AccumulateGrad.variable is not the leaf itself"


def test_the_next_number_is_the_one_that_the_next_node_gets(w):
    number = _torch.next_sequence_number()
    said = "torch._C._autograd._get_sequence_nr() is not the number of the next node"
    assert w.sin().grad_fn._sequence_nr() == number, said
    assert _torch.next_sequence_number() == number + 1, said


def test_numbers_begin_anew_in_each_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(_torch.next_sequence_number()))
    thread.start()
    thread.join()
    assert found == [0], "a new thread's sequence numbers no longer begin at 0; then CallLog may be made simpler"


def test_a_hook_knows_that_it_is_inside_of_a_backward_pass(w):
    seen = []
    w.register_hook(lambda _: seen.append(_torch.in_backward()))
    w.register_post_accumulate_grad_hook(lambda _: seen.append(_torch.in_backward()))
    assert not _torch.in_backward()
    w.sum().backward()
    assert seen == [True, True]
    assert not _torch.in_backward()


def test_a_node_knows_what_it_made(w):
    for y in (w.sin(), Half.apply(w)):
        (metadata,) = _torch.input_metadata(y.grad_fn)
        described = (tuple(metadata.shape), metadata.dtype, metadata.device)
        assert described == ((2, 3), torch.float32, torch.device("cpu")), "_input_metadata describes no output"


def test_a_custom_node_knows_its_class(w):
    assert _torch.forward_class(type(Half.apply(w).grad_fn)) is Half, "_forward_cls is not the user's Function"
    assert _torch.forward_class(type(w.sin().grad_fn)) is None, "_forward_cls appeared on built-in nodes"


def test_raw_handles_run_no_hook_and_getters_do(w):
    unpacked = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: unpacked.append(1) or t):
        node = w.exp().grad_fn
    raw = getattr(node, _torch.RAW + "result")
    assert _torch.can_read(raw), "SavedTensor has no .data or no .unpack_hook: saved tensors are reported as unread"
    assert raw.unpack_hook is not None, ".unpack_hook does not tell of a hook"
    raw.data  # looked at for its effect: there is none
    assert unpacked == [], ".data runs the unpack hook"
    getattr(node, _torch.CHECKED + "result")
    assert unpacked == [1], "the checking getter no longer unpacks"


def test_a_raw_handle_without_hook_holds_the_tensor(w):
    y = w * w
    raw = getattr(y.grad_fn, _torch.RAW + "self")
    assert raw.unpack_hook is None
    assert raw.data is w, ".data is not the saved tensor itself"


def test_a_released_handle_is_empty_and_raises(w):
    y = w.exp()
    node = y.grad_fn
    y.sum().backward()
    assert node._raw_saved_result.data is None, "a backward no longer empties .data"
    with pytest.raises(RuntimeError, match="a second time"):
        getattr(node, _torch.CHECKED + "result")


@alone
def test_an_input_checks_its_own_version(w):
    h = w.sin()
    y = h * h
    raw = y.grad_fn._raw_saved_self
    h.add_(1)
    with pytest.raises(RuntimeError, match=r"is at version 1; expected version 0"):
        raw.unpack()


def test_an_output_is_checked_by_its_node(w):
    y = w.exp()
    y.add_(1)
    node = y.grad_fn.next_functions[0][0]
    with pytest.raises(RuntimeError, match=r"is at version 1; expected version 0"):
        getattr(node, _torch.CHECKED + "result")


def test_a_custom_node_has_raw_handles(w):
    y = Half.apply(w)
    (raw,) = y.grad_fn._raw_saved_tensors
    assert raw.data is w, "_raw_saved_tensors holds something else than what save_for_backward() was given"


def test_a_node_keeps_metadata_while_it_lives(w):
    class Sentinel:
        def __del__(self):
            died.append(1)

    died = []
    y = w.sin().cos()
    node = y.grad_fn.next_functions[0][0]
    node.metadata["_backsight_test"] = Sentinel()
    del node
    assert died == [], "node.metadata does not live as long as the node"
    del y
    assert died == [1], "node.metadata outlives the node: hand-offs would leak"


def test_looking_at_a_tensor_can_be_kept_from_its_subclass():
    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise RuntimeError("user code ran")

    tensor = torch.ones(2).as_subclass(Loud)
    with _torch.no_torch_function():
        assert tuple(tensor.shape) == (2,)


def test_parameters_are_told_without_asking_them():
    class Deaf(torch.Tensor):
        def __getattr__(self, name):
            raise RuntimeError("user code ran")

    marked = torch.ones(1).as_subclass(Deaf)
    assert not _torch.is_parameter(marked)
    assert not _torch.is_parameter(torch.ones(1))
    assert _torch.is_parameter(torch.nn.Parameter(torch.ones(1)))
    assert _torch.is_parameter(torch.nn.Parameter(torch.ones(1).as_subclass(Deaf)))


def test_a_module_keeps_its_parts_in_three_dicts():
    inner = torch.nn.BatchNorm1d(2, affine=False)
    outer = torch.nn.Sequential(inner, torch.nn.Linear(2, 1))
    assert _torch.registered(outer, "_modules") == {"0": inner, "1": outer[1]}
    assert list(_torch.registered(inner, "_buffers")) == ["running_mean", "running_var", "num_batches_tracked"]
    assert list(_torch.registered(outer[1], "_parameters")) == ["weight", "bias"]
    assert _torch.registered(torch.nn.Module.__new__(torch.nn.Module), "_modules") == {}


def test_a_leaf_says_in_which_dtype_it_wants_its_gradient():
    x = torch.ones(2, requires_grad=True)
    assert _torch.leaf_dtype(x, torch.float32) == torch.float32


def test_forward_mode_is_loaded_without_a_warning():
    program = (
        "import torch\n"
        "from backsight.tape import load_forward_mode\n"
        "load_forward_mode()\n"
        "torch.func.jvp(torch.sin, (torch.ones(2),), (torch.ones(2),))\n"
    )
    ran = subprocess.run([sys.executable, "-W", "error::FutureWarning", "-c", program], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr


def test_a_node_is_told_from_those_that_come_after_it(w):
    y = w.sin()
    first = _torch.identity(y.grad_fn)
    others = {_torch.identity(w.cos().grad_fn) for _ in range(100)}  # freed at once, their wrappers' memory with them
    assert _torch.identity(y.grad_fn) == first, "what a node owns in Python does not live as long as the node"
    assert first not in others
