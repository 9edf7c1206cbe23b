"""DPOTrainer: preferences between made-up completions."""

from _digest import digest
from _words import LLAMA, sentence, tokenizer
from datasets import Dataset
from transformers import LlamaForCausalLM, set_seed
from trl import DPOConfig, DPOTrainer

set_seed(0)
model, reference = LlamaForCausalLM(LLAMA), LlamaForCausalLM(LLAMA)
reference.load_state_dict(model.state_dict())
data = Dataset.from_list(
    [{"prompt": sentence(n, 4) + " ", "chosen": sentence(n + 1, 5), "rejected": sentence(n + 2, 6)} for n in range(48)]
)
config = DPOConfig(
    "out", max_steps=16, per_device_train_batch_size=4, learning_rate=1e-3, report_to=[], save_strategy="no",
    disable_tqdm=True, use_cpu=True, bf16=False, max_length=32, logging_steps=8, beta=0.1,
)  # fmt: skip
trainer = DPOTrainer(model, ref_model=reference, args=config, train_dataset=data, processing_class=tokenizer())
print(trainer.train().training_loss)
print(digest(trainer.model))
