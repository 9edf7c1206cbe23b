"""The healthy first step of many architectures of `transformers`, from tiny configurations with random weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers")

SMALL: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "vocab_size": 60,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED = {**SMALL, "num_key_value_heads": 1, "head_dim": 8}
SPEAKING: dict[str, Any] = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "vocab_size": 60,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": 2,
}
SEEING = {"image_size": 16, "patch_size": 8, "num_labels": 3}


def next_tokens() -> dict[str, Any]:
    ids = torch.randint(5, 50, (2, 8))
    return {"input_ids": ids, "labels": ids}


def masked_tokens() -> dict[str, Any]:
    ids = torch.randint(5, 50, (2, 8))
    labels = ids.clone()
    labels[:, ::2] = -100
    return {"input_ids": ids, "labels": labels}


def translations() -> dict[str, Any]:
    return {"input_ids": torch.randint(5, 50, (2, 8)), "labels": torch.randint(5, 50, (2, 6))}


def images() -> dict[str, Any]:
    return {"pixel_values": torch.randn(2, 3, 16, 16), "labels": torch.tensor([0, 2])}


@dataclass(frozen=True)
class Architecture:
    """A model of `transformers`: its class, the settings of its configuration, and what it is trained on."""

    model: str
    batch: Callable[[], dict[str, Any]]
    settings: dict[str, Any] = field(default_factory=dict)

    def build(self) -> torch.nn.Module:
        cls = getattr(transformers, self.model)
        model: torch.nn.Module = cls(cls.config_class(**self.settings))
        return model.train()


ARCHITECTURES = (
    *(
        Architecture(f"{name}ForCausalLM", next_tokens, GROUPED)
        for name in (
            "Mistral",
            "Qwen2",
            "Qwen3",
            "Gemma",
            "Gemma2",
            "Phi3",
            "Olmo2",
            "Cohere",
            "Starcoder2",
            "Granite",
            "StableLm",
        )
    ),
    *(
        Architecture(f"{name}ForCausalLM", next_tokens, SMALL)
        for name in ("Phi", "GPTNeoX", "Falcon", "BioGpt", "OPT", "XGLM")
    ),
    Architecture("BloomForCausalLM", next_tokens, {"hidden_size": 16, "n_layer": 1, "n_head": 2, "vocab_size": 60}),
    Architecture(
        "GPTJForCausalLM", next_tokens, {"n_embd": 16, "n_layer": 1, "n_head": 2, "rotary_dim": 4, "vocab_size": 60}
    ),
    *(
        Architecture(f"{name}ForMaskedLM", masked_tokens, SMALL)
        for name in ("Roberta", "Electra", "Albert", "Camembert", "DebertaV2", "RoFormer", "ModernBert")
    ),
    Architecture("DistilBertForMaskedLM", masked_tokens, {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 32}),
    *(
        Architecture(f"{name}ForConditionalGeneration", translations, SPEAKING)
        for name in ("Bart", "Pegasus", "MBart", "M2M100", "Blenderbot")
    ),
    *(
        Architecture(f"{name}ForImageClassification", images, {**SMALL, **SEEING})
        for name in ("DeiT", "Beit", "Dinov2")
    ),
    Architecture(
        "ConvNextForImageClassification", images, {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, **SEEING}
    ),
)
