"""Errors of functions that are mapped over a batch by torch.vmap."""

from __future__ import annotations

import torch
from errors_of_graphs import leaf
from provoking import provokes


def mapped(function, *others, **how):
    return torch.vmap(function, **how)(torch.ones(4, 3), *others)


@provokes("BS226")
def an_entry_written_under_vmap():
    def f(x):
        out = torch.zeros(3)
        out[0] = x[0]
        return out

    mapped(f)


@provokes("BS226")
def a_sum_in_place_under_vmap():
    mapped(lambda x: torch.zeros(3).add_(x))


@provokes("BS226")
def an_index_written_under_vmap():
    def f(x, index):
        out = torch.zeros(3)
        out[index] = x[0]
        return out

    mapped(f, torch.zeros(4, dtype=torch.int64))


@provokes("BS226")
def a_scatter_under_vmap():
    mapped(lambda x, index: torch.zeros(3).scatter_(0, index, x), torch.zeros(4, 3, dtype=torch.int64))


@provokes("BS226")
def random_numbers_under_vmap():
    mapped(lambda x: x + torch.randn(3))


@provokes("BS226")
def dropout_under_vmap():
    mapped(torch.nn.Dropout())


@provokes("BS226")
def random_numbers_in_place_under_vmap():
    mapped(lambda x: x + torch.zeros(3).normal_(), randomness="different")


@provokes("BS226")
def a_condition_under_vmap():
    mapped(lambda x: x if x.sum() > 0 else -x)


@provokes("BS226")
def a_number_read_under_vmap():
    mapped(lambda x: x * float(x.sum()))


@provokes("BS226")
def a_mask_under_vmap():
    mapped(lambda x: x[x > 0])


@provokes("BS226")
def nonzero_under_vmap():
    mapped(torch.nonzero)


@provokes(None)
def a_number_returned_under_vmap():
    mapped(lambda x: 1.0)


@provokes(None)
def sizes_that_do_not_fit_under_vmap():
    mapped(lambda x, y: x, torch.ones(5))


@provokes(None)
def backward_under_vmap():
    mapped(lambda x: (leaf() * x).sum().backward())


@provokes(None)
def a_broadcast_in_place_that_does_not_fit():
    torch.zeros(3).add_(torch.ones(4, 3))
