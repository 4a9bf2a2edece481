"""Print registers and spills of every kernel: PYTHONPATH=tests python -m nvrtc [architecture]."""

from __future__ import annotations

import sys

from gradhook.kernels import catalogue
from nvrtc.compiling import ARCHITECTURES, compiled, elementwise, together

for architecture in sys.argv[1:] or ARCHITECTURES:
    for dtype in catalogue.DTYPES:
        sources = [together(list(catalogue.kernels(dtype)))]
        sources += [kernel.text() for kernel in catalogue.chains(dtype)]
        sources += [elementwise(kernel, dtype) for kernel in catalogue.general(dtype)]
        for source in sources:
            for usage in compiled(source, architecture):
                print(
                    f"sm_{architecture} {usage.kernel:44} {usage.registers:4} registers"
                    f" {usage.spills:4} bytes spilled {usage.stack:4} bytes of stack"
                )
