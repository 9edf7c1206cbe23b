# code: BS233
# variable: kinematics
# cause: return position.tolist()
# fix: write `return position`
import torch

LENGTHS = torch.tensor([1.0, 0.8, 0.5])


def kinematics(angles):
    total = torch.cumsum(angles, 0)
    position = torch.stack([(LENGTHS * total.cos()).sum(), (LENGTHS * total.sin()).sum()])
    return position.tolist()


angles = torch.tensor([0.1, 0.4, -0.2])
jacobian = torch.autograd.functional.jacobian(kinematics, angles)
print(jacobian @ angles)
