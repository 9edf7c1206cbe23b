# code: BS205
# variable: model.tariff
# cause: self.tariff[day % self.days] = rate * price + (1 - rate) * self.tariff[day % self.days]
# fix: tariff = list(self.tariff) above line 20
"""A forecast with one learned tariff for each weekday, which every day's price moves on."""

import torch
from torch import nn


class Forecast(nn.Module):
    def __init__(self, days=7):
        super().__init__()
        self.days = days
        self.tariff = nn.Parameter(torch.ones(days))
        self.rate = nn.Parameter(torch.tensor(-1.0))

    def forward(self, prices):
        rate, forecasts = torch.sigmoid(self.rate), []
        for day, price in enumerate(prices):
            forecasts.append(self.tariff[day % self.days])
            self.tariff[day % self.days] = rate * price + (1 - rate) * self.tariff[day % self.days]
        return torch.stack(forecasts), self.tariff.mean()


torch.manual_seed(0)
prices = 1 + 0.1 * torch.randn(30)
model = Forecast()
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
for _ in range(5):
    forecasts, level = model(prices)
    loss = (forecasts - prices).pow(2).mean() + 0.01 * level
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
