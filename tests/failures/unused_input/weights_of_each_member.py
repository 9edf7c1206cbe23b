# code: BS204
# variable: slopes
# cause: push = torch.autograd.grad(errors[k], [slopes, shift], retain_graph=True)
# fix: Take the gradient of slopes_of_all and shift_of_all, then the row of each
import torch

torch.manual_seed(0)
slopes_of_all = torch.randn(3, 4, requires_grad=True)
shift_of_all = torch.zeros(3, 1, requires_grad=True)
x, wanted = torch.randn(20, 4), torch.randn(3, 20)

for step in range(5):
    errors = (slopes_of_all @ x.t() + shift_of_all - wanted).square().mean(dim=1)
    moves = []
    for k, (slopes, shift) in enumerate(zip(slopes_of_all, shift_of_all.unbind(0))):
        push = torch.autograd.grad(errors[k], [slopes, shift], retain_graph=True)
        norm = sum(part.square().sum() for part in push).sqrt()
        moves.append([part / norm.clamp(min=1) for part in push])
    with torch.no_grad():
        slopes_of_all -= 0.1 * torch.stack([move[0] for move in moves])
        shift_of_all -= 0.1 * torch.stack([move[1] for move in moves])
    print(step, errors.mean().item())
