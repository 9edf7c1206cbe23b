"""GRPOTrainer: completions are sampled and rewarded for one word."""

from _digest import digest
from _words import LLAMA, sentence, tokenizer
from datasets import Dataset
from transformers import LlamaForCausalLM, set_seed
from trl import GRPOConfig, GRPOTrainer

set_seed(0)


def rewarded(completions, **others):
    return [sum(int(word[1:]) % 2 == 0 for word in text.split() if word[0] == "w") / 8 for text in completions]


config = GRPOConfig(
    "out", max_steps=8, per_device_train_batch_size=4, num_generations=4, max_completion_length=8, learning_rate=1e-3,
    report_to=[], save_strategy="no", disable_tqdm=True, use_cpu=True, bf16=False, logging_steps=4,
)  # fmt: skip
data = Dataset.from_list([{"prompt": sentence(number, 4)} for number in range(32)])
trainer = GRPOTrainer(LlamaForCausalLM(LLAMA), rewarded, args=config, train_dataset=data, processing_class=tokenizer())
print(trainer.train().training_loss)
print(digest(trainer.model))
