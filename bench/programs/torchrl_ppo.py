"""PPO on Pendulum: a collector, an advantage module and ClipPPOLoss."""

import torch
from _digest import digest
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs.libs.gym import GymEnv
from torchrl.modules import ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

torch.manual_seed(0)
env = GymEnv("Pendulum-v1")
env.set_seed(0)
net = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 2), NormalParamExtractor())
actor = ProbabilisticActor(
    TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"]),
    in_keys=["loc", "scale"], distribution_class=TanhNormal, return_log_prob=True, spec=env.action_spec,
    distribution_kwargs={"low": -2.0, "high": 2.0},
)  # fmt: skip
critic = ValueOperator(nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1)), in_keys=["observation"])
advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic, average_gae=True)
loss_module = ClipPPOLoss(actor, critic, clip_epsilon=0.2, entropy_coeff=1e-3)
optimizer = torch.optim.Adam(loss_module.parameters(), lr=3e-4)
collector = Collector(env, actor, frames_per_batch=100, total_frames=400)
for data in collector:
    for _ in range(4):
        advantage(data)
        flat = data.reshape(-1)
        for part in flat[torch.randperm(len(flat))].split(50):
            losses = loss_module(part)
            loss = losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]
            loss.backward()
            nn.utils.clip_grad_norm_(loss_module.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
collector.shutdown()
print(loss.item())
print(digest(net, critic))
