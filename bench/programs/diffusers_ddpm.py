"""A U-Net learns to denoise, with its moving average and a pipeline that samples."""

import torch
from _digest import digest
from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel
from diffusers.training_utils import EMAModel

torch.manual_seed(0)
model = UNet2DModel(
    sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
)  # fmt: skip
ema = EMAModel(model.parameters(), decay=0.99)
noise_scheduler = DDPMScheduler(num_train_timesteps=50)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _step in range(30):
    clean = torch.randn(8, 1, 8, 8) * 0.1 + 0.5
    noise, timesteps = torch.randn_like(clean), torch.randint(0, 50, (8,))
    predicted = model(noise_scheduler.add_noise(clean, noise, timesteps), timesteps).sample
    loss = torch.nn.functional.mse_loss(predicted, noise)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    ema.step(model.parameters())
print(loss.item())
ema.copy_to(model.parameters())
pipeline = DDPMPipeline(model, noise_scheduler)
pipeline.set_progress_bar_config(disable=True)
image = pipeline(batch_size=1, generator=torch.Generator().manual_seed(0), num_inference_steps=5, output_type="np")
print(image.images.shape)
print(digest(model))
