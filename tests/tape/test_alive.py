"""Finding what is alive takes hold of nothing else."""

import gc

import torch
from building import tuples_being_built
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
    with tuples_being_built(object):
        for _ in range(20):
            alive(torch.Tensor)
