# code: BS201
# variable: actor_loss.backward
# cause: advantage = back - value
# fix: critic_loss.backward()
# varied: critic.zero_grad()
# or: pass
import torch

trunk, policy, value_of = torch.nn.Linear(4, 8), torch.nn.Linear(8, 2), torch.nn.Linear(8, 1)


class ActorCritic(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = torch.nn.Sequential(trunk, torch.nn.Tanh())
        self.policy, self.value = policy, value_of

    def forward(self, seen):
        found = self.trunk(seen)
        return torch.distributions.Categorical(logits=self.policy(found)), self.value(
            found
        ).squeeze(-1)


net = ActorCritic()
actor = torch.optim.Adam([*trunk.parameters(), *policy.parameters()])
critic = torch.optim.Adam(value_of.parameters())


def update():
    seen = torch.randn(16, 4)
    choices, value = net(seen)
    action = choices.sample()
    back = (action == (seen[:, 0] > 0)).float()
    advantage = back - value
    actor_loss = -(choices.log_prob(action) * advantage).mean()
    critic_loss = torch.nn.functional.mse_loss(value, back)
    actor.zero_grad()
    actor_loss.backward()
    actor.step()
    critic.zero_grad()
    critic_loss.backward()
    critic.step()


update()
