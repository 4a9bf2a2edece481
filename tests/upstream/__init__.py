"""PyTorch's own hook tests, unmodified, run against gradhook from outside the repository.

`make upstream`, or `cd tests && python -m upstream`. Their text is fetched (sources.py), the hook
tests are cut out of the big files (cutting.py, with helpers.py for what they want beyond the shim
of ../shared/tools/pytorch_suite), run once by default and once under GRADHOOK_COMPAT=torch
(running.py), and compared with exceptions.txt (comparing.py). Nothing of PyTorch's is committed.
"""
