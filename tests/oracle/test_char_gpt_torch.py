"""The example of a small language model, the same text over torch: from the same weights and over
the same batches it has the same losses.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the oracle tests need torch (pip install torch)")

import gradhook  # noqa: E402

SCRIPT = Path(__file__).resolve().parent.parent.parent / "examples" / "char_gpt.py"
STEPS = 200


def example(name, monkeypatch):
    """The script over gradhook or torch, which differs in its imports only."""
    text = SCRIPT.read_text("utf-8")
    imports = ("import gradhook as torch", "from gradhook import", "from gradhook.nn import")
    for line in imports:
        assert text.count(f"\n{line}") == 1
        text = text.replace(f"\n{line}", "\n" + line.replace("gradhook", name))
    module = ModuleType(f"char_gpt_over_{name}")
    monkeypatch.syspath_prepend(SCRIPT.parent)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(text, str(SCRIPT), "exec"), module.__dict__)
    return module


def test_200_steps_of_training_have_torchs_losses(monkeypatch):
    ours, theirs = example("gradhook", monkeypatch), example("torch", monkeypatch)
    text = ours.prose()
    alphabet = "".join(sorted(set(text)))
    codes = ours.encode(text, alphabet)
    size = {"context": 32, "width": 64, "heads": 4, "layers": 2}
    gradhook.manual_seed(0)
    models = [lib.GPT(len(alphabet), lib.Size(**size)) for lib in (ours, theirs)]
    state = {k: torch.tensor(v.numpy()) for k, v in models[0].state_dict().items()}
    models[1].load_state_dict(state)
    losses = [
        [loss.item() for loss in lib.train(model, lib.batches(codes, 8, 32, 0), STEPS)]
        for lib, model in zip((ours, theirs), models, strict=True)
    ]
    assert len(losses[0]) == len(losses[1]) == STEPS
    assert losses[1][-1] < 0.7 * losses[1][0]
    np.testing.assert_allclose(losses[0], losses[1], rtol=0, atol=1e-3)
