"""Tools beside the networks. Source of names: torch.utils."""

from gradhook.utils import checkpoint as checkpoint
from gradhook.utils import hooks as hooks
