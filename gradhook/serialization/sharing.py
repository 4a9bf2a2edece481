"""Tensors under several names that are one memory: which name stands for all."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from gradhook import backend
from gradhook.memory import shares_memory
from gradhook.serialization.layout import owner_of


def duplicates(
    tensors: Mapping[str, Any], preferred: Collection[str] = (), whole: bool = True
) -> dict[str, list[str]]:
    """The name to keep of each group of tensors that share memory: the other names.

    preferred: names to keep if one of them will do. whole: the kept one must hold all of the
    memory. Errors: RuntimeError when none does. Source: safetensors.torch, shared tensors.
    """
    groups: dict[int, list[list[str]]] = {}
    for name, t in sorted(tensors.items(), key=lambda item: backend.address(item[1]._a)):
        if t.numel():
            known = groups.setdefault(id(owner_of(t._a)), [[]])
            if known[-1] and not any(shares_memory(t._a, tensors[n]._a) for n in known[-1]):
                known.append([])
            known[-1].append(name)
    shared = [g for known in groups.values() for g in known if len(g) > 1]
    found = {}
    for group in shared:
        full = [n for n in group if tensors[n].nbytes == owner_of(tensors[n]._a).nbytes]
        if whole and not full:
            raise RuntimeError(
                f"the tensors {sorted(group)} share memory, and none of them holds all of it; "
                "clone() those that are a part of a larger one"
            )
        names = sorted(set(full or group) & set(preferred)) or sorted(full or group)
        found[names[0]] = sorted(n for n in group if n != names[0])
    return found
