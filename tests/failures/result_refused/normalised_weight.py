# code: BS219
# variable: generator[0].weight
# cause: averaged = copy.deepcopy(generator)
# fix: torch.nn.utils.parametrizations.weight_norm
import copy
import warnings

from torch import nn

warnings.simplefilter("ignore")
generator = nn.Sequential(nn.utils.weight_norm(nn.Linear(4, 8)), nn.ReLU(), nn.Linear(8, 1))
averaged = copy.deepcopy(generator)
