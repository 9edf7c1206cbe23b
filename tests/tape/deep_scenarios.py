"""Programs that free deep graphs after a capture. Each runs in a process of its own: a failure is a crash."""

from __future__ import annotations

import gc
import queue
import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch

from backsight.tape import capture

MAIN = 0
"""In place of a stack size: the main thread."""


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2.0

    @staticmethod
    def backward(ctx, grad):
        return grad * 2.0


def chain(y, ops):
    for _ in range(ops):
        y = y.neg()
    return y


def branching(y, ops):
    for _ in range(ops // 2):
        y = y + y.sin()
    return y


def residual(y, ops):
    trunk = y
    for i in range(ops):
        y = y.sin()
        if i % 50 == 0:
            y = y + trunk
        if i % 5000 == 0:
            trunk = y
    return y


def custom(y, ops):
    for _ in range(ops):
        y = Twice.apply(y)
    return y


def interleaved(y, ops):
    """Two chains made in turns, so that neighbours in a chain are far apart in the order of creation."""
    chains = [y * 1.0 for _ in range(10)]
    for i in range(ops):
        chains[i % 10] = chains[i % 10].neg()
    return torch.stack(chains)


SHAPES: dict[str, Callable[..., torch.Tensor]] = {
    f.__name__: f for f in (chain, branching, residual, custom, interleaved)
}


def start():
    return torch.ones(1, requires_grad=True) * 1.0


def in_thread(stack: int, program: Callable[..., None], *args: Any) -> None:
    """Run `program` in a thread with a stack of `stack` bytes, or in this one for MAIN; its failure is ours."""
    if stack == MAIN:
        program(*args)
        return
    failures: list[BaseException] = []

    def body() -> None:
        try:
            program(*args)
        except BaseException as error:
            failures.append(error)

    threading.stack_size(stack)
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def captured_then_dropped(shape: str, ops: int) -> None:
    y = SHAPES[shape](start(), ops)
    g = capture(y, details=False)
    assert len(g) > ops // 2
    del y


def inner_tensor_kept_longer(ops: int) -> None:
    middle = chain(start(), ops)
    y = chain(middle, ops)
    capture(y, details=False)
    del y
    assert len(capture(middle, details=False)) > ops
    del middle


def backward_then_dropped(ops: int) -> None:
    w = torch.ones(1, requires_grad=True)
    y = residual(w * 1.0, ops)
    capture(y, details=False)
    y.backward()
    assert w.grad is not None
    del y


def captured_twice(ops: int) -> None:
    y = chain(start(), ops)
    first = capture(y, details=False)
    assert len(capture(y, details=False)) == len(first)
    del y


def extended_and_captured_again(ops: int) -> None:
    y = chain(start(), ops)
    first = capture(y, details=False)
    y = chain(y, ops)
    second = capture(y, details=False)
    assert len(second) == len(first) + ops
    del y


def grown_by_small_steps(ops: int) -> None:
    """Captured every few hundred operations, each time from the new end."""
    y = start()
    for _ in range(ops // 900):
        y = chain(y, 900)
        capture(y, details=False)
    del y


def many_small_captured_graphs_joined(ops: int) -> None:
    """Each too small to be guarded when it was captured; what joins them was never walked."""
    y = start()
    for _ in range(ops // 900):
        part = chain(start(), 900)
        capture(part, details=False)
        y = y + part
    del y, part


def dropped_in_another_thread(ops: int, stack: int) -> None:
    boxes: queue.Queue[list[torch.Tensor]] = queue.Queue()
    box = [chain(start(), ops)]
    capture(box[0], details=False)
    boxes.put(box)
    del box
    in_thread(stack, lambda: boxes.get().clear())


def made_in_two_threads(ops: int) -> None:
    """The sequence numbers of the second thread begin at zero again."""
    box = [start()]

    def grow() -> None:
        box[0] = chain(box[0], ops)

    grow()
    in_thread(1 << 20, grow)
    assert len(capture(box[0], details=False)) > 2 * ops
    box.clear()


def dropped_by_the_cyclic_collector(shape: str, ops: int) -> None:
    class Holder:
        pass

    holder: Any = Holder()
    holder.itself = holder
    holder.loss = SHAPES[shape](start(), ops)
    holder.node = holder.loss.grad_fn
    capture(holder.loss, details=False)
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    assert gone() is None


def kept_by_a_cycle_through_a_hook(ops: int) -> None:
    y = chain(start(), ops)
    end = y * 1.0
    end.register_hook(lambda grad, held=end: grad + len(held.shape))
    capture(end, details=False)
    del y, end
    gc.collect()


def double_backward(ops: int) -> None:
    w = torch.ones(1, requires_grad=True)
    (grad,) = torch.autograd.grad(residual(w * 1.0, ops), w, create_graph=True)
    capture(grad, details=False)
    del grad


def interrupted(ops: int, function: str, line: int, error: type[BaseException]) -> None:
    """Raise `error` in the middle of a capture, on a line of one of its functions, as a signal or a full heap would."""
    y = chain(start(), ops)
    met = 0

    def on_line(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal met
        if event == "line":
            met += 1
            if met == line:
                sys.settrace(None)
                raise error("from outside")
        return on_line

    def on_call(frame: FrameType, event: str, arg: object) -> Any:
        inside = frame.f_code.co_name == function and "backsight" in frame.f_code.co_filename
        return on_line if inside else None

    sys.settrace(on_call)
    try:
        capture(y, details=False)
    except error:
        pass
    else:
        raise AssertionError(f"line {line} of {function} was never reached")
    finally:
        sys.settrace(None)
    assert gc.isenabled()
    del y


def interrupted_by_a_signal(ops: int, delay: float) -> None:
    import signal

    y = chain(start(), ops)

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, delay)
    try:
        capture(y, details=False)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        pass
    assert gc.isenabled()
    del y


def walked_by_hand(ops: int) -> None:
    """What the guard is for: the same walk without it."""
    y = chain(start(), ops)
    node = y.grad_fn
    while node.next_functions:
        node = node.next_functions[0][0]
    del node
    del y
