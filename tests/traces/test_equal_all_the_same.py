"""Pairs of programs of which nothing that counts differs, though something does: rounding, scratch memory, layouts."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

import backsight as bs
from backsight.traces.flow import _adds_up, _Parts, _Statistics


class Attention(nn.Module):
    """Attention whose keys have a bias: every query's weights are a softmax, so its gradient is 0 but for rounding."""

    def __init__(self, fused):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(16, 16) for _ in range(4))
        self.fused = fused

    def forward(self, x):
        q, k, v = (each(x).view(4, 6, 2, 8).transpose(1, 2) for each in (self.q, self.k, self.v))
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v)
        else:
            y = (q @ k.transpose(-2, -1) / 8**0.5).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(4, 6, 16)).mean(1)


class Scored(nn.Module):
    """Users and items, with gradients that are sparse or dense."""

    def __init__(self, sparse):
        super().__init__()
        self.user, self.item = (nn.Embedding(9, 4, sparse=sparse) for _ in range(2))

    def forward(self, x):
        return (self.user(x[:, 0]) * self.item(x[:, 1])).sum(-1)


def trained(path, model, optimizer, data, loss, parts=1, extra=None):
    with bs.trace(path, steps=(0, 1), model=model):
        for x, y in data:
            optimizer.zero_grad()
            if extra is not None:
                extra(x)
            for part, wanted in zip(x.chunk(parts), y.chunk(parts), strict=True):
                (loss(model(part), wanted) / parts).backward()
            optimizer.step()
    return path


def attention(path, fused, adam=1e-3):
    torch.manual_seed(0)
    model, generator = Attention(fused), torch.Generator().manual_seed(5)
    data = [(torch.randn(4, 6, 16, generator=generator), torch.randint(0, 16, (4,), generator=generator))
            for _ in range(3)]  # fmt: skip
    return trained(path, model, torch.optim.Adam(model.parameters(), adam), data, F.cross_entropy)


def scored(path, sparse, make):
    torch.manual_seed(0)
    model, generator = Scored(sparse), torch.Generator().manual_seed(3)
    data = [(torch.randint(0, 9, (6, 2), generator=generator), torch.randn(6, generator=generator)) for _ in range(3)]
    return trained(path, model, make([*model.parameters()]), data, F.mse_loss)


def straight(path, parts=1, extra=None):
    torch.manual_seed(0)
    model, generator = nn.Linear(6, 3), torch.Generator().manual_seed(3)
    data = [(torch.randn(8, 6, generator=generator), torch.randn(8, 3, generator=generator)) for _ in range(3)]
    return trained(path, model, torch.optim.SGD(model.parameters(), 0.1), data, F.mse_loss, parts, extra)


def test_what_adam_makes_of_a_gradient_that_is_nothing_but_rounding_is_rounding(tmp_path):
    difference = bs.diff(attention(tmp_path / "a", False), attention(tmp_path / "b", True))
    apart = {point.name: point.relative for step in difference.steps for point in step.points if point.what == "grad"}
    assert apart["model.k.bias"] > 0.1 > 1e-4 > apart["model.q.bias"]
    assert difference.cls == "noise", str(difference)


def test_a_sparse_gradient_is_compared_with_a_dense_one_as_what_it_is(tmp_path):
    sgd = lambda held: torch.optim.SGD(held, 0.1)  # noqa: E731
    difference = bs.diff(scored(tmp_path / "a", True, sgd), scored(tmp_path / "b", False, sgd))
    assert difference.cls in ("same", "noise"), str(difference)


def test_the_adam_of_sparse_gradients_is_another_optimizer(tmp_path):
    sparse, dense = torch.optim.SparseAdam, torch.optim.Adam
    difference = bs.diff(scored(tmp_path / "a", True, lambda held: sparse(held, 0.1)),
                         scored(tmp_path / "b", False, lambda held: dense(held, 0.1)))  # fmt: skip
    assert difference.first.code == "BS508", str(difference)
    assert ": the optimizer is SparseAdam in A and Adam in B.\n" in str(difference)


def test_a_result_that_is_used_for_nothing_is_no_difference(tmp_path):
    a = straight(tmp_path / "a", extra=lambda x: x.exp().sum(0))
    b = straight(tmp_path / "b", extra=lambda x: x.exp().sum(1))
    assert bs.diff(a, b).cls == "same", str(bs.diff(a, b))


def test_parts_of_a_batch_are_no_other_data_and_their_loss_is_not_that_of_the_batch(tmp_path):
    difference = bs.diff(straight(tmp_path / "a"), straight(tmp_path / "b", parts=2))
    assert difference.cls == "noise", str(difference)
    assert "data differ" not in str(difference) and "loss" not in str(difference)


def test_a_sum_in_place_of_a_mean_is_named(tmp_path):
    def trainings(name, reduction, divided):
        torch.manual_seed(0)
        model, generator = nn.Linear(6, 3), torch.Generator().manual_seed(3)
        data = [(torch.randn(8, 6, generator=generator), torch.randint(0, 3, (8,), generator=generator))
                for _ in range(3)]  # fmt: skip
        loss = lambda y, t: F.cross_entropy(y, t, reduction=reduction) / divided  # noqa: E731
        return trained(tmp_path / name, model, torch.optim.SGD(model.parameters(), 0.1), data, loss)

    difference = bs.diff(trainings("a", "sum", 7), trainings("b", "mean", 1))
    assert difference.cls == "semantics", str(difference)
    assert "sum in A and mean in B" in str(difference) or "is 2 in A and 1 in B" in str(difference)


def test_of_thousands_of_values_of_one_size_only_those_that_may_be_the_parts_of_a_whole_are_tried():
    def statistics(numbers):
        t = torch.tensor(numbers)
        return _Statistics(len(numbers), float(t.norm()), float(t.sum()), min(numbers), max(numbers), (0, 0), 2.0**-23)

    generator = torch.Generator().manual_seed(0)
    held = [statistics(torch.randn(4, generator=generator).tolist()) for _ in range(2000)]
    left, right = torch.randn(4, generator=generator).tolist(), torch.randn(4, generator=generator).tolist()
    parts = _Parts([*enumerate(held), (5000, statistics(left)), (5001, statistics(right))])
    tried = [*parts.together(statistics(left + right))]
    assert len(tried) < 100
    assert [{one[0] for one in some} for some in tried if _adds_up([one[1] for one in some], statistics(left + right))]
