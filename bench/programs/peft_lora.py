"""LoRA on a Llama, by transformers' Trainer; the adapter is merged at the end."""

import torch
from _digest import digest
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed

set_seed(0)
config = LlamaConfig(
    vocab_size=120, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64,
)  # fmt: skip
model = get_peft_model(
    LlamaForCausalLM(config),
    LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=8, lora_dropout=0.05, target_modules=["q_proj", "v_proj"]),
)
model.print_trainable_parameters()
tokens = torch.randint(0, 120, (96, 24))
arguments = TrainingArguments(
    "out", max_steps=30, per_device_train_batch_size=8, learning_rate=2e-3, report_to=[], save_strategy="no",
    disable_tqdm=True, use_cpu=True,
)  # fmt: skip
trainer = Trainer(model, arguments, train_dataset=[{"input_ids": row, "labels": row} for row in tokens])
trainer.train()
print(digest(model.merge_and_unload()))
