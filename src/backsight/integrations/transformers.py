"""`Backsight`, a callback for the Trainer of Hugging Face transformers.

from backsight.integrations.transformers import Backsight

Trainer(model, arguments, train_dataset=data, callbacks=[Backsight("runs/first")]).train()
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

import torch

from backsight.extras import needed
from backsight.gradient_release import NotReleasable
from backsight.integrations.observing import Observing, guarded
from backsight.snapshot import stepping
from backsight.tape import alive

_trainer_callback: Any = needed("transformers.trainer_callback")


class Backsight(Observing, _trainer_callback.TrainerCallback):  # type: ignore[misc]  # which may not be installed
    """Records a training, audits its first steps, explains the error that ends it; if asked to, releases gradients.

    ```python
    with Backsight("runs/first") as watching:        # `with` is for errors, of which a Trainer tells no callback
        Trainer(model, arguments, train_dataset=data, callbacks=[watching]).train()
    ```

    What the Trainer logs is marked, for the step that has just ended. The explanation is a note of the exception, below
    its traceback. Arguments and attributes are those of `Observing`.

    With release, the training is bit-identical to one without, or refused. A Trainer clips by default:
    `TrainingArguments(max_grad_norm=0)` and `Backsight(release=True, clip=1.0)` let release do it.

    Raises:
        NotReleasable: by `train`, before the first step, if release would not be exact.
    """

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, **_: Any
    ) -> None:
        self._end()  # of a training that an error has ended, outside of `with`
        optimizers = [] if optimizer is None else [stepping(optimizer)]
        if self._bucket is not False:
            wrapped = alive(torch.nn.parallel.DistributedDataParallel)  # of which a callback is not told
            ddp = next((each for each in wrapped if each.module is model), None)
            _refuse(args, ddp)
            self._release(optimizers, ddp)
        self._begin(model, optimizers, {"host": "transformers"})

    @guarded
    def on_step_end(self, *_: Any, **__: Any) -> None:
        self._stepped()

    @guarded
    def on_log(self, *_: Any, **given: Any) -> None:
        logs = given.get("logs") or {}
        self._mark(**{name: value for name, value in logs.items() if isinstance(value, (int, float))})

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self._end()

    def __enter__(self) -> Backsight:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(error)


def _refuse(args: Any, ddp: Any) -> None:
    """Refuse what the Trainer would do with gradients that are gone by then."""
    if args.max_grad_norm:
        raise NotReleasable(
            f"TrainingArguments(max_grad_norm={args.max_grad_norm}) scales gradients after backward, when release has "
            "already used them. Let release do it: max_grad_norm=0 and Backsight(release=True, "
            f"clip={args.max_grad_norm})."
        )
    if args.gradient_accumulation_steps != 1:
        raise NotReleasable(
            f"TrainingArguments(gradient_accumulation_steps={args.gradient_accumulation_steps}) keeps all gradients "
            "until the last batch, so nothing can be released. Remove it, or remove release=True."
        )
    if args.fp16:
        raise NotReleasable(
            "TrainingArguments(fp16=True) scales the loss and unscales gradients after backward, when release has "
            "already used them. bf16=True does not scale."
        )
    if args.world_size > 1 and ddp is None:
        raise NotReleasable(
            f"The Trainer trains with {args.world_size} processes without DistributedDataParallel, which release under "
            "it is for. Leave TrainingArguments(fsdp=..., deepspeed=...) out, or call backsight.release(optimizer) "
            "in a training loop of your own."
        )
