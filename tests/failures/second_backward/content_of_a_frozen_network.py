# code: BS201
# variable: model.2.wanted
# cause: self.wanted = features * scale
# fix: write `self.wanted = (features * scale).detach()`
import torch


class Content(torch.nn.Module):
    def __init__(self, features, scale):
        super().__init__()
        self.wanted = features * scale
        self.scale = scale

    def forward(self, x):
        self.loss = (x * self.scale - self.wanted).square().mean()
        return x


torch.manual_seed(0)
layers = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU())
picture = torch.rand(1, 3, 8, 8)
model = torch.nn.Sequential(*layers, Content(layers(picture), 0.5))
image = picture.clone().requires_grad_()
optimizer = torch.optim.Adam([image], lr=0.02)
for _ in range(3):
    optimizer.zero_grad()
    model(image)
    model[-1].loss.backward()
    optimizer.step()
