"""A tokenizer of a few made-up words, and a tiny Llama: what TRL wants and nothing downloads."""

from __future__ import annotations

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, PreTrainedTokenizerFast

WORDS = [f"w{number}" for number in range(60)]
LLAMA = LlamaConfig(
    vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)  # fmt: skip


def tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer of whole words."""
    numbers = {word: number for number, word in enumerate(["<pad>", "<s>", "</s>", "<unk>", *WORDS])}
    words = Tokenizer(models.WordLevel(numbers, "<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def sentence(start: int, length: int) -> str:
    """Return a made-up sentence."""
    return " ".join(WORDS[(start * 7 + step * (start % 5 + 1)) % len(WORDS)] for step in range(length))
