"""Trainer: BERT classifies sequences, evaluated and saved."""

import numpy as np
import torch
from _digest import digest
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

set_seed(0)
tokens = torch.randint(5, 100, (160, 16))
labels = (tokens.float().mean(dim=1) > 52).long()
data = [{"input_ids": row, "labels": label} for row, label in zip(tokens, labels, strict=True)]
config = BertConfig(vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
model = BertForSequenceClassification(config)


def accuracy(prediction):
    return {"accuracy": float(np.mean(prediction.predictions.argmax(-1) == prediction.label_ids))}


arguments = TrainingArguments(
    "out", num_train_epochs=2, per_device_train_batch_size=8, gradient_accumulation_steps=2, learning_rate=5e-4,
    eval_strategy="epoch", save_strategy="epoch", save_total_limit=1, load_best_model_at_end=True, report_to=[],
    disable_tqdm=True, use_cpu=True, weight_decay=0.01, label_smoothing_factor=0.1,
)  # fmt: skip
trainer = Trainer(model, arguments, train_dataset=data[:128], eval_dataset=data[128:], compute_metrics=accuracy)
trainer.train()
print(trainer.evaluate()["eval_accuracy"])
print(digest(trainer.model))
