# code: BS209
# variable: plane
# cause: plane.mul_(self.stds[k]).add_(self.means[k])
# fix: If shown needs no gradient, write `shown = torch.clone(batch[0].detach())` on line 15
import torch


class Picture:
    """What the network sees, in the colors of the file."""

    means = (0.5, 0.4)
    stds = (0.2, 0.3)

    def of(self, batch):
        shown = torch.clone(batch[0])
        for k, plane in enumerate(shown):
            plane.mul_(self.stds[k]).add_(self.means[k])
        return shown


weights = torch.randn(1, 2, 3, 3, requires_grad=True)
batch = weights * 2
batch.square().sum().backward()
picture = Picture().of(batch).tolist()
