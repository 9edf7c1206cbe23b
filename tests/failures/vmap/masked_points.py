# code: BS226
# variable: result
# cause: inside = points[points.norm(dim=1) < 1.0]
# fix: torch.where(
import torch


def mean_inside(points):
    inside = points[points.norm(dim=1) < 1.0]
    return inside.mean(0)


clouds = torch.randn(5, 20, 2, requires_grad=True)
centres = torch.vmap(mean_inside)(clouds)
