"""PPO in one file, as in CleanRL: vectorized CartPole, generalized advantages, clipped surrogate."""

import gymnasium as gym
import numpy as np
import torch
from _digest import digest
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
np.random.seed(0)
STEPS, ENVS = 64, 4
envs = gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(ENVS)])


def layer(fan_in, fan_out, std=2**0.5):
    linear = nn.Linear(fan_in, fan_out)
    nn.init.orthogonal_(linear.weight, std)
    nn.init.constant_(linear.bias, 0.0)
    return linear


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(layer(4, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, 1, 1.0))
        self.actor = nn.Sequential(layer(4, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, 2, 0.01))

    def get_action_and_value(self, x, action=None):
        probs = Categorical(logits=self.actor(x))
        action = probs.sample() if action is None else action
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


agent = Agent()
optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
obs, actions = torch.zeros(STEPS, ENVS, 4), torch.zeros(STEPS, ENVS)
logprobs, rewards, dones, values = (torch.zeros(STEPS, ENVS) for _ in range(4))
next_obs, next_done = torch.tensor(envs.reset(seed=0)[0]), torch.zeros(ENVS)
for update in range(4):
    optimizer.param_groups[0]["lr"] = (1 - update / 4) * 2.5e-4
    for step in range(STEPS):
        obs[step], dones[step] = next_obs, next_done
        with torch.no_grad():
            action, logprob, _, value = agent.get_action_and_value(next_obs)
            values[step] = value.flatten()
        actions[step], logprobs[step] = action, logprob
        seen, reward, ended, cut, _ = envs.step(action.numpy())
        rewards[step] = torch.tensor(reward)
        next_obs, next_done = torch.tensor(seen), torch.tensor(np.logical_or(ended, cut), dtype=torch.float32)
    with torch.no_grad():
        next_value = agent.critic(next_obs).flatten()
        advantages, last = torch.zeros_like(rewards), 0
        for t in reversed(range(STEPS)):
            alive = 1.0 - (next_done if t == STEPS - 1 else dones[t + 1])
            delta = rewards[t] + 0.99 * (next_value if t == STEPS - 1 else values[t + 1]) * alive - values[t]
            advantages[t] = last = delta + 0.99 * 0.95 * alive * last
        returns = advantages + values
    b_obs, b_actions, b_logprobs = obs.reshape(-1, 4), actions.reshape(-1), logprobs.reshape(-1)
    b_advantages, b_returns = advantages.reshape(-1), returns.reshape(-1)
    indices = np.arange(STEPS * ENVS)
    for _ in range(4):
        np.random.shuffle(indices)
        for start in range(0, STEPS * ENVS, 64):
            mb = indices[start : start + 64]
            _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs[mb], b_actions.long()[mb])
            ratio = (newlogprob - b_logprobs[mb]).exp()
            adv = (b_advantages[mb] - b_advantages[mb].mean()) / (b_advantages[mb].std() + 1e-8)
            pg_loss = torch.max(-adv * ratio, -adv * torch.clamp(ratio, 0.8, 1.2)).mean()
            v_loss = 0.5 * ((newvalue.view(-1) - b_returns[mb]) ** 2).mean()
            loss = pg_loss - 0.01 * entropy.mean() + v_loss * 0.5
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
    print(update, loss.item())
print(digest(agent, optimizer))
