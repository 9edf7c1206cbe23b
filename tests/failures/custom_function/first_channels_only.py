# code: BS208
# variable: image
# cause: grad = (grad_light[..., None] * ctx.weights).contiguous()
# fix: torch.nn.functional.pad((grad_light[..., None] * ctx.weights).contiguous(), (0, 1))
import torch


class Luminance(torch.autograd.Function):
    """Brightness of RGBA images; the alpha channel does not count."""

    @staticmethod
    def forward(ctx, image, weights):
        colors = len(weights)
        ctx.weights = weights
        with torch.no_grad():
            light = image[..., :colors] @ weights
        return light

    @staticmethod
    def backward(ctx, grad_light):
        grad = (grad_light[..., None] * ctx.weights).contiguous()
        return grad, None


image = torch.rand(8, 8, 4, requires_grad=True)
optimizer = torch.optim.SGD([image], lr=0.1)
for _ in range(3):
    loss = (Luminance.apply(image, torch.tensor([0.3, 0.6, 0.1])) - 0.5).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
