"""SFTTrainer: a tiny Llama on made-up sentences."""

from _digest import digest
from _words import LLAMA, sentence, tokenizer
from datasets import Dataset
from transformers import LlamaForCausalLM, set_seed
from trl import SFTConfig, SFTTrainer

set_seed(0)
model = LlamaForCausalLM(LLAMA)
data = Dataset.from_list([{"text": sentence(number, 12)} for number in range(64)])
config = SFTConfig(
    "out", max_steps=20, per_device_train_batch_size=4, learning_rate=1e-3, report_to=[], save_strategy="no",
    disable_tqdm=True, use_cpu=True, bf16=False, max_length=32, logging_steps=10,
)  # fmt: skip
trainer = SFTTrainer(model, args=config, train_dataset=data, processing_class=tokenizer())
print(trainer.train().training_loss)
print(digest(trainer.model))
