"""Healthy trainings that are recorded. Transformers."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from healthy_recordings import Record, fit
from torch import nn


def masked_transformer(record: Record) -> None:
    """Float masks of -inf are given to every layer, and some keys are padding."""
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True, norm_first=True)
    model = nn.ModuleDict(
        {"body": nn.TransformerEncoder(layer, 6, enable_nested_tensor=False), "head": nn.Linear(16, 4)}
    )
    mask = nn.Transformer.generate_square_subsequent_mask(12)
    padding = torch.zeros(8, 12)
    padding[:, 10:] = -math.inf
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def loss_of(step: int) -> torch.Tensor:
        hidden = model["body"](torch.randn(8, 12, 16), mask=mask, src_key_padding_mask=padding)
        return F.cross_entropy(model["head"](hidden)[:, :10].flatten(0, 1), torch.arange(80) % 4)

    fit(record, model, optimizer, loss_of)


def gpt2(record: Record) -> None:
    """A small GPT-2 from its configuration, with warm-up and tied weights."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=4, n_head=4, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 10))

    def loss_of(step: int) -> torch.Tensor:
        tokens = (torch.arange(24) * 3 + torch.randint(0, 64, (4, 1))) % 64
        mask = torch.ones_like(tokens)
        mask[:, :4] = 0
        return model(input_ids=tokens, attention_mask=mask, labels=tokens).loss

    fit(record, model, optimizer, loss_of, schedule)


def bert(record: Record) -> None:
    """A small BERT that is fine-tuned at a small learning rate: a pooler, token types that are all 0, masks."""
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=64, num_labels=2
    )
    model = BertForSequenceClassification(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)

    def loss_of(step: int) -> torch.Tensor:
        tokens = torch.randint(1, 64, (8, 16))
        mask = (torch.arange(16) < torch.randint(8, 16, (8, 1))).long()
        return model(input_ids=tokens, attention_mask=mask, labels=tokens[:, 0] % 2).loss

    fit(record, model, optimizer, loss_of)


PROGRAMS = [
    masked_transformer,
    gpt2,
    bert,
]
