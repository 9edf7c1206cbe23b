"""RewardTrainer: a scalar head on a tiny Llama learns preferences."""

from _digest import digest
from _words import LLAMA, sentence, tokenizer
from datasets import Dataset
from transformers import LlamaForSequenceClassification, set_seed
from trl import RewardConfig, RewardTrainer

set_seed(0)
LLAMA.num_labels = 1
model = LlamaForSequenceClassification(LLAMA)
data = Dataset.from_list([{"chosen": sentence(n + 1, 8), "rejected": sentence(n + 2, 9)} for n in range(48)])
config = RewardConfig(
    "out", max_steps=16, per_device_train_batch_size=4, learning_rate=1e-3, report_to=[], save_strategy="no",
    disable_tqdm=True, use_cpu=True, bf16=False, max_length=32, logging_steps=8,
)  # fmt: skip
trainer = RewardTrainer(model, args=config, train_dataset=data, processing_class=tokenizer())
print(trainer.train().training_loss)
print(digest(trainer.model))
