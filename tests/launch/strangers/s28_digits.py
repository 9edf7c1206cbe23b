import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.conv1 = nn.Conv2d(1, 8, 3)
        self.conv2 = nn.Conv2d(8, 16, 3)
        self.fc1 = nn.Linear(16 * 4 * 4, 64)
        self.fc2 = nn.Linear(64, 10)
        self.softmax = nn.Softmax(dim=1)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = x.view(x.size(0), -1)
        x = F.relu(self.fc1(x))
        return self.softmax(self.fc2(x))


proto = torch.rand(10, 1, 8, 8)
labels = torch.randint(0, 10, (800,))
images = proto[labels] + 0.35 * torch.randn(800, 1, 8, 8)
trainset = torch.utils.data.TensorDataset(images, labels)
trainloader = torch.utils.data.DataLoader(trainset, batch_size=40, shuffle=True)
net = Net()
criterion = nn.CrossEntropyLoss()
optimizer = optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
for epoch in range(8):
    running = 0.0
    correct = 0
    for i, (inputs, target) in enumerate(trainloader, 0):
        optimizer.zero_grad()
        outputs = net(inputs)
        loss = criterion(outputs, target)
        loss.backward()
        optimizer.step()
        running += loss.item()
        correct += (outputs.argmax(1) == target).sum().item()
    print('[%d] loss: %.3f acc: %.3f' % (epoch + 1, running / len(trainloader), correct / 800))
print('Finished Training')
