"""Tools beside the networks. Source of names: torch.utils."""

from typing import TYPE_CHECKING

from gradhook.later import Later as _Later
from gradhook.later import attributes as _attributes
from gradhook.utils import checkpoint as checkpoint
from gradhook.utils import hooks as hooks

if TYPE_CHECKING:
    from gradhook.utils import data as data
else:
    _later = _Later()
    _later.put_modules(__name__, "data")  # imports multiprocessing
    __getattr__, __dir__ = _attributes(globals(), _later)
