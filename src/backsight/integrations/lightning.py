"""`Backsight`, a callback for Lightning's Trainer.

from backsight.integrations.lightning import Backsight

trainer = L.Trainer(callbacks=[Backsight("runs/first")])
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from backsight.extras import needed
from backsight.gradient_release import NotReleasable, ReleaseError
from backsight.gradient_release.data_parallel import are_sharded
from backsight.integrations.observing import Observing, guarded

# The two names of the package have classes of their own; a program uses one of them, and has imported it by now.
_pytorch: Any = needed("pytorch_lightning" if "pytorch_lightning" in sys.modules else "lightning.pytorch")

_HOW = "Let backsight clip instead: Backsight(release=True, clip=...), which clips by the norm of all gradients."


class Backsight(Observing, _pytorch.Callback):  # type: ignore[misc]  # which may not be installed where types are checked
    """Records a fit, audits its first steps, explains the autograd error that ends it; if asked to, releases gradients.

    ```python
    trainer = L.Trainer(max_epochs=3, callbacks=[Backsight("runs/first", release=True)])
    trainer.fit(model, data)
    backsight.open_run("runs/first").audit()
    ```

    Losses are marked, and so are the numbers that a validation has logged, for the step before. The
    explanation is a note of the exception, below its traceback. Arguments and attributes are those of `Observing`.

    With release, automatic and manual optimization are bit-identical to a fit without, or refused: what the Trainer
    does between backward and the step comes too late for parameters that have taken it.

    Raises:
        NotReleasable: by `fit`, before the first step, if release would not be exact.
    """

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._end()  # of a fit that an error has ended, and nobody told us
        if self._bucket is not False:
            self._attach_release(trainer, pl_module)
        self._begin(pl_module, trainer.optimizers, {"host": "lightning"})

    @guarded
    def on_before_backward(self, trainer: Any, pl_module: Any, loss: torch.Tensor) -> None:
        if self.recorder is not None:
            self.recorder.graph_of(loss)  # training_step calls the layers, and nobody the LightningModule
            batches = trainer.accumulate_grad_batches  # by which Lightning has divided the loss
            self._mark(loss=loss.detach() if batches == 1 else loss.detach() * batches, epoch=trainer.current_epoch)

    @guarded
    def on_train_batch_end(self, *_: Any) -> None:
        self._stepped()

    @guarded
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if not trainer.sanity_checking:
            self._mark(**{name: float(value) for name, value in trainer.callback_metrics.items() if _is_number(value)})

    def on_train_end(self, *_: Any) -> None:
        self._end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._end(exception)

    def _attach_release(self, trainer: Any, pl_module: Any) -> None:
        _refuse(trainer, pl_module)
        if not pl_module.automatic_optimization:
            # Before those of release, which wants to be the last.
            self._handles += [each.register_step_pre_hook(_without_idle_closure) for each in trainer.optimizers]
        try:
            self._release(trainer.optimizers, _ddp(trainer))
            for released in self.releases if pl_module.automatic_optimization else ():
                _refuse_closure(released)
        except Exception:
            self._end()
            raise


def _refuse(trainer: Any, pl_module: Any) -> None:
    """Refuse what the Trainer would do with gradients that are gone by then."""
    kind = type(pl_module)
    if trainer.accumulate_grad_batches != 1:
        raise NotReleasable(
            f"Trainer(accumulate_grad_batches={trainer.accumulate_grad_batches}) keeps all gradients until the last "
            "batch, so nothing can be released. Remove it, or remove release=True."
        )
    if trainer.gradient_clip_val:
        raise NotReleasable(
            f"Trainer(gradient_clip_val={trainer.gradient_clip_val}) scales gradients after backward, when release "
            f"has already used them. {_HOW}"
        )
    if kind.configure_gradient_clipping is not _pytorch.LightningModule.configure_gradient_clipping:
        raise NotReleasable(
            f"{kind.__name__}.configure_gradient_clipping changes gradients after backward, when release has already "
            f"used them. {_HOW}"
        )
    if getattr(trainer.precision_plugin, "scaler", None) is not None:
        raise NotReleasable(
            "Trainer(precision='16-mixed') scales the loss and unscales gradients after backward, when release has "
            "already used them. precision='bf16-mixed' does not scale."
        )
    if trainer.world_size > 1 and _ddp(trainer) is None and not are_sharded(trainer.optimizers):
        raise NotReleasable(
            f"Lightning trains with {trainer.world_size} processes by {type(trainer.strategy).__name__}. With several, "
            "release under Lightning is for Trainer(strategy='ddp'), and for ModelParallelStrategy() with every "
            "parameter in a fully_shard; otherwise call backsight.release(optimizer) in a training loop of your own."
        )


def _ddp(trainer: Any) -> torch.nn.Module | None:
    """Return the DistributedDataParallel in which Lightning has wrapped the model, if it has."""
    model = trainer.strategy.model
    return model if isinstance(model, torch.nn.parallel.DistributedDataParallel) else None


def _refuse_closure(release: Any) -> None:
    """Refuse an optimizer of which is not known when it evaluates the closure that Lightning hands to `step`."""
    if not release.evidence.known:
        raise NotReleasable(
            f"Lightning runs forward and backward within {type(release.optimizer).__name__}.step(closure), and only "
            "the optimizers of torch.optim are known to do so exactly once, and first. With manual optimization "
            "(self.automatic_optimization = False) there is no closure."
        )


def _without_idle_closure(optimizer: Any, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
    """Call, before a manual step, the closure that does nothing but the hooks of Lightning, and step without one.

    In manual optimization `opt.step()` has a closure as well, though backward has run: to release it would look like a
    second one. (lightning/pytorch/core/optimizer.py, `do_nothing_closure`; plugins/precision/precision.py,
    `_wrap_closure`.)
    """
    closure = kwargs.get("closure") or next(iter(args[1:]), None)
    inner = next(iter(reversed(getattr(closure, "args", ()))), None)
    if closure is None or getattr(inner, "__name__", "") != "do_nothing_closure":
        return None
    if closure() is not None:
        raise ReleaseError("The closure of a manual step in Lightning was expected to return nothing.")
    return args[:1], {name: value for name, value in kwargs.items() if name != "closure"}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) or (isinstance(value, torch.Tensor) and value.numel() == 1)
