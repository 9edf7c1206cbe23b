"""TD3 on Pendulum: the policy is delayed."""

from _digest import digest
from stable_baselines3 import TD3

model = TD3("MlpPolicy", "Pendulum-v1", learning_starts=50, batch_size=32, seed=0, device="cpu")
model.learn(180)
print(model.num_timesteps)
print(digest(model.policy))
