"""Errors of gradient release, explained: what happened, and which lines of the program change."""

import torch
from columns import needs_columns
from failures import at, evidence, explained, failing

import backsight as bs

HEAD = """
        import backsight as bs
        model = torch.nn.Linear(20, 5)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        held = bs.release(optimizer, bucket=0)
"""


def test_clipping_that_comes_too_late_gets_the_call_that_clips_in_time_and_the_norm():
    source = f"""{HEAD}
        for step in range(3):
            optimizer.zero_grad()
            model(torch.ones(2, 20)).square().sum().backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01, norm_type=2.0)  # here
            optimizer.step()
    """
    error = failing(source)
    assert isinstance(error, bs.GradientGone)
    finding = bs.explain(error)
    assert (finding.code, finding.source) == ("BS200", at(source))
    assert finding.title.endswith(f"{type(error).__name__}: {str(error).partition('. ')[0]}."), "the rest is in the fix"
    assert "factor" not in evidence(finding)
    assert "tensor of shape" not in evidence(finding)
    line = at(source).partition(":")[2]
    assert finding.fix == (
        f"Call held.clip(0.01, norm_type=2.0) once after line 4, and write line {line} as `norm = held.grad_norm()`."
    )


def test_clipping_whose_norm_nobody_reads_is_deleted():
    source = f"""{HEAD}
        limit = 0.01
        model(torch.ones(2, 20)).square().sum().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=limit)  # here
    """
    line = at(source).partition(":")[2]
    assert explained(source).fix == f"Call held.clip(limit) once before the training, and delete line {line}."


@needs_columns
def test_a_second_micro_batch_is_told_to_accumulate():
    source = f"""{HEAD}
        for step in range(3):
            optimizer.zero_grad()
            for part in range(2):
                model(torch.ones(2, 20)).sum().backward()  # here
            optimizer.step()
    """
    error = failing(source)
    assert isinstance(error, bs.AlreadyStepped)
    finding = bs.explain(error)
    assert finding.title.endswith(f"{type(error).__name__}: {str(error).partition('. ')[0]}."), "the rest is in the fix"
    assert finding.fix == "Run every backward of a step but the last within `with held.accumulate():`."


def test_a_loop_that_steps_is_not_told_to_accumulate():
    source = f"""{HEAD}
        for step in range(3):
            model(torch.ones(2, 20)).sum().backward()
            model(torch.ones(2, 20)).square().sum().backward()
            optimizer.step()
    """
    assert explained(source).fix == ""


def test_what_is_told_to_do_gives_the_weights_of_the_plain_loop():
    def trained(released: bool) -> torch.Tensor:
        torch.manual_seed(0)
        model = torch.nn.Linear(20, 5)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        held = bs.release(optimizer, bucket=0) if released else None
        if held is not None:
            held.clip(0.01)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(2, 20)).square().sum().backward()
            plain = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01) if held is None else held.grad_norm()
            assert plain > 0.01
            optimizer.step()
        return model.weight.detach()

    torch.testing.assert_close(trained(True), trained(False))
