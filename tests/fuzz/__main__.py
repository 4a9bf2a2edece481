"""Pose every op of the table in every way, draw random programs, check all with every oracle, and
count what ran: cd tests && python -m fuzz --programs 20000 --seed 7. With --programs 0 the ops
alone. Exit status 1 when a program is wrong; each is printed, made as small as Hypothesis can, as a
script that runs on its own. At the end the tables: what the programs had, and ops by features.

The oracle torch is used where torch is installed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter

os.environ.setdefault("GRADHOOK_DEVICE", "cpu")

from fuzz.checking import Wrong
from fuzz.many import checked, table
from fuzz.sweep import coverage, swept

BATCH = 500  # programs that Hypothesis draws in one go


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--programs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        torch = None
        print("torch is not installed: its oracle is left out", file=sys.stderr)
    counts: Counter[str] = Counter()
    told = swept(counts, torch, rows=None)
    print("\n".join(told))
    wrong = done = 0
    while done < options.programs:
        count = min(BATCH, options.programs - done)
        try:
            checked(count, counts, torch, seed=options.seed * 1_000_003 + done)
        except Wrong as error:
            wrong += 1
            print(error, flush=True)
        done += count
    print(table(counts))
    print(coverage(counts))
    print(f"{counts['programs']} programs, {wrong} batches of {BATCH} with a wrong one")
    print(f"{len(told)} wrong programs of one op")
    return int(wrong > 0 or bool(told))


if __name__ == "__main__":
    sys.exit(main())
