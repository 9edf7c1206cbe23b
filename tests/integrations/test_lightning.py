"""Lightning's own Trainer, with the callback and without: the same weights, and what was asked for beside them."""

from __future__ import annotations

import logging
import re
import warnings

import pytest
import torch
from left_over import hooks
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import backsight as bs

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of Lightning's own imports
    L = pytest.importorskip("lightning.pytorch", reason="LIGHTNING IS NOT TESTED: pip install lightning")
    from lightning.pytorch.plugins.precision import MixedPrecision

    from backsight.integrations.lightning import Backsight
from backsight.integrations.mirror import Sink

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:lightning", "ignore::DeprecationWarning")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Digits(L.LightningModule):
    """A perceptron whose `training_step` calls its layers, as most do: the LightningModule itself is never called."""

    def __init__(self, optimizer=torch.optim.AdamW, manual=False):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 10))
        self.make_optimizer = optimizer
        self.automatic_optimization = not manual

    def training_step(self, batch, index):
        images, digits = batch
        loss = cross_entropy(self.layers(images), digits)
        if not self.automatic_optimization:
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
        return loss

    def validation_step(self, batch, index):
        self.log("val_loss", cross_entropy(self.layers(batch[0]), batch[1]))

    def configure_optimizers(self):
        return self.make_optimizer(self.parameters(), lr=1e-2)


def sgd(parameters, lr):
    return torch.optim.SGD(parameters, lr=lr, momentum=0.9)


@pytest.fixture(scope="module")
def data():
    digits = load_digits()
    images, labels = torch.tensor(digits.data[:128], dtype=torch.float32) / 16, torch.tensor(digits.target[:128])
    return DataLoader(TensorDataset(images, labels), batch_size=32)


@pytest.fixture
def fit(data):
    def fit(*callbacks, model=None, validate=False, **options):
        model = Digits() if model is None else model
        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        options = {"max_epochs": 2, "accelerator": "cpu", "enable_model_summary": False, **quiet, **options}
        trainer = L.Trainer(callbacks=list(callbacks), **options)
        trainer.fit(model, data, data if validate else None)
        return model, trainer

    return fit


class Peak(L.Callback):
    """Remembers the most bytes of gradients of the released optimizer before it."""

    def __init__(self, watching):
        self.watching = watching

    def on_train_batch_end(self, *_):
        self.bytes = self.watching.releases[0].peak_gradient_bytes


def weights(model):
    return torch.cat([each.detach().flatten() for each in model.parameters()])


def test_a_fit_is_recorded_and_its_weights_are_those_of_a_fit_without(fit, tmp_path, capfd):
    plain, _ = fit(validate=True)
    watching = Backsight(str(tmp_path / "run"), mirror="tensorboard")
    model, trainer = fit(watching, validate=True)
    assert torch.equal(weights(model), weights(plain))
    assert hooks(model, *trainer.optimizers) == []
    run = bs.open_run(tmp_path / "run")
    assert run.config["host"] == "lightning"
    assert set(run.tags()[0]) == {"loss", "epoch", "val_loss"}
    steps, losses = run.tags()[0]["loss"]
    assert steps.tolist() == list(range(8))
    assert losses[-1] < losses[0]
    assert run.tags()[0]["val_loss"][0].tolist() == [3, 7]
    assert {each.name for each in run.tensors if each.kind == "grad"} >= {"layers.0.weight", "layers.4.bias"}
    assert run.graph.root_names == ("loss",)
    assert len(list((tmp_path / "tensorboard" / "run").iterdir())) == 1
    assert capfd.readouterr().err.splitlines()[-2:] == [
        "backsight: nothing found in 8 optimizer steps: checked how 3 of their losses were computed",
        f"backsight: 8 steps recorded: backsight runs show {tmp_path / 'run'}",
    ]


@pytest.mark.parametrize("manual", [False, True])
def test_a_released_fit_is_bit_identical_and_keeps_few_gradients(fit, manual):
    plain, _ = fit(model=Digits(manual=manual))
    watching = Backsight(record=False, audit=False, release=0)
    peak = Peak(watching)
    model, trainer = fit(watching, peak, model=Digits(manual=manual))
    assert torch.equal(weights(model), weights(plain))
    assert peak.bytes < sum(each.nbytes for each in model.parameters()) / 1.5
    assert hooks(model, *trainer.optimizers) == []


@pytest.mark.parametrize("manual", [False, True])
def test_released_gradients_are_clipped_by_release_as_the_trainer_would(fit, manual):
    plain, _ = fit(model=Digits(sgd))
    clipped, _ = fit(model=Digits(sgd), gradient_clip_val=0.1)
    released, _ = fit(Backsight(record=False, release=0, clip=0.1), model=Digits(sgd, manual=manual))
    assert (weights(clipped) - weights(plain)).norm() > 1e-2
    assert torch.allclose(weights(released), weights(clipped), atol=1e-6)


@pytest.mark.parametrize(
    "options, said",
    [
        (
            {"gradient_clip_val": 0.5},
            r"Trainer\(gradient_clip_val=0.5\) scales gradients after backward, when release has",
        ),
        (
            {"plugins": [MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu"))]},
            r"Trainer\(precision='16-mixed'\) scales the loss and unscales gradients after backward",
        ),
        ({"accumulate_grad_batches": 2}, r"Trainer\(accumulate_grad_batches=2\) keeps all gradients until the last"),
    ],
)
def test_what_the_trainer_does_with_gradients_that_are_gone_is_refused_before_the_first_step(fit, options, said):
    model, watching = Digits(), Backsight(record=False, release=True)
    before = weights(model)
    with pytest.raises(bs.NotReleasable, match=said):
        fit(watching, model=model, **options)
    assert torch.equal(weights(model), before)
    assert watching.releases == ()
    assert hooks(model) == []


def test_clipping_of_the_module_s_own_is_refused(fit):
    class Clips(Digits):
        def configure_gradient_clipping(self, optimizer, **_):
            self.clip_gradients(optimizer, 1.0)

    with pytest.raises(bs.NotReleasable, match=r"^Clips\.configure_gradient_clipping changes gradients after backward"):
        fit(Backsight(record=False, release=True), model=Clips())


class Own(torch.optim.SGD):
    """An optimizer that is not PyTorch's own, and steps as one."""


def test_an_optimizer_that_may_call_its_closure_twice_is_released_in_manual_optimization_only(fit):
    with pytest.raises(bs.NotReleasable, match=r"Lightning runs forward and backward within Own\.step\(closure\)"):
        fit(Backsight(record=False, release=True), model=Digits(Own))
    plain, _ = fit(model=Digits(Own, manual=True))
    released, _ = fit(Backsight(record=False, release=0), model=Digits(Own, manual=True))
    assert torch.equal(weights(released), weights(plain))


def test_what_the_audit_finds_is_told_once_while_the_fit_goes_on(fit, capfd):
    class Forgets(Digits):
        def configure_optimizers(self):
            return torch.optim.SGD(self.layers[:4].parameters(), lr=0.1)

    watching = Backsight(record=False)
    told = []

    class Listens(L.Callback):
        def on_train_batch_end(self, *_):
            told.append(capfd.readouterr().err)

    fit(watching, Listens(), model=Forgets())
    assert "BS101" in told[0]
    assert "layers.4.weight" in told[0]
    assert not any("BS101" in each for each in told[1:])
    assert next(finding.code for finding in watching.report) == "BS101"


class Carries(Digits):
    """Carries a hidden state from one batch into the next, with its graph."""

    def __init__(self):
        super().__init__()
        self.hidden = torch.zeros(32, 10)

    def training_step(self, batch, index):
        self.hidden = self.layers(batch[0]) + 0.5 * self.hidden
        return self.hidden.square().mean()


def test_the_error_that_ends_a_fit_is_explained_below_its_traceback_and_nothing_stays(fit, tmp_path):
    model, watching = Carries(), Backsight(str(tmp_path / "run"), release=True)
    with pytest.raises(RuntimeError, match="backward through the graph a second time") as caught:
        fit(watching, model=model)
    (note,) = caught.value.__notes__
    assert re.search(r"BS201  (self|model)\.hidden(, a tensor of shape 32×10,)? carries the graph of one", note)
    assert watching.recorder.closed
    assert hooks(model) == []


@pytest.mark.parametrize(
    "broken",
    [
        "backsight.launch.first_steps.FirstSteps.__init__",
        "backsight.launch.first_steps.FirstSteps.report",
        "backsight.recording.Recorder.mark",
        "backsight.recording.Recorder.close",
        "backsight.diagnosis.explaining.__enter__",
    ],
)
def test_a_failure_of_ours_is_a_line_and_no_failure_of_the_fit(fit, tmp_path, monkeypatch, capfd, broken):
    def fail(*_, **__):
        raise ZeroDivisionError("ours")

    plain, _ = fit()
    with monkeypatch.context() as patch:
        patch.setattr(broken, fail)
        model, trainer = fit(Backsight(str(tmp_path / "run"), release=0, mirror="tensorboard"))
    assert torch.equal(weights(model), weights(plain))
    said = capfd.readouterr().err
    assert said.count("backsight: no longer observing the training: ZeroDivisionError: ours\n") == 1
    if not broken.endswith("close"):
        assert hooks(model, *trainer.optimizers) == []


def test_a_mirror_that_cannot_begin_is_a_line_and_the_recording_goes_on(fit, tmp_path, capfd):
    class Refuses(Sink):
        def start(self, run):
            raise PermissionError("no such project")

    fit(Backsight(str(tmp_path / "run"), mirror=Refuses()))
    assert "backsight: the recording is not mirrored: PermissionError: no such project\n" in capfd.readouterr().err
    assert len(bs.open_run(tmp_path / "run").steps) == 8


def test_a_callback_serves_one_fit_after_another(fit, tmp_path):
    watching = Backsight(str(tmp_path / "run"), mirror="tensorboard")
    fit(watching, max_epochs=1)
    with pytest.warns(bs.RecordingWarning, match="recording into .*run-2 instead"):
        fit(watching, max_epochs=1)
    assert [len(run.steps) for run in bs.runs_in(tmp_path)] == [4, 4]
    assert {each.name for each in (tmp_path / "tensorboard").iterdir()} == {"run", "run-2"}


def test_settings_that_need_what_was_not_asked_for_are_refused():
    with pytest.raises(ValueError, match=r"clip= is the norm that release clips to: add release=True"):
        Backsight(clip=1.0)
    with pytest.raises(ValueError, match=r"mirror= shows the recording"):
        Backsight(record=False, mirror="wandb")
    with pytest.raises(ValueError, match=r"there is no sink 'comet'"):
        Backsight(mirror=["wandb", "comet"])


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"every": None}, 'every must be a whole number, "auto" or a function of the step, not None'),
        ({"every": 0}, "every must be a whole number of at least 1, not 0"),
        ({"run": ""}, "run must be the path of a folder, not ''"),
        ({"watch": "all"}, 'watch= expects "calls", "lines" or "exact", not \'all\''),
    ],
)
def test_a_setting_that_there_is_not_is_refused_before_a_training_begins(option, said):
    with pytest.raises((TypeError, ValueError)) as refused:
        Backsight(**option)
    assert str(refused.value).startswith(said)
