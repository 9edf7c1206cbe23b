"""A network in scikit-learn's pipeline and grid search."""

import numpy as np
import torch
from _digest import digest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier
from skorch.callbacks import EarlyStopping, LRScheduler
from torch import nn

torch.manual_seed(0)
rng = np.random.default_rng(0)
X = rng.normal(size=(300, 10)).astype(np.float32)
y = (X[:, 0] * X[:, 1] > 0).astype(np.int64)


class Module(nn.Module):
    def __init__(self, units=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, units), nn.ReLU(), nn.Dropout(0.2), nn.Linear(units, 2))

    def forward(self, X):
        return self.net(X)


net = NeuralNetClassifier(
    Module, criterion=nn.CrossEntropyLoss, max_epochs=4, lr=0.1, optimizer=torch.optim.Adam, verbose=0,
    callbacks=[LRScheduler("StepLR", step_size=2), EarlyStopping()], iterator_train__shuffle=True,
)  # fmt: skip
search = GridSearchCV(
    make_pipeline(StandardScaler(), net), {"neuralnetclassifier__module__units": [8, 16]}, cv=2, scoring="accuracy"
)
search.fit(X, y)
print(search.best_params_, round(search.best_score_, 4))
print(digest(search.best_estimator_[-1].module_))
