"""A training over two processes under a host, which has been imported once: `python host_ranks.py <host> <port>`."""

from __future__ import annotations

import functools
import logging
import os
import sys
import tempfile
import warnings

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset


def remembering(kind):
    """Return a callback like `kind` that knows at the end what it had released."""

    class Remembering(kind):
        def on_train_end(self, *given, **named):
            self.seen = [(repr(each), each.peak_gradient_bytes) for each in self.releases]
            super().on_train_end(*given, **named)

    return Remembering(record=False, audit=False, release=0)


def under_lightning(released, manual=False, sharded=False):
    """Train a perceptron for two epochs, and return its weights and the callback."""
    import lightning.pytorch as L
    from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy

    from backsight.integrations.lightning import Backsight

    class Perceptron(L.LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.automatic_optimization = not manual
            self.layers = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4))

        def configure_model(self):
            if sharded:
                for each in (*self.layers[::2], self):
                    torch.distributed.fsdp.fully_shard(each, mesh=self.device_mesh["data_parallel"])

        def training_step(self, batch, index):
            loss = cross_entropy(self.layers(batch[0]), batch[1])
            if manual:
                self.optimizers().zero_grad()
                self.manual_backward(loss)
                self.optimizers().step()
            return loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-2)

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    generator = torch.Generator().manual_seed(0)
    examples = torch.randn(64, 16, generator=generator), torch.randint(0, 4, (64,), generator=generator)
    model, watching = Perceptron(), remembering(Backsight)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    L.Trainer(
        max_epochs=2,
        accelerator="cpu",
        devices=2,
        strategy=(ModelParallelStrategy if sharded else DDPStrategy)(process_group_backend="gloo"),
        callbacks=[watching] if released else [],
        enable_model_summary=False,
        **quiet,
    ).fit(model, DataLoader(TensorDataset(*examples), batch_size=8))
    return model, watching


def under_the_trainer(released):
    """Train a tiny GPT-2, and return its weights and the callback."""
    import transformers

    from backsight.integrations.transformers import Backsight

    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    size = {"vocab_size": 64, "n_positions": 16, "n_embd": 32, "n_layer": 2, "n_head": 2}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**size, bos_token_id=0, eos_token_id=0))
    words = torch.randint(0, 64, (16, 16), generator=torch.Generator().manual_seed(0))
    quiet = {"report_to": [], "save_strategy": "no", "disable_tqdm": True, "use_cpu": True, "logging_strategy": "no"}
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            max_grad_norm=0,
            num_train_epochs=2,
            per_device_train_batch_size=2,
            learning_rate=1e-2,
            ddp_backend="gloo",
            **quiet,
        )
        examples = [{"input_ids": each, "labels": each} for each in words]
        watching = remembering(Backsight)
        callbacks = [watching] if released else []
        transformers.Trainer(model, arguments, train_dataset=examples, callbacks=callbacks).train()
    return model, watching


def main(host, port, rank):
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "test"}
    os.environ.update(address, RANK=rank, LOCAL_RANK=rank, WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", GROUP_RANK="0")
    train = {
        "lightning": under_lightning,
        "lightning_manual": functools.partial(under_lightning, manual=True),
        "lightning_sharded": functools.partial(under_lightning, sharded=True),
        "transformers": under_the_trainer,
    }[host]
    expected, _ = train(released=False)
    found, watching = train(released=True)
    assert torch.distributed.get_world_size() == 2
    ((told, peak),) = watching.seen
    assert peak > 0
    sharded = host.endswith("_sharded")
    assert ("each bucket that DistributedDataParallel has averaged" in told) is not sharded, told
    for (name, one), other in zip(found.named_parameters(), expected.parameters(), strict=True):
        assert isinstance(one, DTensor) is sharded
        assert torch.equal(*(each.to_local() if sharded else each for each in (one, other))), name
    torch.distributed.barrier()
    print("done", flush=True)
    os._exit(0)  # as in tests/gradient_release/ranks.py


def fork_ranks(host, port):
    """Run both ranks as forks of this process; return whether one has failed."""
    if host == "transformers":
        from transformers import GPT2LMHeadModel, Trainer  # noqa: F401
    else:
        import lightning.pytorch  # noqa: F401
    for rank in "01":
        if not os.fork():
            main(host, port, rank)
    failed = [os.wait()[1] for _ in range(2)]
    return any(failed)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sys.exit(fork_ranks(*sys.argv[1:]))
