"""Seq2SeqTrainer: T5 copies sequences, with Adafactor."""

import torch
from _digest import digest
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, T5Config, T5ForConditionalGeneration, set_seed

set_seed(0)
tokens = torch.randint(2, 64, (64, 12))
data = [{"input_ids": row, "labels": row.clone()} for row in tokens]
config = T5Config(
    vocab_size=64, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, decoder_start_token_id=0, pad_token_id=0
)
model = T5ForConditionalGeneration(config)
arguments = Seq2SeqTrainingArguments(
    "out", max_steps=24, per_device_train_batch_size=8, optim="adafactor", learning_rate=1e-3, report_to=[],
    save_strategy="no", disable_tqdm=True, use_cpu=True, predict_with_generate=True, generation_max_length=8,
)  # fmt: skip
trainer = Seq2SeqTrainer(model, arguments, train_dataset=data, eval_dataset=data[:8])
trainer.train()
print(trainer.predict(data[:8]).predictions.shape)
print(digest(model))
