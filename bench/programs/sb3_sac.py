"""SAC on Pendulum, its temperature learned."""

from _digest import digest
from stable_baselines3 import SAC

model = SAC("MlpPolicy", "Pendulum-v1", learning_starts=50, batch_size=32, seed=0, device="cpu")
model.learn(180)
print(model.num_timesteps)
print(digest(model.policy, model.log_ent_coef))
