"""IA3 and prompt tuning on a GPT-2, one after the other, in a loop of our own."""

import torch
from _digest import digest
from peft import IA3Config, PromptTuningConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
tokens = torch.randint(0, 100, (64, 16))
for adapter in (
    IA3Config(task_type="CAUSAL_LM", target_modules=["c_attn", "c_proj"], feedforward_modules=["c_proj"]),
    PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4),
):
    base = GPT2LMHeadModel(GPT2Config(vocab_size=100, n_positions=32, n_embd=32, n_layer=2, n_head=2))
    model = get_peft_model(base, adapter)
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-2)
    for _ in range(20):
        batch = tokens[torch.randint(0, 64, (8,))]
        loss = model(input_ids=batch, attention_mask=torch.ones_like(batch), labels=batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(loss.item(), digest(model.state_dict()))
