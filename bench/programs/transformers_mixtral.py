"""A loop of our own: Mixtral's mixture of experts, with its router's loss and checkpointing."""

import torch
from _digest import digest
from transformers import MixtralConfig, MixtralForCausalLM, get_cosine_schedule_with_warmup, set_seed

set_seed(0)
config = MixtralConfig(
    vocab_size=100, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2, output_router_logits=True,
)  # fmt: skip
model = MixtralForCausalLM(config)
model.gradient_checkpointing_enable()
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = get_cosine_schedule_with_warmup(optimizer, 4, 30)
tokens = torch.randint(0, 100, (64, 24))
for step in range(30):
    batch = tokens[torch.randint(0, 64, (4,))]
    loss = model(input_ids=batch, labels=batch, use_cache=False).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
    if step % 10 == 0:
        print(step, loss.item())
print(digest(model, optimizer))
