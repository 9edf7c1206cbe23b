import torch


class BilinearSample(torch.autograd.Function):
    """img (H, W), grid (N, 2) in [-1, 1] as (x, y), align_corners=True."""

    @staticmethod
    def forward(ctx, img, grid):
        H, W = img.shape
        px = (grid[:, 0] + 1) * 0.5 * (W - 1)
        py = (grid[:, 1] + 1) * 0.5 * (H - 1)
        x0 = px.floor().clamp(0, W - 2).long()
        y0 = py.floor().clamp(0, H - 2).long()
        fx, fy = px - x0, py - y0
        v00, v01 = img[y0, x0], img[y0, x0 + 1]
        v10, v11 = img[y0 + 1, x0], img[y0 + 1, x0 + 1]
        ctx.save_for_backward(x0, y0, fx, fy, v00, v01, v10, v11)
        ctx.shape = (H, W)
        return (v00 * (1 - fx) * (1 - fy) + v01 * fx * (1 - fy)
                + v10 * (1 - fx) * fy + v11 * fx * fy)

    @staticmethod
    def backward(ctx, g):
        x0, y0, fx, fy, v00, v01, v10, v11 = ctx.saved_tensors
        H, W = ctx.shape
        gi = g.new_zeros(H, W)
        gi.index_put_((y0, x0), g * (1 - fx) * (1 - fy), accumulate=True)
        gi.index_put_((y0, x0 + 1), g * fx * (1 - fy), accumulate=True)
        gi.index_put_((y0 + 1, x0), g * (1 - fx) * fy, accumulate=True)
        gi.index_put_((y0 + 1, x0 + 1), g * fx * fy, accumulate=True)
        dpx = (v01 - v00) * (1 - fy) + (v11 - v10) * fy
        dpy = (v10 - v00) * (1 - fx) + (v11 - v01) * fx
        gg = torch.stack([g * dpx * W / 2, g * dpy * H / 2], dim=-1)
        return gi, gg


def f(img, pts, A):
    grid = torch.tanh(pts @ A)
    s = BilinearSample.apply(img, grid)
    return (s * s).sum()


def inputs():
    g = torch.Generator().manual_seed(3)
    img = torch.randn(6, 7, generator=g, dtype=torch.float64, requires_grad=True)
    pts = torch.randn(9, 2, generator=g, dtype=torch.float64)
    A = torch.randn(2, 2, generator=g, dtype=torch.float64, requires_grad=True)
    return img, pts, A
