"""torchEmber where something fails: the training goes on, with one clear warning."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fresh
import pytest
import torch
from torch import nn

from backsight.compat.torchember import emberTracker, torchEmber
from backsight.recording import RecordingWarning

pytestmark = pytest.mark.usefixtures("home")

X = torch.linspace(-1, 1, 6).reshape(2, 3)


def test_a_metric_that_fails_is_dropped_with_one_warning(model: nn.Module) -> None:
    te = torchEmber(model)
    te.how_record_in(lambda tensor: {"object": object()})
    te.how_record_weight(lambda tensor: 1 / 0)
    with pytest.warns(RecordingWarning) as warned:
        model(X)
        model(X)
    assert [str(each.message).split(":")[1].strip() for each in warned] == [
        "the metric '<lambda>' for 'input' failed and is dropped",
        "the metric '<lambda>' for 'weight' failed and is dropped",
    ]
    assert all("mean" in row for row in te.t.lines())


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A disk on which nothing can be written from now on."""

    def write(self: emberTracker, rows: Any) -> None:
        if list(rows):
            raise OSError(28, "No space left on device")

    yield monkeypatch.setattr(emberTracker, "_write", write)


def test_a_full_disk_disarms_with_one_warning(model: nn.Module, full: None) -> None:
    te = torchEmber(model)
    with pytest.warns(RecordingWarning, match="torchEmber no longer records.*No space left") as warned:
        model(X)
        model(X)
        te.log_model()
        te.disarm()
    assert len(warned) == 1
    assert not model._forward_hooks
    assert "disarm" not in vars(model)


def test_a_home_that_cannot_be_written_stops_no_training(
    model: nn.Module, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".torchember").write_text("a file where the folder belongs")
    with pytest.warns(RecordingWarning, match="torchEmber no longer records; training continues") as warned:
        te = torchEmber(model)
        model(X)
        te.rearm()
        model(X)
        te.mark(epoch=1)
    assert len(warned) == 1
    assert te.t.lines() == []
    assert not model._forward_hooks
    assert "disarm" not in vars(model)


def test_only_modules_are_taken() -> None:
    with pytest.raises(TypeError, match=r"torchEmber takes an nn\.Module, not an object of type int"):
        torchEmber(3)


def test_a_class_of_any_name_has_a_log(home: Path) -> None:
    strange = type("../<b>\n🔥", (nn.Identity,), {})()
    te = torchEmber(strange)
    strange(X)
    assert te.t.log_path.parent == home / ".torchember" / "log"
    assert {row["module"] for row in te.t.lines()} == {"model(../<b>\n🔥)"}


def test_what_a_program_has_recorded_is_there_after_its_end(home: Path) -> None:
    program = """
        import torch
        from backsight.compat.torchember import torchEmber
        model = torch.nn.Sequential(torch.nn.Linear(3, 1))
        te = torchEmber(model)
        model[0](torch.ones(1, 3))      # no pass of the model, so nothing but the end writes it
        print(te.fname)
    """
    done = fresh.run([sys.executable, "-c", textwrap.dedent(program)])
    assert done.returncode == 0, done.stderr
    assert len(emberTracker(done.stdout.strip()).lines()) == 4
