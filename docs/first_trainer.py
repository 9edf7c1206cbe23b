"""A tiny GPT-2 that reads the documentation of argparse, byte by byte, with the Trainer of transformers."""

import argparse
import logging
import tempfile

import torch
import transformers

import backsight as bs
from backsight.integrations.transformers import Backsight

logging.getLogger("transformers").setLevel(logging.ERROR)

text = torch.tensor(list(argparse.__doc__.encode()))
data = [{"input_ids": text[k : k + 64], "labels": text[k : k + 64]} for k in range(0, 1920, 64)]
torch.manual_seed(0)
size = {"vocab_size": 256, "n_positions": 64, "n_embd": 64, "n_layer": 2, "n_head": 4}
model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**size, bos_token_id=0, eos_token_id=0))

with tempfile.TemporaryDirectory() as folder:
    arguments = transformers.TrainingArguments(
        folder,
        num_train_epochs=4,
        per_device_train_batch_size=5,
        learning_rate=3e-3,
        max_grad_norm=0,  # the callback clips
        use_cpu=True,
        disable_tqdm=True,
        save_strategy="no",
        report_to=[],
    )
    with Backsight(f"{folder}/runs/gpt2", release=True, clip=1.0) as watching:
        trainer = transformers.Trainer(model, arguments, train_dataset=data, callbacks=[watching])
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    run = bs.open_run(watching.recorder.run)
    losses = run.series("output.loss", "mean").values
    print(f"loss {losses[0]:.1f} to {losses[-1]:.1f} in {len(run.steps)} steps of {len(run.tensors)} tensors")
    print(watching.report)
