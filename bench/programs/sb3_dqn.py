"""DQN on CartPole."""

from _digest import digest
from stable_baselines3 import DQN

model = DQN(
    "MlpPolicy", "CartPole-v1", learning_starts=200, buffer_size=2000, target_update_interval=200, seed=0, device="cpu"
)
model.learn(1200)
print(model.num_timesteps)
print(digest(model.policy))
