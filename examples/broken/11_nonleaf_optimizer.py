"""Matrix factorisation whose factors are scaled down at the moment they are created.

What is wrong: the leaf is what `torch.randn` returned; `* 0.1` makes a new tensor computed from it, and only
               that one has a name. An optimizer can change leaves only.
PyTorch says:  can't optimize a non-leaf Tensor
Fix:          scale first and ask for the gradient last: `(torch.randn(50, 8) * 0.1).requires_grad_()`, or
               wrap the result: `nn.Parameter(torch.randn(50, 8) * 0.1)`.
"""

import torch


def factorise(ratings, rank=8, epochs=20):
    num_users, num_items = ratings.shape
    user_factors = torch.randn(num_users, rank, requires_grad=True) * 0.1
    item_factors = torch.randn(num_items, rank, requires_grad=True) * 0.1
    optimizer = torch.optim.Adam([user_factors, item_factors], lr=0.01)

    for _ in range(epochs):
        loss = ((user_factors @ item_factors.T - ratings) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return user_factors, item_factors


if __name__ == "__main__":
    torch.manual_seed(0)
    factorise(ratings=torch.randint(1, 6, (50, 30)).float())
