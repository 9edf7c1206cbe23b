# code: BS206
# variable: prompt
# cause: prompt = nn.functional.normalize(nn.Parameter(torch.randn(1, 5, 8)), dim=-1)
# fix: Parameter
import torch
from torch import nn


def prompt_tuning(lr):
    prompt = nn.functional.normalize(nn.Parameter(torch.randn(1, 5, 8)), dim=-1)
    return prompt, torch.optim.SGD([prompt], lr=lr)


prompt, optimizer = prompt_tuning(lr=0.3)
