# code: BS202
# variable: self.hidden
# cause: out, self.hidden = self.rnn(x, self.hidden)
# fix: self.hidden = tuple(h.detach() for h in self.hidden)
import torch


class Trainer:
    def __init__(self):
        self.rnn = torch.nn.LSTM(3, 4)
        self.optimizer = torch.optim.SGD(self.rnn.parameters(), lr=0.1)
        self.hidden = None

    def step(self, x):
        out, self.hidden = self.rnn(x, self.hidden)
        loss = out.pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward(retain_graph=True)
        self.optimizer.step()


trainer = Trainer()
for _ in range(3):
    trainer.step(torch.randn(2, 5, 3))
