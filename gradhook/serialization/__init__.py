"""Files: checkpoints in PyTorch's format, and .npz. safetensors: gradhook.safetensors."""

from __future__ import annotations

from gradhook.serialization.errors import LoadError as LoadError
from gradhook.serialization.files import load as load
from gradhook.serialization.files import save as save
from gradhook.serialization.files import save_npz as save_npz
