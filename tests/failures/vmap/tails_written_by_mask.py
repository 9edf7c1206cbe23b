# code: BS226
# variable: result
# cause: bent[far] = 2 * bent[far].abs().sqrt() - 1
# fix: bent = torch.where(far, 2 * bent.abs().sqrt() - 1, bent)
import torch


def huberized(residual):
    bent = residual.clone()
    far = bent.abs() > 1
    bent[far] = 2 * bent[far].abs().sqrt() - 1
    return bent.sum()


residuals = torch.randn(6, 8)
slopes = torch.func.vmap(torch.func.grad(huberized))(residuals)
