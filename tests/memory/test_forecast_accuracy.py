"""A forecast is within a thousandth of what the CPU allocator reports of the same step."""

from functools import partial

import pytest
import torch
from steps import CNN, GPT, MLP, Case, peak_of, words
from torch import nn
from torch.nn import functional as F

from backsight.memory import forecast

fused, foreach, loop = (
    partial(torch.optim.AdamW, **{"fused": False, "foreach": False, name: True} if name else {})
    for name in ("fused", "foreach", "")
)


def llama() -> nn.Module:
    transformers = pytest.importorskip("transformers")
    shape = {"hidden_size": 128, "intermediate_size": 344, "num_hidden_layers": 3, "num_attention_heads": 4}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=1000, **shape))


def gpt2() -> nn.Module:
    transformers = pytest.importorskip("transformers")
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=1000, n_embd=128, n_layer=3, n_head=4))


def labelled() -> dict[str, torch.Tensor]:
    drawn, _ = words()
    return {"input_ids": drawn, "labels": drawn}


def images() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,))


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
    return nn.Sequential(
        nn.Embedding(1000, 128), nn.TransformerEncoder(layer, 3), nn.Flatten(), nn.Linear(64 * 128, 10)
    )


CASES = {
    "MLP, fused": lambda: Case(MLP(*[256] * 12), (torch.randn(32, 256), torch.randn(32, 256)), fused),
    "MLP, foreach": lambda: Case(MLP(*[256] * 12), (torch.randn(32, 256), torch.randn(32, 256)), foreach),
    "MLP, SGD with momentum": lambda: Case(
        MLP(*[256] * 12), (torch.randn(32, 256), torch.randn(32, 256)), partial(torch.optim.SGD, lr=0.1, momentum=0.9)
    ),
    "MLP, Adafactor": lambda: Case(
        MLP(*[256] * 12), (torch.randn(32, 256), torch.randn(32, 256)), torch.optim.Adafactor
    ),
    "GPT, loop": lambda: Case(GPT(), words(), loop),
    "GPT, foreach": lambda: Case(GPT(), words(), foreach),
    "GPT, one short sentence": lambda: Case(GPT(), words(1, 8), fused),
    "GPT, bf16 autocast": lambda: Case(GPT(), words(), fused, autocast=torch.bfloat16),
    "GPT, checkpointed": lambda: Case(GPT(checkpointed=True, depth=6), words(), fused),
    "GPT, checkpointed, bf16 autocast": lambda: Case(
        GPT(checkpointed=True, depth=6), words(), foreach, autocast=torch.bfloat16
    ),
    "CNN with batch norm": lambda: Case(CNN(), images(), fused, F.cross_entropy),
    "PyTorch's TransformerEncoder": lambda: Case(
        encoder(), (words()[0], torch.randint(0, 10, (4,))), fused, F.cross_entropy
    ),
    "Llama of transformers": lambda: Case(llama(), labelled(), fused),
    "GPT-2 of transformers, foreach": lambda: Case(gpt2(), labelled(), foreach),
}


def train(case: Case, optimizer: torch.optim.Optimizer) -> None:
    """Do a step as a loop would."""
    with torch.autocast("cpu", case.autocast, enabled=case.autocast is not None):
        if case.loss is not None:
            inputs, target = case.batch
            output = case.model(inputs)
            loss = case.loss(output, target)
        else:
            output = case.model(**case.batch) if isinstance(case.batch, dict) else case.model(*case.batch)
            loss = getattr(output, "loss", output)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def measured(case: Case, optimizer: torch.optim.Optimizer) -> int:
    def held():
        yield from case.model.parameters()
        yield from case.model.buffers()
        yield from case.batch.values() if isinstance(case.batch, dict) else case.batch
        yield from (value for state in optimizer.state.values() for value in state.values() if torch.is_tensor(value))

    return peak_of(lambda: train(case, optimizer), held())


@pytest.mark.parametrize("name", CASES)
def test_a_forecast_is_within_a_thousandth_of_the_allocator(name):
    torch.manual_seed(0)
    case = CASES[name]()
    optimizer = case.optimizer(case.model.parameters())
    foretold = forecast(
        case.model, case.batch, optimizer, loss=case.loss, autocast=case.autocast, device="cpu", variants=False
    )
    assert foretold.peak == pytest.approx(measured(case, optimizer), rel=1e-3)


def test_a_step_that_builds_its_own_model_has_none_of_the_step_before():
    def step():
        torch.manual_seed(0)
        model = GPT()
        optimizer = fused(model.parameters())
        model(*words()).backward()
        optimizer.step()

    foretold = forecast(step, device="cpu")
    assert foretold.peak == pytest.approx(peak_of(step, ()), rel=1e-3)
    own = sum(each.nbytes for each in GPT().parameters())
    assert foretold.memory.by_kind["parameters"] == foretold.memory.by_kind["gradients"] == own
