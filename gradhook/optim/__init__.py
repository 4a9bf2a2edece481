"""Optimizers. Source of names: torch.optim."""

from gradhook.optim import lr_scheduler as lr_scheduler
from gradhook.optim import optimizer as optimizer
from gradhook.optim import swa_utils as swa_utils
from gradhook.optim.adadelta import Adadelta
from gradhook.optim.adafactor import Adafactor
from gradhook.optim.adagrad import Adagrad
from gradhook.optim.adam import Adam
from gradhook.optim.adamax import Adamax
from gradhook.optim.adamw import AdamW
from gradhook.optim.asgd import ASGD
from gradhook.optim.lbfgs import LBFGS
from gradhook.optim.muon import Muon
from gradhook.optim.nadam import NAdam
from gradhook.optim.optimizer import Optimizer
from gradhook.optim.radam import RAdam
from gradhook.optim.rmsprop import RMSprop
from gradhook.optim.rprop import Rprop
from gradhook.optim.sgd import SGD

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
    "swa_utils",
]
