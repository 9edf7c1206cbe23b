"""Finding what is alive takes hold of nothing else."""

import gc
import sys
import threading

import torch
from torch import nn

from backsight.tape import alive


class Mine(torch.Tensor):
    pass


def test_every_object_of_a_class_and_of_those_that_inherit_from_it_is_found():
    held = [torch.ones(2), nn.Parameter(torch.ones(2)), torch.ones(2).as_subclass(Mine), nn.Linear(2, 2).weight.data]
    expected = {id(each) for each in gc.get_objects() if isinstance(each, torch.Tensor)}
    assert {id(each) for each in alive(torch.Tensor)} == expected >= set(map(id, held))
    optimizer = torch.optim.Adam(nn.Linear(2, 2).parameters())
    assert any(each is optimizer for each in alive(torch.optim.Optimizer))


def test_tuples_that_other_threads_are_building_are_left_alone():
    """A tuple of an iterator is made to measure at its end, which fails if anybody else holds it."""
    stop, failed = threading.Event(), []

    def build():
        try:
            while not stop.is_set():
                tuple(object() for _ in range(1000))
        except SystemError as error:
            failed.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=build) for _ in range(4)]
    try:
        for thread in threads:
            thread.start()
        for _ in range(20):
            alive(torch.Tensor)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(before)
    assert failed == []
