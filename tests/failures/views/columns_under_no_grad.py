# code: BS209
# variable: features
# cause: features += bias
# fix: write features = features + bias
import torch

encoder, bias = torch.nn.Linear(4, 4), torch.nn.Parameter(torch.zeros(2))


def f(x):
    with torch.no_grad():
        features = encoder(x)[:, :2]
    features += bias


f(torch.randn(3, 4))
