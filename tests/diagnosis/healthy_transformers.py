"""Healthy training programs: transformers from tiny configurations, with random weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from healthy import STEPS, Check, programs

import backsight as bs

transformers = pytest.importorskip("transformers")
T = transformers

SMALL: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "vocab_size": 60,
}
SPEECH = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
}
IMAGE = {"image_size": 16, "patch_size": 8}


def tokens(length: int = 8) -> torch.Tensor:
    return torch.randint(5, 50, (2, length))


def train(check: Check, model: Any, batch: Any) -> None:
    optimizer = torch.optim.AdamW(model.parameters())
    model.train()
    for _ in range(STEPS):
        loss = model(**batch()).loss
        check(bs.audit(loss))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def causal() -> dict[str, Any]:
    ids = tokens()
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids).tril(6), "labels": ids}


def gpt2(check: Check) -> None:
    config = T.GPT2Config(n_embd=16, n_layer=2, n_head=2, vocab_size=60, n_positions=16)
    train(check, T.GPT2LMHeadModel(config), causal)


def gpt2_checkpointed(check: Check) -> None:
    model = T.GPT2LMHeadModel(T.GPT2Config(n_embd=16, n_layer=2, n_head=2, vocab_size=60, n_positions=16))
    model.gradient_checkpointing_enable()
    model.enable_input_require_grads()
    train(check, model, causal)


def gpt2_frozen_with_input_gradients(check: Check) -> None:
    model = T.GPT2LMHeadModel(
        T.GPT2Config(n_embd=16, n_layer=2, n_head=2, vocab_size=60, n_positions=16, tie_word_embeddings=False)
    )
    model.transformer.wte.requires_grad_(False)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
    model.enable_input_require_grads()
    train(check, model, causal)


def llama(check: Check) -> None:
    config = T.LlamaConfig(**SMALL, num_key_value_heads=1, max_position_embeddings=32)
    train(check, T.LlamaForCausalLM(config), causal)


def mixtral(check: Check) -> None:
    config = T.MixtralConfig(**SMALL, num_key_value_heads=1, num_local_experts=8, num_experts_per_tok=2)
    train(check, T.MixtralForCausalLM(config), causal)


def mamba(check: Check) -> None:
    config = T.MambaConfig(hidden_size=16, num_hidden_layers=2, vocab_size=60, state_size=4)
    train(check, T.MambaForCausalLM(config), lambda: {"input_ids": (ids := tokens()), "labels": ids})


def bert_with_a_language_head(check: Check) -> None:
    def batch() -> dict[str, Any]:
        ids = tokens()
        labels = ids.masked_fill(torch.rand(ids.shape) > 0.3, -100)
        labels[0, 0] = 7
        return {"input_ids": ids, "labels": labels}

    train(check, T.BertForMaskedLM(T.BertConfig(**SMALL)), batch)


def bert_whose_pooler_is_unused(check: Check) -> None:
    bert, head = T.BertModel(T.BertConfig(**SMALL)), torch.nn.Linear(16, 2)
    optimizer = torch.optim.AdamW([*bert.parameters(), *head.parameters()])
    for _ in range(STEPS):
        out = bert(tokens()).last_hidden_state[:, 0]
        loss = torch.nn.functional.cross_entropy(head(out), torch.tensor([0, 1]))
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def t5(check: Check) -> None:
    config = T.T5Config(d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, vocab_size=60, decoder_start_token_id=0)
    train(check, T.T5ForConditionalGeneration(config), lambda: {"input_ids": tokens(), "labels": tokens(5)})


def vit(check: Check) -> None:
    model = T.ViTForImageClassification(T.ViTConfig(**SMALL, **IMAGE, num_labels=3))
    train(check, model, lambda: {"pixel_values": torch.randn(2, 3, 16, 16), "labels": torch.tensor([0, 2])})


def masked_autoencoder(check: Check) -> None:
    decoder = {"decoder_hidden_size": 16, "decoder_num_hidden_layers": 1, "decoder_num_attention_heads": 2}
    config = T.ViTMAEConfig(**SMALL, **IMAGE, **decoder, decoder_intermediate_size=32)
    train(check, T.ViTMAEForPreTraining(config), lambda: {"pixel_values": torch.randn(2, 3, 16, 16)})


def whisper(check: Check) -> None:
    config = T.WhisperConfig(
        **SPEECH, vocab_size=60, num_mel_bins=8, max_source_positions=16, max_target_positions=16,
        encoder_ffn_dim=32, decoder_ffn_dim=32, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=1, encoder_layerdrop=0.3,
    )  # fmt: skip
    train(
        check,
        T.WhisperForConditionalGeneration(config),
        lambda: {"input_features": torch.randn(2, 8, 32), "labels": tokens(6)},
    )


def clip(check: Check) -> None:
    config = T.CLIPConfig(
        text_config={**SMALL, "max_position_embeddings": 16, "eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0},
        vision_config={**SMALL, **IMAGE},
        projection_dim=8,
    )
    model = T.CLIPModel(config)
    train(
        check,
        model,
        lambda: {"input_ids": tokens(), "pixel_values": torch.randn(2, 3, 16, 16), "return_loss": True},
    )


PROGRAMS = programs(globals())
