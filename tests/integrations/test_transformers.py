"""The Trainer of Hugging Face, with the callback and without: a tiny GPT-2 reads Python's own words."""

from __future__ import annotations

import argparse
import logging
import re

import pytest
import torch
from left_over import hooks

import backsight as bs

transformers = pytest.importorskip("transformers", reason="TRANSFORMERS IS NOT TESTED: pip install transformers")
pytest.importorskip("accelerate", reason="TRANSFORMERS IS NOT TESTED: pip install accelerate")
from backsight.integrations.transformers import Backsight  # noqa: E402  # after what it needs was looked for

logging.getLogger("transformers").setLevel(logging.ERROR)

TEXT = torch.tensor(list(argparse.__doc__.encode()))
DATA = [{"input_ids": TEXT[k : k + 32], "labels": TEXT[k : k + 32]} for k in range(0, 512, 32)]


def gpt2():
    torch.manual_seed(0)
    size = {"vocab_size": 256, "n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 2}
    config = transformers.GPT2Config(**size, bos_token_id=0, eos_token_id=0)
    return transformers.GPT2LMHeadModel(config)


@pytest.fixture
def train(tmp_path):
    def train(*callbacks, model=None, trainer=transformers.Trainer, **arguments):
        model = gpt2() if model is None else model
        quiet = {"report_to": [], "save_strategy": "no", "disable_tqdm": True, "logging_steps": 2}
        size = {"num_train_epochs": 1, "per_device_train_batch_size": 2, "use_cpu": True, "learning_rate": 1e-2}
        settings = transformers.TrainingArguments(output_dir=str(tmp_path / "out"), **{**quiet, **size, **arguments})
        made = trainer(model, settings, train_dataset=DATA, callbacks=list(callbacks))
        made.train()
        return model, made.optimizer

    return train


class Peak(transformers.TrainerCallback):
    """Remembers the most bytes of gradients of the released optimizer before it."""

    def __init__(self, watching):
        self.watching = watching

    def on_step_end(self, *_, **__):
        self.bytes = self.watching.releases[0].peak_gradient_bytes


def weights(model):
    return torch.cat([each.detach().flatten() for each in model.parameters()])


def test_a_training_is_recorded_and_its_weights_are_those_of_one_without(train, tmp_path, capfd):
    plain, _ = train()
    watching = Backsight(str(tmp_path / "run"))
    model, optimizer = train(watching)
    assert torch.equal(weights(model), weights(plain))
    assert type(optimizer).__name__ == "AcceleratedOptimizer"
    assert hooks(model, optimizer.optimizer) == []
    run = bs.open_run(tmp_path / "run")
    assert run.config["host"] == "transformers"
    assert run.steps.tolist() == list(range(8))
    steps, losses = run.tags()[0]["loss"]
    assert steps.tolist() == [1, 3, 5, 7]
    assert losses[-1] < losses[0]
    assert {"grad_norm", "learning_rate", "epoch"} < set(run.tags()[0])
    assert "transformer.h.1.mlp.c_fc.weight" in {each.name for each in run.tensors if each.kind == "grad"}
    assert run.graph.root_names[0] == "loss"
    assert capfd.readouterr().err.endswith(
        f" of their losses were computed\nbacksight: 8 steps recorded: backsight runs show {tmp_path / 'run'}\n"
    )


def test_a_released_training_is_bit_identical_and_keeps_few_gradients(train):
    plain, _ = train(max_grad_norm=0)
    watching = Backsight(record=False, audit=False, release=0)
    peak = Peak(watching)
    model, optimizer = train(watching, peak, max_grad_norm=0)
    assert torch.equal(weights(model), weights(plain))
    assert peak.bytes < sum(each.nbytes for each in model.parameters()) / 2
    assert hooks(model, optimizer.optimizer) == []


def test_released_gradients_are_clipped_by_release_as_the_trainer_would(train):
    sgd = {"optim": "sgd", "learning_rate": 1.0}
    plain, _ = train(max_grad_norm=0, **sgd)
    clipped, _ = train(max_grad_norm=0.5, **sgd)
    released, _ = train(Backsight(record=False, release=0, clip=0.5), max_grad_norm=0, **sgd)
    assert (weights(clipped) - weights(plain)).norm() > 1e-2
    assert torch.allclose(weights(released), weights(clipped), atol=1e-6)


@pytest.mark.parametrize(
    "arguments, said",
    [
        (
            {},  # a Trainer clips if nobody says that it should not
            r"TrainingArguments\(max_grad_norm=1\.0\) scales gradients after backward, when release has already used "
            r"them\. "
            r"Let release do it: max_grad_norm=0 and Backsight\(release=True, clip=1\.0\)\.",
        ),
        (
            {"max_grad_norm": 0, "gradient_accumulation_steps": 2},
            r"TrainingArguments\(gradient_accumulation_steps=2\) keeps all gradients until the last batch",
        ),
    ],
)
def test_what_the_trainer_does_with_gradients_that_are_gone_is_refused_before_the_first_step(train, arguments, said):
    model, watching = gpt2(), Backsight(record=False, release=True)
    before = weights(model)
    with pytest.raises(bs.NotReleasable, match=said):
        train(watching, model=model, **arguments)
    assert torch.equal(weights(model), before)
    assert hooks(model) == []


def test_gradients_are_accumulated_under_a_recording_as_ever(train, tmp_path):
    plain, _ = train(gradient_accumulation_steps=2)
    model, _ = train(Backsight(str(tmp_path / "run")), gradient_accumulation_steps=2)
    assert torch.equal(weights(model), weights(plain))
    assert len(bs.open_run(tmp_path / "run").steps) == 4


class Carries(transformers.Trainer):
    """A Trainer whose loss smooths itself over batches, and carries the graph of one into the next."""

    smooth = 0.0

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        self.smooth = 0.9 * self.smooth + 0.1 * model(**inputs).loss
        return self.smooth


def test_the_error_that_ends_a_training_is_explained_and_nothing_stays(train, tmp_path):
    model = gpt2()
    with (
        pytest.raises(RuntimeError, match="backward through the graph a second time") as caught,
        Backsight(str(tmp_path / "run")) as watching,
    ):
        train(watching, model=model, trainer=Carries)
    (note,) = caught.value.__notes__
    assert re.search(r"BS201  (self|made)\.smooth, a .*, carries the graph of one (call|pass) into the next", note)
    assert watching.recorder.closed
    assert hooks(model) == []


def test_a_failure_of_ours_is_a_line_and_no_failure_of_the_training(train, tmp_path, monkeypatch, capfd):
    def fail(*_, **__):
        raise ZeroDivisionError("ours")

    plain, _ = train()
    with monkeypatch.context() as patch:
        patch.setattr("backsight.recording.Recorder.mark", fail)
        model, optimizer = train(Backsight(str(tmp_path / "run")))
    assert torch.equal(weights(model), weights(plain))
    said = capfd.readouterr().err
    assert said.count("backsight: no longer observing the training: ZeroDivisionError: ours\n") == 1
    assert hooks(model, optimizer.optimizer) == []
