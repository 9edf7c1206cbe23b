"""Which axis of which tensor is that of the samples, as an exact watch sees it."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from backsight.tracing import aligned, along, watch


def seen(program):
    with watch(level="exact") as held:
        program()
    return aligned(held), along(held)


def test_equal_sizes_alone_accuse_nothing():
    def program():
        window, images = torch.rand(6), torch.rand(6, 1, 6, 6)
        (window * images).sum()

    assert seen(program) == ([], [])


@pytest.mark.parametrize("meet", [lambda h, t: h + t[:, None], lambda h, t: F.cross_entropy(h, t.long())])
def test_what_meets_the_samples_elsewhere_belongs_to_them(meet):
    def program():
        t, images = torch.rand(6), torch.rand(6, 1, 6, 6)
        meet((t * images).flatten(1), t)

    ((each, line, texts),), _ = seen(program)
    assert (each.axis, texts) == (3, ("t", "images")) and line is not None


def test_what_is_given_its_dimensions_is_in_order():
    def program():
        t, images = torch.rand(6), torch.rand(6, 1, 6, 6)
        noisy = t.view(-1, 1, 1, 1) * images
        noisy.flatten(1) + t[:, None]

    assert seen(program) == ([], [])


@pytest.mark.parametrize(
    "moved",
    [
        lambda x: x.transpose(0, 1).transpose(0, 1),
        lambda x: x.permute(1, 2, 0).permute(2, 0, 1),
        lambda x: x.reshape(6, 7, 1, 5).squeeze(2),
        lambda x: F.linear(x, torch.rand(8, 5)).relu(),
        lambda x: torch.cat([torch.zeros(6, 1, 5), x], dim=1),
        lambda x: torch.stack([x, x]).mean(0),
        lambda x: x.unsqueeze(1).squeeze(1)[:, 1:],
    ],
)
def test_the_samples_are_followed_through_what_keeps_them(moved):
    def program():
        x = torch.rand(6, 7, 5)
        h = moved(x)
        mixed, _ = nn.GRU(h.shape[2], 4)(h)
        F.mse_loss(mixed[:, -1, :1], x[:, 0, :1])

    (layer,) = [each for each, _ in seen(program)[1]]
    assert layer.layer == "GRU"


def test_a_layer_that_is_given_the_steps_first_is_in_order():
    def program():
        x = torch.rand(6, 6, 5)
        mixed, _ = nn.GRU(5, 4)(x.transpose(0, 1))
        F.mse_loss(mixed[-1, :, :1], x[:, 0, :1])

    assert seen(program) == ([], [])
