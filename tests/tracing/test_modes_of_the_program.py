"""Modes and tensor subclasses of the program see what they would have seen, and are where they would have been."""

from contextlib import nullcontext
from typing import ClassVar

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sharded import examples
from torch import nn
from torch._C import _len_torch_function_stack, _pop_torch_function_stack
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils import _device
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

import backsight as bs
from backsight.launch.first_steps import FirstSteps
from backsight.tracing.functions import Functions


class Calls(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


class Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


class Sub(torch.Tensor):
    seen: ClassVar = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})


class Program:
    """A small training, one action at a time; `trace` is what it can see of the world after each."""

    def __init__(self):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        self.fast = nn.TransformerEncoderLayer(4, 2, 4, batch_first=True).eval()
        self.sub = torch.ones(3).as_subclass(Sub).requires_grad_()
        self.optimizer = torch.optim.Adam([*self.model.parameters(), self.sub], lr=0.1)
        self.modes, self.within = [], []
        Sub.seen = []
        self.trace = []

    def play(self, actions):
        self.play_on(actions)
        self.leave_all()
        return self.trace

    def play_on(self, actions):
        for action in actions:
            self.act(action)

    def leave_all(self):
        while self.within:
            self.act("leave")

    def act(self, action):
        """Do one thing; what it raises, as on tensors of several devices, is what the program sees too."""
        try:
            getattr(self, action)()
        except (RuntimeError, NotImplementedError, AssertionError) as error:
            self.trace.append((type(error), str(error)))
        self.look()

    def look(self):
        functions = [type(m).__name__ for m in _get_current_function_mode_stack() if type(m) is not Functions]
        dispatch = [type(m).__name__ for m in _get_current_dispatch_mode_stack()]
        seen = [list(mode.seen) for mode in self.modes]
        self.trace.append((functions, dispatch, torch.ones(1).device.type, seen, list(Sub.seen)))

    def enter(self, mode):
        mode.__enter__()
        self.within.append(mode)

    def function_mode(self):
        self.enter(self.kept(Calls()))

    def dispatch_mode(self):
        self.enter(self.kept(Operations()))

    def kept(self, mode):
        self.modes.append(mode)
        return mode

    def device(self):
        self.enter(torch.device("meta"))

    def default_device(self):
        # Within `with torch.device(...)`, PyTorch takes that one off and puts it back below all other modes, the
        # program's as well as ours: then it ends by taking off another.
        if not any(type(mode) is torch.device for mode in self.within):
            self.enter(DeviceContext("cpu"))

    def leave(self):
        if self.within:
            self.within.pop().__exit__(None, None, None)

    def forward(self):
        x = torch.randn(2, 3, device="cpu")
        self.loss = self.model(x).square().mean() + (self.sub * self.sub).sum()

    def backward(self):
        if getattr(self, "loss", None) is not None:
            self.loss.backward()
            self.loss = None

    def step(self):
        self.optimizer.step()
        self.optimizer.zero_grad()

    def closure(self):
        def again():
            self.forward()
            self.backward()
            return 0.0

        self.optimizer.step(again)

    def infer(self):
        with torch.no_grad():
            self.fast(torch.ones(1, 2, 4, device="cpu"))


def cleared(trace):
    """Take off what PyTorch itself has left behind: contexts of devices within one another end by popping others."""
    while _len_torch_function_stack():
        _pop_torch_function_stack()
    _device.CURRENT_DEVICE = None
    return trace


ACTIONS = ["function_mode", "dispatch_mode", "device", "default_device", "leave", "leave", "forward", "backward"]
ACTIONS += ["step", "closure", "infer"]


class Watched:
    """As `backsight run` watches, or a watch alone."""

    def __init__(self, how):
        self.how = how

    def __enter__(self):
        self.part = FirstSteps("exact") if self.how == "run" else bs.watch(level="exact", nonfinite=self.how == "nan")
        if self.how != "run":
            self.part.__enter__()

    def __exit__(self, *error):
        if self.how == "run":
            self.part.stop()
            assert not self.part.failed
        else:
            self.part.__exit__(*error)


@settings(max_examples=examples(150), deadline=None)
@given(actions=st.lists(st.sampled_from(ACTIONS), max_size=14), how=st.sampled_from(["run", "exact", "nan"]))
def test_any_order_of_enter_and_exit_is_seen_as_without_us(actions, how):
    plain = cleared(Program().play(actions))
    with Watched(how):
        watched = Program().play(actions)
    assert cleared(watched) == plain


@settings(max_examples=examples(60), deadline=None)
@given(
    before=st.lists(st.sampled_from(ACTIONS), max_size=5),
    within=st.lists(st.sampled_from([a for a in ACTIONS if a != "leave"]), max_size=6),
    after=st.lists(st.sampled_from(ACTIONS), max_size=5),
)
def test_a_watch_that_begins_and_ends_within_modes_of_the_program_leaves_them_in_place(before, within, after):
    def play(watch):
        program = Program()
        program.play_on(before)
        with Watched("exact") if watch else nullcontext():
            program.play_on(within)
        program.play_on(after)
        program.leave_all()
        return cleared(program.trace)

    assert play(watch=True) == play(watch=False)


@pytest.mark.parametrize("how", ["run", "exact", "nan"])
def test_a_device_context_ends_where_it_ends(how):
    with Watched(how):
        w = torch.ones(2, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)
        with torch.device("meta"):
            (w * w).sum().backward()
            optimizer.step()
        assert torch.ones(1).device.type == "cpu"


@pytest.mark.parametrize("how", ["run", "exact", "nan"])
def test_a_default_device_that_is_set_and_reset_while_watched_is_gone(how):
    try:
        with Watched(how):
            w = torch.ones(2, requires_grad=True)
            optimizer = torch.optim.SGD([w], lr=0.1)
            torch.set_default_device("meta")
            (w * w).sum().backward()
            optimizer.step()
            assert torch.ones(1).device.type == "meta"
            torch.set_default_device(None)
            assert torch.ones(1).device.type == "cpu"
    finally:
        torch.set_default_device(None)
