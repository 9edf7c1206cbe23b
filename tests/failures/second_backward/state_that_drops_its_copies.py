# code: BS201
# variable: memory
# cause: part.detach()
# fix: self.parts = tuple(h.detach() for h in self.parts); self.feed = self.feed.detach()
import torch
from torch import nn


class Memory:
    def __init__(self, parts, feed):
        self.parts = parts
        self.feed = feed

    def detach(self):
        for part in (*self.parts, self.feed):
            if part is not None:
                part.detach()


class Decoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.cell = nn.LSTMCell(2 * width, width)
        self.out = nn.Linear(width, width)

    def forward(self, inputs, memory):
        memory.parts = self.cell(torch.cat([inputs, memory.feed], 1), memory.parts)
        memory.feed = torch.tanh(self.out(memory.parts[0]))
        return memory.feed, memory


def train(decoder, sequences, width):
    optimizer = torch.optim.SGD(decoder.parameters(), lr=0.1)
    for sequence in sequences:
        zeros = torch.zeros(3, width)
        memory = Memory((zeros, zeros), zeros)
        for inputs in sequence:
            optimizer.zero_grad()
            outputs, memory = decoder(inputs, memory)
            loss = (outputs - inputs).pow(2).mean()
            loss.backward()
            optimizer.step()
            memory.detach()


train(Decoder(5), torch.randn(2, 4, 3, 5), 5)
