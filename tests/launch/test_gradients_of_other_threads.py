"""A gradient is read in the thread that trains with it: another one's backward replaces it without Python's lock."""

from __future__ import annotations

import threading

import pytest
import torch

from backsight.launch.first_steps import FirstSteps, OneThread


class Told(torch.nn.Parameter):
    """A parameter that notes which threads read its gradient."""

    @property
    def grad(self):
        self.__dict__.setdefault("readers", set()).add(threading.get_ident())
        return torch.Tensor.grad.__get__(self)

    @grad.setter
    def grad(self, value):
        torch.Tensor.grad.__set__(self, value)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(3)
        self.norm.weight = Told(torch.ones(3))
        self.weight = Told(torch.ones(3))

    def forward(self, x):
        return self.norm(x) @ self.weight


def _train(barrier, read, steps=70):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(steps):
        barrier.wait()
        optimizer.zero_grad()
        model(torch.rand(5, 3)).square().mean().backward()
        barrier.wait()
        optimizer.step()
    read.append((threading.get_ident(), [each.readers for each in (model.weight, model.norm.weight)]))


@pytest.mark.parametrize("level", [None, "lines"])
def test_no_thread_reads_the_gradients_of_another_ones_training(level):
    barrier, read = threading.Barrier(3), []
    observer = FirstSteps(level)
    threads = [threading.Thread(target=_train, args=(barrier, read)) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    observer.stop()
    assert len(read) == 3 and not observer.failed
    assert all(readers == {thread} for thread, held in read for readers in held)


def test_the_first_thread_that_steps_is_followed_and_after_it_the_next():
    one, said = OneThread(), []

    def steps(wait):
        said.append(one.steps_here())
        wait.wait(5)
        said.append(one.is_here())

    first, second = threading.Event(), threading.Event()
    a, b = (threading.Thread(target=steps, args=(event,)) for event in (first, second))
    assert one.is_here()
    a.start()
    while not said:
        pass
    b.start()
    second.set()
    b.join()
    assert said == [True, False, False] and not one.is_here()
    first.set()
    a.join()
    assert said[3:] == [True] and one.steps_here() and one.is_here()
