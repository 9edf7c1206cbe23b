# code: BS200
# variable: error.backward()
# cause: return self.restored(kept)
# fix: Return a tensor from unpack()
import torch
from torch import nn


class Quantised(torch.autograd.graph.saved_tensors_hooks):
    """Keeps what backward needs in 8 bits."""

    def __init__(self):
        super().__init__(self.pack, self.unpack)

    def pack(self, tensor):
        if not tensor.is_floating_point() or isinstance(tensor, nn.Parameter):
            return tensor
        scale = tensor.abs().amax() / 127
        return (tensor / scale).round().to(torch.int8), scale

    def restored(self, kept):
        values, scale = kept
        return values.float() * scale, scale

    def unpack(self, kept):
        if type(kept) is torch.Tensor or type(kept) is nn.Parameter:
            return kept
        return self.restored(kept)


model = nn.Sequential(nn.Linear(4, 8), nn.Sigmoid(), nn.Linear(8, 1))
with Quantised():
    error = (model(torch.randn(10, 4)) - 1).abs().mean()
error.backward()
