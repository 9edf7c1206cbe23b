"""What is recorded of a step without being asked: losses, learning rates, norms, times and memory."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from trainings import train

import backsight as bs
from backsight.recording.program import ProgramRecording
from backsight.recording.taps.scalars import EACH, is_kept


def scalars(run):
    return bs.open_run(run).scalars()


def values(run, name):
    return scalars(run)[name].values.tolist()


def names(run):
    return set(scalars(run))


def batches(steps, width=6):
    torch.manual_seed(1)
    return torch.randn(steps, 4, width)


def test_what_backward_was_called_on_is_recorded_by_the_name_of_its_variable(net, run):
    optimizer, seen = torch.optim.SGD(net.parameters(), lr=0.1), []
    with bs.record(net, optimizer, run):
        for x in batches(5):
            objective = net(x).square().mean()
            seen.append(objective.item())
            optimizer.zero_grad()
            objective.backward()
            optimizer.step()
    assert values(run, "objective") == seen
    assert next(iter(scalars(run))) == "objective"
    first = [each for each in bs.open_run(run).events if each.event == "loss"]
    assert [(each.step, each.details) for each in first] == [(0, {"name": "objective"})]


def test_an_expression_without_a_name_is_the_loss(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    with bs.record(net, optimizer, run):
        train(net, optimizer, 3)
    assert len(scalars(run)["loss"]) == 3


def test_several_losses_are_kept_apart(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    with bs.record(net, optimizer, run):
        for x in batches(3):
            fit, penalty = net(x).square().mean(), net.first.weight.square().sum()
            fit.backward()
            penalty.backward()
            optimizer.step()
    assert {"fit", "penalty"} <= names(run)
    assert values(run, "penalty") == [pytest.approx(net.first.weight.square().sum().item())] * 3


def test_losses_of_one_name_before_steps_of_two_optimizers_are_two(net, run):
    other = nn.Linear(6, 1)
    first, second = (torch.optim.SGD(each.parameters(), lr=0.0) for each in (net, other))
    x = batches(1)[0]

    def update(optimizer, loss):
        loss.backward()
        optimizer.step()

    with bs.record({"net": net, "other": other}, [first, second], run):
        for _ in range(3):
            update(first, net(x).square().mean())
            update(second, other(x).square().mean())
    assert values(run, "loss") == [net(x).square().mean().item()] * 3
    assert values(run, "loss #2") == [other(x).square().mean().item()] * 3


def test_of_passes_that_accumulate_the_mean_is_recorded(net, run):
    optimizer, means = torch.optim.SGD(net.parameters(), lr=0.1), []
    with bs.record(net, optimizer, run):
        for step in batches(3):
            found = []
            for x in step.split(2):
                loss = net(x).square().mean()
                found.append(loss.item())
                loss.backward()
            means.append(sum(found) / 2)
            optimizer.step()
    assert values(run, "loss") == pytest.approx(means)


def test_a_scaled_loss_is_recorded_as_it_was_before_the_scaler(net, run):
    optimizer, seen = torch.optim.SGD(net.parameters(), lr=0.1), []
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with bs.record(net, optimizer, run):
        for x in batches(3):
            loss = net(x).square().mean()
            seen.append(loss.item())
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    assert values(run, "loss") == seen


def test_a_scaled_expression_is_not_taken_for_the_loss(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with bs.record(net, optimizer, run):
        for x in batches(2):
            loss = net(x).square().mean()
            scaler.scale(loss / 2).backward()
            scaler.step(optimizer)
            scaler.update()
    assert "loss" not in names(run)
    assert "scaled loss" in names(run)


def test_the_passes_of_a_checkpoint_are_none_of_the_program(run):
    from torch.utils.checkpoint import checkpoint

    net = nn.Sequential(*(nn.Linear(6, 6) for _ in range(3)))
    optimizer, seen = torch.optim.SGD(net.parameters(), lr=0.1), []
    with bs.record(net, optimizer, run):
        for x in batches(3):
            held = x.requires_grad_()
            for layer in net:
                held = checkpoint(layer, held, use_reentrant=True)
            loss = held.square().mean()
            seen.append(loss.item())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    assert values(run, "loss") == seen


def test_a_derivative_within_the_forward_pass_is_no_loss(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    with bs.record(net, optimizer, run):
        for x in batches(2):
            out = net(x.requires_grad_()).sum()
            (slope,) = torch.autograd.grad(out, x, create_graph=True)
            loss = slope.square().sum()
            loss.backward()
            optimizer.step()
    assert {"loss"} == {name for name in names(run) if name in ("loss", "out", "slope")}


def test_what_the_program_marks_itself_is_its_own(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    with bs.record(net, optimizer, run) as rec:
        for k, x in enumerate(batches(3)):
            loss = net(x).square().mean()
            rec.mark(loss=float(k))
            loss.backward()
            optimizer.step()
    assert values(run, "loss") == [0.0, 1.0, 2.0]


def test_the_learning_rate_is_written_where_it_changes_and_a_line_through_it_is_right(net, run):
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10)
    with bs.record(net, optimizer, run):
        for x in batches(30):
            net(x).square().mean().backward()
            optimizer.step()
            schedule.step()
    found = scalars(run)["lr"]
    assert found.steps.tolist() == [0, 9, 10, 19, 20, 29]
    assert found.values.tolist() == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])
    assert values(run, "betas[1]") == [0.999, 0.999]


def test_a_learning_rate_of_numpy_or_a_tensor_is_a_number_too(net, run):
    optimizer = torch.optim.AdamW(net.parameters(), lr=torch.tensor(0.1), capturable=False, foreach=False)
    with bs.record(net, optimizer, run):
        for k, x in enumerate(batches(3)):
            net(x).square().mean().backward()
            optimizer.step()
            optimizer.param_groups[0]["lr"] = np.float32(0.5) if k else torch.tensor(0.25)
    assert values(run, "lr") == pytest.approx([0.1, 0.25, 0.5])


def test_an_optimizer_that_raises_keeps_no_weights(run):
    import gc
    import weakref

    net, x = nn.Linear(6, 1), torch.ones(1, 6)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    optimizer.param_groups[0]["lr"] = "0.1"
    rec = bs.record(net, optimizer, run)
    net(x).sum().backward()
    with pytest.raises((TypeError, RuntimeError)):
        optimizer.step()
    rec.close()
    weight = weakref.ref(net.weight)
    del net, optimizer
    gc.collect()
    assert weight() is None


def test_groups_and_optimizers_are_told_apart(net, run):
    other = nn.Linear(6, 1)
    groups = [{"params": net.first.parameters(), "lr": 0.1}, {"params": net.last.parameters(), "lr": 0.2}]
    main = torch.optim.SGD(groups)
    side = torch.optim.Adam(other.parameters(), lr=0.3)
    with bs.record({"net": net, "other": other}, [main, side], run):
        (net(torch.ones(1, 6)).sum() + other(torch.ones(1, 6)).sum()).backward()
        main.step()
        side.step()
    assert values(run, "main lr (group 0)") == [0.1]
    assert values(run, "main lr (group 1)") == [0.2]
    assert values(run, "side lr") == [0.3]


def test_what_an_optimizer_is_set_to_is_an_event(net, run):
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    with bs.record(net, optimizer, run):
        train(net, optimizer, 1)
    (event,) = [each.details for each in bs.open_run(run).events if each.event == "optimizer"]
    assert event["optimizer"] == "AdamW"
    assert event["groups"][0]["lr"] == 0.1
    assert event["groups"][0]["betas"] == [0.9, 0.999]
    assert event["groups"][0]["tensors"] == 4


def test_the_norm_of_all_gradients_is_that_which_clipping_would_see(net, run):
    optimizer, seen = torch.optim.SGD(net.parameters(), lr=0.1), []
    with bs.record(net, optimizer, run):
        for x in batches(4):
            optimizer.zero_grad()
            net(x).square().mean().backward()
            seen.append(nn.utils.clip_grad_norm_(net.parameters(), 0.01).item())
            optimizer.step()
    assert values(run, "grad_norm") == pytest.approx(seen, rel=1e-5)


def test_a_gradient_that_is_not_finite_has_no_norm(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    with bs.record(net, optimizer, run):
        for scale in (1.0, float("nan")):
            optimizer.zero_grad()
            (net(torch.ones(1, 6)).sum() * scale).backward()
            optimizer.step()
    assert np.isnan(scalars(run)["grad_norm"].values).tolist() == [False, True]
    assert np.isnan(scalars(run)["loss"].values).tolist() == [False, True]


def moved(net, optimizer):
    before = torch.cat([each.detach().reshape(-1).clone() for each in net.parameters()])
    optimizer.step()
    after = torch.cat([each.detach().reshape(-1) for each in net.parameters()])
    return ((after - before).norm() / before.norm()).item()


@pytest.mark.parametrize("width", [6, 200], ids=["whole", "sampled"])
def test_how_far_the_weights_move_is_recorded(run, width):
    net = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))
    optimizer, seen = torch.optim.AdamW(net.parameters(), lr=0.01), []
    with bs.record(net, optimizer, run):
        for x in batches(17, width):
            optimizer.zero_grad()
            net(x).square().mean().backward()
            seen.append(moved(net, optimizer))
    found = scalars(run)["update_ratio"]
    assert found.steps.tolist() == [0, 16]
    assert found.values.tolist() == pytest.approx([seen[0], seen[16]], rel=1e-5 if width == 6 else 0.1)


def test_with_updates_recorded_how_far_weights_move_is_exact(net, run):
    optimizer, seen = torch.optim.SGD(net.parameters(), lr=0.1), []
    with bs.record(net, optimizer, run, taps=("weight", "grad", "update")):
        for x in batches(4):
            optimizer.zero_grad()
            net(x).square().mean().backward()
            seen.append(moved(net, optimizer))
    assert values(run, "update_ratio") == pytest.approx(seen, rel=1e-4)


def test_a_step_takes_the_time_to_the_end_of_the_next(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, optimizer, run):
        train(net, optimizer, 5)
    times = bs.open_run(run).times()[1]
    assert (np.diff(times) > 0).all(), "each step has a time of its own, not that at which many were written"
    assert scalars(run)["step_time"].values == pytest.approx(np.diff(times))
    assert scalars(run)["step_time"].unit == "s"


@pytest.mark.skipif(sys.platform != "linux", reason="read from /proc")
def test_memory_is_recorded(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, optimizer, run):
        train(net, optimizer, 2)
    assert 1e7 < values(run, "memory")[-1] < 1e12


def test_the_closure_of_an_optimizer_calls_backward_too(net, run):
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3)
    x = batches(1)[0]

    def closure():
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        return loss

    with bs.record(net, optimizer, run):
        for _ in range(3):
            optimizer.step(closure)
    assert len(scalars(run)["loss"]) == 3


@contextmanager
def program(run, every, **models):
    """Record these as `backsight run --record` does."""
    recording = ProgramRecording(Path(run), print, every=every)
    for name, model in models.items():
        recording.join(name, model)
    yield
    recording.close()


def test_of_a_model_the_steps_that_are_recorded_have_losses(net, run):
    optimizer, seen = torch.optim.SGD(net.parameters(), lr=0.1), []
    with bs.record(net, optimizer, run, every=2):
        for x in batches(6):
            loss = net(x).square().mean()
            seen.append(loss.item())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert scalars(run)["loss"].steps.tolist() == [0, 2, 4]
    assert values(run, "loss") == seen[::2]


def test_every_step_of_a_program_has_its_loss_whichever_steps_are_recorded(net, run):
    optimizer, seen = torch.optim.SGD(net.parameters(), lr=0.1), []
    with program(run, every=4, net=net):
        for x in batches(11):
            loss = net(x).square().mean()
            seen.append(loss.item())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert bs.open_run(run).steps.tolist() == [0, 4, 8]
    assert scalars(run)["loss"].steps.tolist() == list(range(11))
    assert values(run, "loss") == seen


def test_losses_of_steps_that_are_not_recorded_are_kept_apart_by_their_optimizers(run):
    generator, critic = nn.Linear(6, 6), nn.Linear(6, 1)
    first, second = (torch.optim.SGD(each.parameters(), lr=0.1) for each in (generator, critic))
    fooled, told = [], []
    with program(run, every=5, generator=generator, critic=critic):
        for x in batches(12):
            loss = -critic(generator(x)).mean()
            fooled.append(loss.item())
            loss.backward(inputs=list(generator.parameters()))
            first.step()
            loss = (critic(generator(x).detach()) - critic(x)).mean()
            told.append(loss.item())
            loss.backward()
            second.step()
            for each in (first, second):
                each.zero_grad()
    assert values(run, "loss") == fooled
    assert values(run, "loss #2") == told


def test_of_steps_that_are_not_recorded_the_mean_of_their_passes_is_kept(net, run):
    optimizer, means = torch.optim.SGD(net.parameters(), lr=0.1), []
    with program(run, every=4, net=net):
        for step in batches(6):
            found = []
            for x in step.split(2):
                loss = net(x).square().mean()
                found.append(loss.item())
                loss.backward()
            means.append(sum(found) / 2)
            optimizer.step()
            optimizer.zero_grad()
    assert values(run, "loss") == pytest.approx(means)


def test_a_learning_rate_is_written_where_it_changes_whichever_steps_are_recorded(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.4)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 7], gamma=0.5)
    with program(run, every=5, net=net):
        for _ in range(10):
            train(net, optimizer, 1)
            schedule.step()
    found = scalars(run)["lr"]
    assert dict(zip(found.steps.tolist(), found.values.tolist(), strict=True)) == {
        0: 0.4,
        2: 0.4,
        3: 0.2,
        6: 0.2,
        7: 0.1,
        9: 0.1,
    }


def test_while_nothing_is_recorded_there_are_no_losses(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    with bs.record(net, optimizer, run) as recorder:
        train(net, optimizer, 2)
        recorder.disarm()
        train(net, optimizer, 2)
        recorder.arm()
        train(net, optimizer, 1)
    assert scalars(run)["loss"].steps.tolist() == [0, 1, 4]


def test_a_long_run_keeps_fewer_and_fewer_losses():
    assert all(map(is_kept, range(0, EACH, 999)))
    for beyond in range(5):
        begins = EACH << beyond
        stretch = range(begins, begins + 64)
        assert [step - begins for step in stretch if is_kept(step)] == list(range(0, 64, 2 << beyond))


def test_a_loss_that_is_stored_with_its_sign_turned_is_recorded_as_it_is(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, optimizer, run):
        loss = torch.complex(net(batches(1)[0]).mean(), torch.ones(()) * 3).conj().imag  # -3, stored as 3
        assert loss.is_neg()
        loss.backward()
        optimizer.step()
    assert values(run, "loss") == [-3.0]


def test_no_loss_is_kept_alive(net, run):
    import weakref

    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, optimizer, run):
        for x in batches(2):
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            gone = weakref.ref(loss)
            del loss
            assert gone() is None


def test_the_seed_and_the_arguments_are_kept(in_a_process, tmp_path):
    in_a_process(
        f"""
        import sys, torch, backsight as bs
        sys.argv = ["train.py", "--lr", "0.1"]
        torch.manual_seed(7)
        bs.record(torch.nn.Linear(1, 1), run={str(tmp_path / "seeded")!r}).close()
        """
    )
    environment = bs.open_run(tmp_path / "seeded").environment
    assert environment["seed"] == 7
    assert environment["arguments"] == ["--lr", "0.1"]
