# code: BS224
# variable: trainer.scaler.unscale_
# line: 16
# fix: self.scaler.unscale_(self.optimizer)
# unsure: methods that are called by their names are read from the text
import torch

model = torch.nn.Linear(3, 1)
x = torch.ones(2, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")


class Clip:
    def after(self, trainer):
        trainer.scaler.unscale_(trainer.optimizer)


class Log:
    def after(self, trainer):
        trainer.scaler.unscale_(trainer.optimizer)


class Trainer:
    def __init__(self):
        self.optimizer, self.scaler = optimizer, scaler

    def run(self, name):
        for each in (Clip(), Log()):
            getattr(each, name)(self)

    def step(self):
        self.scaler.scale(model(x).sum()).backward()
        self.run("after")
        self.scaler.step(self.optimizer)
        self.scaler.update()


Trainer().step()
