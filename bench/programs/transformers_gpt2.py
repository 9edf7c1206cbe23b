"""Trainer: GPT-2 on made-up text."""

import torch
from _digest import digest
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

set_seed(0)
tokens = torch.randint(0, 200, (128, 32))
data = [{"input_ids": row, "labels": row} for row in tokens]
model = GPT2LMHeadModel(GPT2Config(vocab_size=200, n_positions=32, n_embd=32, n_layer=2, n_head=2))
arguments = TrainingArguments(
    "out", max_steps=40, per_device_train_batch_size=8, learning_rate=1e-3, logging_steps=10, report_to=[],
    save_strategy="no", disable_tqdm=True, use_cpu=True, lr_scheduler_type="cosine", warmup_steps=5,
)  # fmt: skip
trainer = Trainer(model, arguments, train_dataset=data)
outcome = trainer.train()
print("steps", outcome.global_step, "loss", outcome.training_loss)
print(digest(model, trainer.optimizer))
