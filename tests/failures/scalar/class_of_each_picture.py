# code: BS212
# variable: score
# cause: score = logits[:, logits.argmax(1)].squeeze()
# fix: score = logits.gather(1, logits.argmax(1).unsqueeze(1)).sum()
import torch
import torch.nn as nn


class Heatmap:
    def __init__(self, model, layer):
        self.model = model
        self.kept = {}
        layer.register_forward_hook(self.keep)

    def keep(self, module, given, output):
        self.kept["activation"] = output
        output.register_hook(lambda gradient: self.kept.update(gradient=gradient))

    def __call__(self, pictures, class_index=None):
        logits = self.model(pictures)
        if class_index is None:
            score = logits[:, logits.argmax(1)].squeeze()
        else:
            score = logits[:, class_index].sum()
        self.model.zero_grad()
        score.backward()
        weights = self.kept["gradient"].mean(dim=(2, 3), keepdim=True)
        return (weights * self.kept["activation"]).sum(1).relu()


torch.manual_seed(0)
features = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())
model = nn.Sequential(features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 6)).eval()
heatmap = Heatmap(model, features)
print(heatmap(torch.rand(1, 3, 8, 8)).shape)
print(heatmap(torch.rand(4, 3, 8, 8)).shape)
