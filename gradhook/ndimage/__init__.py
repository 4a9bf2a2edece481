"""Filters and interpolation of n-dimensional images, with gradients: SciPy's names, on the CPU
through scipy.ndimage, on CUDA through cupyx.scipy.ndimage (extra `scipy`).

Results are new tensors (there is no `output`), integers become the default floating dtype.
Interpolation is of order 0 or 1. Source: scipy.ndimage.
"""

from gradhook.ndimage.filters import (
    convolve,
    convolve1d,
    correlate,
    correlate1d,
    uniform_filter,
    uniform_filter1d,
)
from gradhook.ndimage.interpolation import (
    affine_transform,
    map_coordinates,
    rotate,
    shift,
    zoom,
)
from gradhook.ndimage.smooth import (
    gaussian_filter,
    gaussian_filter1d,
    gaussian_gradient_magnitude,
    gaussian_laplace,
    laplace,
    prewitt,
    sobel,
)

__all__ = [
    "affine_transform",
    "convolve",
    "convolve1d",
    "correlate",
    "correlate1d",
    "gaussian_filter",
    "gaussian_filter1d",
    "gaussian_gradient_magnitude",
    "gaussian_laplace",
    "laplace",
    "map_coordinates",
    "prewitt",
    "rotate",
    "shift",
    "sobel",
    "uniform_filter",
    "uniform_filter1d",
    "zoom",
]
