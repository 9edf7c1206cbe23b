import numpy as np


def cutout(x, probability):
    if np.random.rand() < probability:
        x = x * x.sigmoid()
    return x
