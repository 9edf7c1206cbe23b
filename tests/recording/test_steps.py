"""Where a step ends."""

from __future__ import annotations

import gc
import sys
import threading

import pytest
import torch
from torch import nn
from trainings import Net, rows, train

import backsight as bs
from backsight.naming.roots import is_ours
from backsight.tables.listing import listed


def steps(path, **query):
    return sorted({int(row["step"]) for row in rows(path, **query)})


def test_an_optimizer_ends_the_step(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, optimizer, run) as rec:
        train(net, optimizer, 3)
        assert rec.steps == 3
    assert steps(run) == [0, 1, 2]


def test_an_optimizer_that_was_not_given_is_found_by_its_parameters(net, run):
    other = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    with bs.record(net, run=run) as rec:
        optimizer = torch.optim.Adam(net.parameters())
        for _ in range(2):
            train(net, optimizer, 1)
            other.step()
        assert rec.steps == 2
    assert steps(run, kind="state") == [0, 1]


def test_what_an_optimizer_holds_and_no_module_owns_has_the_name_of_its_variable(net, run):
    delta = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.Adam([delta])
    with bs.record(net, optimizer, run):
        (net(torch.ones(1, 6)).sum() * delta).sum().backward()
        optimizer.step()
    assert {row["tensor"] for row in rows(run, kind="state")} == {"delta.exp_avg", "delta.exp_avg_sq"}
    assert [row["mean"] for row in rows(run, tensor="delta", kind="weight")] == [0.0]
    assert len(rows(run, tensor="delta", kind="grad")) == 1


def test_without_an_optimizer_the_step_ends_where_it_is_said(net, run):
    with bs.record(net, run=run) as rec:
        for _ in range(3):
            net(torch.ones(1, 6)).sum().backward()
            rec.step()
    assert steps(run, kind="grad") == [0, 1, 2]


def test_said_and_seen_together_make_one_step(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, optimizer, run) as rec:
        for _ in range(3):
            train(net, optimizer, 1)
            rec.step()
        assert rec.steps == 3
    assert steps(run, kind="grad") == [0, 1, 2]


def test_of_several_optimizers_the_last_ends_the_step(net, run):
    first = torch.optim.SGD(net.first.parameters(), lr=0.1, momentum=0.9)
    last = torch.optim.SGD(net.last.parameters(), lr=0.1, momentum=0.9)
    with bs.record(net, [first, last], run):
        for _ in range(2):
            net(torch.ones(1, 6)).sum().backward()
            first.step()
            last.step()
    assert steps(run) == [0, 1]
    assert steps(run, tensor="first.weight.momentum_buffer") == [0, 1]
    assert steps(run, tensor="last.weight.momentum_buffer") == [0, 1]


def test_gradient_accumulation_is_one_step_with_a_call_for_each_backward(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, optimizer, run):
        for _ in range(2):
            optimizer.zero_grad()
            for _ in range(3):
                net(torch.ones(1, 6)).sum().backward()
            optimizer.step()
    found = rows(run, tensor="last.bias", kind="grad")
    assert [(row["step"], row["call"], row["mean"]) for row in found] == [
        (step, call, call + 1.0) for step in range(2) for call in range(3)
    ]


def test_the_series_of_an_accumulated_gradient_is_that_of_the_sum_which_the_optimizer_gets(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, optimizer, run):
        for _ in range(3):
            net(torch.ones(1, 6)).sum().backward()
        optimizer.step()
    norm = net.first.weight.grad.norm().item()
    assert bs.open_run(run).series("first.weight", "grad_norm").values == pytest.approx([norm])


def adversaries():
    """A step of a GAN, whose generator keeps its last gradients while the discriminator learns."""
    generator, discriminator = nn.Linear(3, 2), nn.Linear(2, 1)
    of_g = torch.optim.SGD(generator.parameters(), lr=0.1)
    of_d = torch.optim.SGD(discriminator.parameters(), lr=0.1)

    def step():
        made = generator(torch.randn(4, 3))
        of_d.zero_grad()
        (discriminator(made.detach()).square().mean() - discriminator(torch.ones(4, 2)).mean()).backward()
        of_d.step()
        of_g.zero_grad()
        discriminator(made).square().mean().backward()
        nn.utils.clip_grad_norm_(generator.parameters(), 0.01)
        of_g.step()

    return {"G": generator, "D": discriminator}, [of_d, of_g], step


@pytest.mark.parametrize("turned", [False, True])
def test_gradients_left_from_the_step_before_are_not_taken_at_the_step_of_another_optimizer(run, turned):
    models, optimizers, step = adversaries()
    norms = []
    models["G"].weight.register_post_accumulate_grad_hook(lambda p: norms.append(p.grad.norm().item()))
    with bs.record(models, optimizers[::-1] if turned else optimizers, run):
        for _ in range(4):
            step()
    assert [row["l2"] for row in rows(run, tensor="G.weight", kind="grad")] == pytest.approx(norms)
    assert bs.open_run(run).series("G.weight", "grad_norm").values == pytest.approx(norms)


def test_a_gradient_to_which_nothing_was_added_is_not_taken_again(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, optimizer, run):
        net(torch.ones(1, 6)).sum().backward()
        optimizer.step()
        net.last(torch.ones(1, 6)).sum().backward()
        optimizer.step()
    assert steps(run, tensor="first.weight", kind="grad") == [0]
    assert steps(run, tensor="last.weight", kind="grad") == [0, 1]


def test_modules_called_in_an_earlier_step_are_not_said_to_be_unseen(run):
    models, _, step = adversaries()
    with bs.record(models, None, run):
        for _ in range(3):
            step()
    assert [event for event in bs.open_run(run).events if event.event == "calls not seen"] == []


def test_the_first_step_of_two_optimizers_that_were_not_given_is_a_whole_one(run):
    models, optimizers, step = adversaries()
    with bs.record(models, run=run) as rec:
        for _ in range(100):
            step()
        assert rec.steps == 100
    assert steps(run) == list(range(100))
    calls = bs.open_run(run).frame(tensor="D.output", as_="numpy")
    assert sorted(calls["call"][calls["step"] == 0]) == sorted(calls["call"][calls["step"] == 1]) == [0, 1, 2]
    for optimizer in optimizers:  # which have to be there: an optimizer that is gone is not waited for
        assert optimizer.param_groups


def test_an_optimizer_of_another_kind_somewhere_in_the_program_does_no_harm(net, run, recwarn):
    class Odd(torch.optim.Optimizer):
        def __init__(self, groups):
            self.param_groups = groups

        @property
        def state(self):
            raise AssertionError("nothing of the user's is asked")

    odd = [Odd(groups) for groups in (None, [None], [{}], [{"params": None}], 3)]
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, run=run) as rec:
        train(net, optimizer, 3)
        assert rec.steps == 3
    assert len(odd) == 5 and not recwarn.list


def test_a_critic_may_step_several_times_for_a_step_of_the_generator(run):
    models, (of_d, of_g), step = adversaries()
    with bs.record(models, run=run) as rec:
        for _ in range(3):
            for _ in range(4):
                models["D"](models["G"](torch.randn(4, 3)).detach()).sum().backward()
                of_d.step()
            step()
        ends_before_the_generator_is_known = 4
        assert rec.steps == 3 + ends_before_the_generator_is_known
    assert of_g.param_groups


def test_an_optimizer_that_is_there_and_never_steps_is_not_waited_for_when_another_steps_again(run):
    models, (of_d, of_g), _ = adversaries()
    with bs.record(models, run=run) as rec:
        for _ in range(10):
            models["D"](models["G"](torch.randn(4, 3)).detach()).sum().backward()
            of_d.step()
        assert rec.steps == 9  # the first is of two
    assert of_g.param_groups


def test_an_optimizer_that_never_steps_is_not_waited_for_where_others_step_what_it_holds(net, run):
    idle = torch.optim.SGD(net.parameters(), lr=0.1)
    each = {parameter: torch.optim.SGD([parameter], lr=0.1) for parameter in net.parameters()}
    for parameter, optimizer in each.items():
        parameter.register_post_accumulate_grad_hook(lambda _, optimizer=optimizer: optimizer.step())
    with bs.record(net, run=run) as rec:
        for _ in range(5):
            net.zero_grad()
            net(torch.ones(1, 6)).sum().backward()
        assert rec.steps == 5
    assert steps(run, kind="grad") == [0, 1, 2, 3, 4] and idle.param_groups


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("before", [0, 3])
def test_an_optimizer_in_the_place_of_the_given_one_ends_steps_and_the_run_says_so(net, run, kept, before):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    held = [optimizer] if kept else []
    with bs.record(net, optimizer, run) as rec:
        train(net, optimizer, before)
        optimizer = torch.optim.Adam(net.parameters())
        train(net, optimizer, 4)
        assert rec.steps == before + 4
    assert steps(run, kind="grad") == list(range(before + 4))
    events = [(event.step, event.details) for event in bs.open_run(run).events if event.event == "optimizer replaced"]
    assert events == [(before, {"by": "Adam"})] and len(held) == kept


def test_an_optimizer_of_parameters_that_were_all_replaced_is_in_the_place_of_the_given_one(net, run):
    given = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, given, run) as rec:
        train(net, given, 2)
        net.load_state_dict({name: weight.clone() for name, weight in net.state_dict().items()}, assign=True)
        train(net, torch.optim.SGD(net.parameters(), lr=0.1), 3)
        assert rec.steps == 5
    assert steps(run, kind="grad") == [0, 1, 2, 3, 4]


def test_one_of_several_given_optimizers_is_replaced(run):
    models, optimizers, step = adversaries()
    with bs.record(models, optimizers, run) as rec:
        for _ in range(2):
            step()
        step.__closure__[step.__code__.co_freevars.index("of_g")].cell_contents = torch.optim.Adam(
            models["G"].parameters()
        )
        optimizers.clear()
        gc.collect()
        for _ in range(3):
            step()
        assert rec.steps == 5


def test_an_optimizer_of_a_part_of_the_model_beside_the_given_one_ends_no_step(net, run):
    given = torch.optim.SGD(net.parameters(), lr=0.1)
    beside = torch.optim.SGD(net.last.parameters(), lr=0.1)
    with bs.record(net, given, run) as rec:
        for _ in range(4):
            net(torch.ones(1, 6)).sum().backward()
            beside.step()
            given.step()
        assert rec.steps == 4
    assert not [event for event in bs.open_run(run).events if event.event == "optimizer replaced"]


def test_the_optimizer_inside_of_a_given_one_is_no_other(net, run):
    class Around(torch.optim.Optimizer):
        def __init__(self, inner):
            super().__init__([parameter for group in inner.param_groups for parameter in group["params"]], {})
            self.inner = inner

        def step(self, closure=None):
            self.inner.step()
            self.inner.step()

    given = Around(torch.optim.SGD(net.parameters(), lr=0.1))
    with bs.record(net, given, run) as rec:
        train(net, given, 3)
        assert rec.steps == 3
    assert not [event for event in bs.open_run(run).events if event.event == "optimizer replaced"]


def test_an_optimizer_that_comes_back_after_another_phase_ends_steps_again(net, run):
    first = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, run=run) as rec:
        train(net, first, 20)
        train(net, torch.optim.Adam(net.parameters()), 20)
        assert rec.steps == 40
        train(net, first, 60)
        assert rec.steps > 80


def test_a_closure_runs_inside_of_its_step(net, run):
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=2)
    calls = []

    def closure():
        calls.append(1)
        optimizer.zero_grad()
        loss = net(torch.ones(2, 6)).square().mean()
        loss.backward()
        return loss

    with bs.record(net, optimizer, run):
        optimizer.step(closure)
    assert steps(run) == [0]
    assert len(rows(run, tensor="output")) == len(calls) > 1


def test_the_step_under_way_is_kept_when_the_recording_is_closed(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, optimizer, run):
        train(net, optimizer, 1)
        net(torch.ones(1, 6))
    assert steps(run, tensor="output") == [0, 1]


def test_the_step_under_way_is_kept_when_the_training_ends_by_an_exception(net, run):
    def end():
        with bs.record(net, run=run):
            net(torch.full((1, 6), torch.nan))
            raise RuntimeError("diverged")

    with pytest.raises(RuntimeError, match="diverged"):
        end()
    assert bs.open_run(run).first_nonfinite().tensor == "x"


def test_a_forward_that_raises_leaves_the_calls_in_order(run):
    class Fragile(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def forward(self, x):
            x = self.inner(x)
            if x.shape[0] == 1:
                raise ValueError("too small")
            return x

    model = Fragile()
    with bs.record(model, run=run) as rec:
        with pytest.raises(ValueError, match="too small"):
            model(torch.ones(1, 2))
        model(torch.ones(2, 2))
        rec.step()
    assert [row["call"] for row in rows(run, tensor="x")] == [0, 1]
    assert [row["call"] for row in rows(run, tensor="inner.output")] == [0, 1]
    assert [row["call"] for row in rows(run, tensor="output")] == [1]


def marked(run):
    return [(mark.step, mark.tags) for mark in bs.open_run(run).marks]


def test_marks_belong_to_the_step_under_way(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, optimizer, run) as rec:
        for epoch in range(2):
            rec.mark(epoch=epoch, loss=torch.tensor(0.5), name="a/b")
            train(net, optimizer, 1)
    assert marked(run) == [(step, {"epoch": step, "loss": 0.5, "name": "a/b"}) for step in range(2)]


@pytest.mark.parametrize("taps", [("input", "output", "grad"), ("weight",)])
@pytest.mark.parametrize("every", [1, 2])
def test_a_mark_after_the_optimizers_step_is_of_the_step_that_has_ended(net, run, taps, every):
    """What the head of a loop tells stays with the step to come, also where the forward pass is not seen."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, optimizer, run, taps=taps, every=every) as rec:
        for step in range(4):
            rec.mark(epoch=step // 2)
            loss = net(torch.ones(1, 6)).sum()
            rec.mark(before=step)
            loss.backward()
            optimizer.step()
            rec.mark(loss=float(step))
    assert bs.open_run(run).tags()[0].keys() == {"epoch", "before", "loss"}
    for tag, of in (("epoch", [0, 0, 1, 1]), ("before", [0, 1, 2, 3]), ("loss", [0, 1, 2, 3])):
        at, values = bs.open_run(run).tags()[0][tag]
        assert (at.tolist(), values.tolist()) == ([0, 1, 2, 3], of), tag


def test_a_mark_after_an_evaluation_is_of_the_step_before_it(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, optimizer, run) as rec:
        for epoch in range(2):
            train(net, optimizer, 3)
            with torch.no_grad():
                rec.mark(accuracy=net(torch.ones(1, 6)).sum() * 0 + epoch)
    assert marked(run) == [(2, {"accuracy": 0.0}), (5, {"accuracy": 1.0})]


def test_in_the_midst_of_a_step_a_tag_is_of_that_step_wherever_it_was_given_first(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, optimizer, run) as rec:
        train(net, optimizer, 1)
        rec.mark(loss=0.0)
        net(torch.ones(1, 6)).sum().backward()
        rec.mark(loss=1.0)
        optimizer.step()
    assert marked(run) == [(0, {"loss": 0.0}), (1, {"loss": 1.0})]


def test_a_step_that_the_program_ends_itself_is_marked_in_the_same_way(net, run):
    with bs.record(net, run=run) as rec:
        for step in range(2):
            net(torch.ones(1, 6)).sum().backward()
            rec.step()
            rec.mark(loss=float(step))
    assert marked(run) == [(0, {"loss": 0.0}), (1, {"loss": 1.0})]


def test_calls_beyond_the_most_are_left_out_and_the_run_says_so(run, recwarn):
    model = Net()
    with bs.record(model, run=run, calls=3) as rec:
        for _ in range(2):
            for _ in range(5):
                model(torch.ones(1, 6))
            rec.step()
    assert [row["call"] for row in rows(run, tensor="output")] == [0, 1, 2] * 2
    left_out = [event.details for event in bs.open_run(run).events if event.event == "calls left out"]
    assert {"of": "the model", "recorded": 3} in left_out and len(left_out) == 3  # each of the modules once
    assert not [warned for warned in recwarn if issubclass(warned.category, bs.RecordingWarning)]


def test_what_a_recorder_finds_at_the_end_of_a_program_is_written(run, in_a_process):
    in_a_process(
        f"""
        import torch, backsight as bs
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        bs.record(model, optimizer, {str(run)!r})
        for _ in range(3):
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
        model(torch.ones(1, 2))
        """
    )
    assert steps(run, tensor="output") == [0, 1, 2, 3]


def test_threads_with_a_recorder_each_train_and_record_to_the_end(tmp_path):
    failed, done = [], []

    def work(number):
        try:
            torch.manual_seed(number)
            model = Net()
            optimizer = torch.optim.Adam(model.parameters())
            with bs.record(model, optimizer, tmp_path / str(number), every=1 + number % 2) as rec:
                train(model, optimizer, 40)
                done.append((number, rec.steps))
        except BaseException as failure:
            failed.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and sorted(done) == [(number, 40) for number in range(4)]
    for number in range(4):
        held = bs.open_run(tmp_path / str(number))
        assert held.steps.tolist() == list(range(0, 40, 1 + number % 2))
        assert {row["kind"] for row in rows(tmp_path / str(number))} >= {"weight", "grad", "state"}
    bs.record(Net(), run=tmp_path / "last").close()  # which also takes away what had to stay while others were at work
    optimizers, modules = sys.modules["torch.optim.optimizer"], torch.nn.modules.module
    assert not optimizers._global_optimizer_post_hooks and not modules._global_forward_hooks


def test_hooks_that_had_to_wait_for_another_thread_come_and_the_run_says_what_was_missed(net, run):
    inside, go = threading.Event(), threading.Event()

    class Slow(nn.Module):
        def forward(self):
            inside.set()
            assert go.wait(60)

    other = threading.Thread(target=Slow())
    other.start()
    assert inside.wait(60)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, optimizer, run):
        train(net, optimizer, 2)
        go.set()
        other.join()
        train(net, optimizer, 6)
    assert steps(run, kind="output") == [3, 4, 5, 6, 7]  # the hooks came when the step after that of the wait began
    events = {event.event: event for event in bs.open_run(run).events}
    assert (events["calls missed"].step, events["calls missed"].details["before"]) == (0, 3)
    assert "calls not seen" not in events and "graph" in events


def test_two_models_that_are_trained_in_two_threads_are_recorded_whole(tmp_path, run):
    models = {name: Net() for name in "AB"}
    meet = threading.Barrier(2, timeout=60)

    def work(model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(20):
            optimizer.zero_grad()
            model(torch.ones(1, 6)).square().mean().backward()
            meet.wait()
            optimizer.step()
            meet.wait()

    with bs.record(models, run=run):
        threads = [threading.Thread(target=work, args=(model,)) for model in models.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for name in models:
        assert len(rows(run, tensor=f"{name}.last.output")) == 20
        assert len(rows(run, tensor=f"{name}.first.weight", kind="grad")) == 20


def test_a_recorder_goes_when_its_model_is_gone(run):
    model = Net()
    rec = bs.record(model, torch.optim.SGD(model.parameters(), lr=0.1), run)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), 1)
    del model
    gc.collect()
    assert rec.closed
    Net()(torch.ones(1, 6))
    assert not torch.nn.modules.module._global_forward_hooks
    assert bs.open_run(run).steps.tolist() == [0] and listed(bs.open_run(run)).state == "finished"


def test_a_recorder_between_recorded_steps_goes_at_the_next_step_of_an_optimizer(run):
    model, other = Net(), Net()
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    bs.record(model, run=run).disarm()
    del model
    train(other, optimizer, 1)
    assert listed(bs.open_run(run)).state == "no steps"


def test_no_python_of_ours_runs_as_a_model_dies(run):
    """Python would swallow what a handler of a signal raises in there: a time limit, Ctrl-C."""
    ran = []

    def look(frame, event, arg):
        if event == "call" and is_ours(frame.f_code.co_filename):
            ran.append(frame.f_code.co_name)

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    bs.record(model, optimizer, run)
    train(model, optimizer, 2)
    before = sys.getprofile()
    sys.setprofile(look)
    del model, optimizer
    gc.collect()
    sys.setprofile(before)
    assert ran == []
