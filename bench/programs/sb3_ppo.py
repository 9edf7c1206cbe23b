"""PPO on CartPole."""

from _digest import digest
from stable_baselines3 import PPO

model = PPO("MlpPolicy", "CartPole-v1", n_steps=256, batch_size=64, n_epochs=4, seed=0, device="cpu")
model.learn(1024)
print(model.num_timesteps)
print(digest(model.policy))
