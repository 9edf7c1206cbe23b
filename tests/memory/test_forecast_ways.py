"""`forecast` compares the ways of doing a step."""

import sys
from functools import partial

import pytest
import torch
from steps import GPT, MLP, mlp, peak_of, words
from torch import nn
from torch.nn import functional as F

from backsight.gradient_release import NotReleasable, release
from backsight.memory import forecast
from backsight.text import amount

MIB = 1 << 20


class Velocity(torch.optim.Optimizer):
    """An optimizer that is not PyTorch's."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    velocity = self.state[parameter].setdefault("velocity", torch.zeros_like(parameter))
                    parameter.sub_(velocity.lerp_(parameter.grad, 0.1), alpha=group["lr"])


def test_the_step_as_it_was_asked_for_comes_first():
    model, batch = GPT(depth=2), words()
    foretold = forecast(model, batch, release="1MB", checkpointing=True)
    assert str(foretold.variants[0].way) == "checkpointed, released (1MB), loop"
    assert foretold.peak == foretold.variants[0].peak


@pytest.fixture(scope="module")
def compared():
    """A forecast for the CPU, of which several tests read something."""
    return forecast(GPT(depth=2), words(), device="cpu")


def test_each_way_is_shown_once_and_the_others_beside_it(compared):
    ways = [str(each.way) for each in compared.variants]
    assert ways == [
        "ordinary, loop",
        "ordinary, foreach",
        "ordinary, fused",
        "released, loop",
        "released, fused",
        "checkpointed, ordinary, fused",
        "checkpointed, released, fused",
    ]


def test_what_a_loop_is_stands_below_the_table_once(compared):
    assert str(compared).count("\nloop: one parameter after another, with foreach=False.\n") == 1
    assert "loop:" not in str(forecast(*mlp(), device="cuda"))


def test_an_optimizer_that_says_nothing_uses_lists_on_cuda_and_a_loop_on_the_cpu():
    model, batch = mlp()
    ways = [forecast(model, batch, device=device, variants=False).variants[0].way for device in ("cuda", "cpu")]
    assert [way.implementation for way in ways] == ["foreach", "loop"]


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, partial(torch.optim.SGD, lr=0.1, momentum=0.9), Velocity])
@pytest.mark.parametrize("long", [0, pytest.param(10_000, marks=pytest.mark.long)])
def test_a_way_is_forecast_alike_whether_it_is_asked_for_or_compared(optimizer, long, monkeypatch):
    monkeypatch.setattr(sys.modules["backsight.memory.forecast"], "LONG", long)
    model, batch = GPT(width=64, depth=2), words(2, 16)
    model.unused = nn.Linear(500, 500)
    for way in (compared := forecast(model, batch, optimizer, release="100KB", device="cpu")).variants[1:]:
        flags = {way.way.implementation: True} if way.way.implementation in ("fused", "foreach") else {}
        options = {"release": way.way.release, "checkpointing": way.way.checkpointing, "device": "cpu"}
        alone = forecast(model, batch, partial(optimizer, **flags), variants=False, **options)
        assert alone.peak == pytest.approx(way.peak, rel=1e-3)
    assert len(compared.variants) > 1


def test_checkpointing_is_of_the_modules_that_are_named():
    model, batch = GPT(depth=3), words()
    peaks = [
        forecast(model, batch, checkpointing=where, variants=False).memory.by_kind["saved for backward"]
        for where in (None, ["blocks.0"], [f"blocks.{n}" for n in range(3)], True)
    ]
    assert peaks[0] > peaks[1] > peaks[2] == peaks[3]


def test_release_saves_where_the_peak_is_of_gradients_and_the_advice_says_so():
    step = MLP(*[256] * 24), (torch.randn(4, 256), torch.randn(4, 256)), partial(torch.optim.AdamW, fused=True)
    foretold = forecast(*step)
    released = next(each for each in foretold.variants if each.way.release is not None)
    assert released.peak < 0.8 * foretold.peak
    foretold = forecast(*step, release=0)
    assert foretold.peak < 0.8 * foretold.variants[1].peak
    assert any(each.startswith("Gradient release saves") and "nothing" not in each for each in foretold.advice)


def test_release_saves_nothing_where_the_peak_is_at_the_loss_and_the_advice_says_so():
    foretold = forecast(GPT(words=8000, depth=1), words(16, 64, 8000))
    assert foretold.at_peak.phase in ("forward", "backward")
    assert any(each.startswith("Gradient release saves nothing: the peak is in the") for each in foretold.advice)


def test_release_without_a_bucket_is_proposed_where_gradients_that_wait_are_why_a_bucket_saves_nothing():
    batch = torch.randn(64, 256), torch.randn(64, 256)
    foretold = forecast(MLP(256, 512, 256), batch, torch.optim.AdamW)
    at_once = foretold.variants[-1]
    assert at_once.way.release == 0 and at_once.peak < min(each.peak for each in foretold.variants[:-1])
    assert "Gradient release with release=0 (--release 0) saves 322 KB (7%); the peak is then in" in foretold.advice[1]
    assert forecast(MLP(256, 512, 256), batch, torch.optim.AdamW, release=0).peak > at_once.peak  # not fused


def test_release_without_a_bucket_is_not_proposed_where_it_saves_nothing_either():
    batch = torch.randn(256, 64), torch.randn(256, 64)

    class Turns(MLP):
        def forward(self, x, y):
            z = x
            for _ in range(10):
                h = z
                for layer in self.layers:
                    h = torch.tanh(layer(h))
                z = z + h
            return F.mse_loss(z, y)

    foretold = forecast(Turns(64, 512, 512, 64), batch, torch.optim.AdamW)
    assert next(each for each in foretold.variants if each.way.release).at_peak.by_kind["gradients"] > 1_000_000
    assert foretold.advice == (
        "Gradient release saves nothing: the peak is in the backward pass, at TBackward0 in layer `layers.1` "
        "(Linear), and not from gradients that could be freed earlier.",
    )


@pytest.mark.parametrize("bucket", [0, "100KB"])
def test_a_step_with_release_attached_is_forecast_as_it_is(bucket):
    torch.manual_seed(0)
    model, batch = GPT(width=256, depth=2), words(1, 16)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    attached = release(optimizer, bucket=bucket)

    def step():
        loss = model(*batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    def held():
        yield from (*model.parameters(), *batch)
        yield from (value for state in optimizer.state.values() for value in state.values())

    foretold = forecast(step, device="cpu")
    assert foretold.variants[0].way.release == attached.bucket
    assert foretold.peak == pytest.approx(peak_of(step, held()), rel=0.01)
    attached.remove()
    assert foretold.peak < 0.9 * forecast(step, device="cpu", variants=False).peak


def test_a_way_that_cannot_be_gone_is_left_out_with_the_reason():
    model, batch = mlp()
    first, second = (torch.optim.SGD(model.parameters(), lr=0.1) for _ in range(2))

    def step():
        model(*batch).backward()
        first.step()
        second.step()

    foretold = forecast(step)
    assert all(each.way.release is None for each in foretold.variants)
    assert any(note.startswith("Not compared: released, fused. NotReleasable: ") for note in foretold.notes)
    with pytest.raises(NotReleasable):
        forecast(step, release=True)


@pytest.mark.parametrize(
    "name", ["Adadelta", "Adafactor", "Adagrad", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop"]
)
def test_every_optimizer_is_compared_also_those_that_read_values(name):
    foretold = forecast(*mlp(), getattr(torch.optim, name))
    assert {each.way.release for each in foretold.variants} - {0} == {None, "auto"}
    assert not foretold.notes


def test_an_optimizer_of_one_implementation_is_compared_too():
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False))
    foretold = forecast(model, (torch.randn(2, 8), torch.randn(2, 8)), torch.optim.Muon, loss=F.mse_loss)
    assert [str(each.way) for each in foretold.variants] == ["ordinary", "released", "released (each)"]


@pytest.mark.parametrize(("method", "exact"), [("two-pass", True), ("factored", False)])
def test_clipping_of_an_attached_release_is_forecast_or_bounded(method, exact):
    torch.manual_seed(0)
    model, batch = GPT(width=256, depth=2), words(1, 16)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    attached = release(optimizer, bucket="100KB")
    attached.clip(1.0, method=method)

    def step():
        loss = model(*batch)
        attached.backward(loss)
        optimizer.step()
        optimizer.zero_grad()

    def held():
        yield from (*model.parameters(), *batch)
        yield from (value for state in optimizer.state.values() for value in state.values())

    foretold = forecast(step, device="cpu", variants=False)
    true = peak_of(step, held())
    attached.remove()
    if exact:
        assert foretold.peak == pytest.approx(true, rel=0.01)
        assert not foretold.notes
    else:
        assert foretold.peak >= true
        assert "this much or less" in foretold.notes[0]


def test_earlier_micro_batches_keep_their_gradients_in_the_forecast_too():
    model, batch = MLP(*[256] * 12), (torch.randn(4, 256), torch.randn(4, 256))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    attached = release(optimizer, bucket=0)

    def step(accumulate):
        if accumulate:
            with attached.accumulate():
                model(*batch).backward()
        model(*batch).backward()
        optimizer.step()
        optimizer.zero_grad()

    kept, freed = (forecast(partial(step, each), variants=False).memory for each in (True, False))
    attached.remove()
    assert kept.by_kind["gradients"] > 5 * freed.by_kind["gradients"]


def test_an_optimizer_of_somebody_else_is_tried_out_with_real_numbers_and_released():
    foretold = forecast(*mlp(), Velocity, release=0)
    assert [str(each.way) for each in foretold.variants] == ["released (each)", "ordinary"]
    assert foretold.peak < foretold.variants[1].peak


# What it fits into.


def test_a_step_fits_where_its_peak_and_the_margin_do():
    foretold = forecast(*mlp(), device="cpu")
    assert foretold.fits("1GB")
    assert foretold.fits(foretold.peak, margin=0)
    assert not foretold.fits(foretold.peak - 1, margin=0)
    assert not foretold.fits("1GB", margin="1GB")


def test_a_forecast_for_a_device_says_whether_it_fits_and_what_is_reserved():
    foretold = forecast(*mlp(), device_memory="24GB")
    assert foretold.fits()
    assert foretold.reserved > foretold.peak
    assert foretold.reserved % (2 * MIB) == 0
    assert "reserved" in str(foretold)
    assert "yes" in str(foretold)


def test_without_a_device_it_asks_for_its_size():
    with pytest.raises(ValueError, match="How much memory is there"):
        forecast(*mlp()).fits()


@pytest.mark.parametrize("size", ["24 bananas", "", "GB", "-1GB", -1])
def test_what_is_no_size_is_refused(size):
    with pytest.raises(ValueError, match=r"size"):
        forecast(*mlp(), device_memory=size)


# What it says.


def test_it_says_where_the_peak_is_that_it_is_a_forecast_and_what_it_does_not_know():
    text = str(forecast(GPT(words=8000, depth=1), words(16, 64, 8000), device_memory="24GB"))
    assert text.startswith("Peak ")
    assert "log_softmax" in text.partition("way")[0]
    assert "A forecast for CUDA: the step was not run." in text
    assert "cuBLAS" in text


def test_what_the_peak_is_made_of_is_a_list_with_the_largest_first():
    foretold = forecast(GPT(words=8000, depth=1), words(16, 64, 8000), device="cpu", variants=False)
    head, *lines = str(foretold).partition("\n\n")[0].splitlines()
    assert head == f"Peak {amount(foretold.peak)} on the CPU with AdamW, {foretold.at_peak.where}:"
    sizes = [size for size, _ in foretold.at_peak.parts]
    assert sizes[:-1] == sorted(sizes[:-1], reverse=True) and sum(sizes) == foretold.peak
    shown = [line.split()[:2] for line in lines if line[:9].strip()]
    assert shown == [amount(size).split() for size in sizes]


def test_the_first_line_names_the_device_and_the_optimizers():
    model, batch = mlp()

    def first_line(*step, **options):
        return str(forecast(*step, variants=False, **options)).partition(", ")[0]

    assert first_line(model, batch, torch.optim.SGD, device_memory="24GB").endswith(" on CUDA with SGD")
    adam, sgd = torch.optim.Adam(model.layers[0].parameters()), torch.optim.SGD(model.layers[1].parameters())
    assert first_line(lambda: (model(*batch).backward(), adam.step(), sgd.step())).endswith(" with Adam and SGD")
    assert "with" not in first_line(lambda: model(*batch).backward())


def test_the_flag_that_saves_memory_is_one_that_the_optimizer_takes():
    foreach = forecast(*mlp(), partial(torch.optim.AdamW, foreach=True), device="cpu")
    assert any(each.startswith(("fused=True of the", "foreach=False of the")) for each in foreach.advice)


def test_the_memory_over_time_is_there_as_of_a_measured_step():
    foretold = forecast(*mlp())
    assert foretold.memory.peak == foretold.peak
    assert "parameters" in foretold.memory.table()


def test_release_is_compared_as_it_is_by_default():
    def compared(**options):
        return forecast(*mlp_of(), partial(torch.optim.AdamW, fused=True), device="cpu", **options).variants

    def mlp_of():
        return MLP(*[256] * 12), (torch.randn(4, 256), torch.randn(4, 256))

    released = next(each for each in compared() if each.way.release is not None)
    model, batch = mlp_of()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    release(optimizer)
    assert released.peak == forecast(model, batch, optimizer, device="cpu", variants=False).peak
    assert released.peak == compared(release=True, variants=False)[0].peak


def test_what_fits_leaves_is_said_below_the_table():
    said = str(forecast(*mlp(), device_memory="600MB"))
    assert "\nNothing fits into 600 MB: `fits` leaves 768 MB for the CUDA context" in said
    assert "\n`fits` leaves 768 MB for the CUDA context" in str(forecast(*mlp(), device_memory="1GB"))
    assert "`fits`" not in str(forecast(*mlp(), device="cuda"))
