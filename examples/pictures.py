"""How the examples write their pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def save_png(figure: Any, path: Path) -> None:
    """Draw a matplotlib figure and write it as a small PNG, of 256 colours."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    picture = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    picture.quantize(256, Image.Quantize.MAXCOVERAGE, 3, dither=Image.Dither.NONE).save(path)
