"""SentenceTransformerTrainer: pairs by multiple negatives ranking, on a tiny BERT."""

from _digest import digest
from _words import sentence, tokenizer
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.losses import MultipleNegativesRankingLoss
from sentence_transformers.models import Pooling, Transformer
from transformers import BertConfig, BertModel, set_seed

set_seed(0)
config = BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
BertModel(config).save_pretrained("bert")
tokenizer().save_pretrained("bert")
words = Transformer("bert", max_seq_length=32)
model = SentenceTransformer(modules=[words, Pooling(32)])
data = Dataset.from_list([{"anchor": sentence(n, 6), "positive": sentence(n, 9)} for n in range(64)])
arguments = SentenceTransformerTrainingArguments(
    "out", max_steps=16, per_device_train_batch_size=8, learning_rate=1e-3, report_to=[], save_strategy="no",
    disable_tqdm=True, use_cpu=True,
)  # fmt: skip
trainer = SentenceTransformerTrainer(
    model, args=arguments, train_dataset=data, loss=MultipleNegativesRankingLoss(model)
)
print(trainer.train().training_loss)
print(digest(model))
