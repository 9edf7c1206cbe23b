"""An autoregressive transformer with rotary embeddings and grouped queries, and samples of it."""

import torch
from _digest import digest
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

torch.manual_seed(0)
model = AutoregressiveWrapper(
    TransformerWrapper(
        num_tokens=64,
        max_seq_len=32,
        attn_layers=Decoder(dim=32, depth=2, heads=4, attn_kv_heads=2, rotary_pos_emb=True, ff_glu=True),
    )
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
data = torch.randint(0, 64, (64, 33))
for step in range(40):
    model.train()
    for _ in range(2):
        loss = model(data[torch.randint(0, 64, (4,))])
        (loss / 2).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    optimizer.zero_grad()
    if step % 10 == 0:
        print(step, loss.item())
model.eval()
print(model.generate(data[:1, :4], 8).tolist())
print(digest(model))
