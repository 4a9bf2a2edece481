"""Tensor hooks are left behind by pickle, with a warning unless they say that this is meant."""

from __future__ import annotations

import pickle

import pytest

import gradhook
from gradhook import nn
from gradhook.utils.hooks import RemovableHandle, unserializable_hook, warn_if_has_hooks


def double(grad):
    return grad * 2


def leaf():
    return gradhook.ones(2, requires_grad=True)


@pytest.mark.parametrize("make", [leaf, lambda: nn.Parameter(gradhook.ones(2))])
def test_pickling_a_tensor_with_hooks_names_each_hook_that_is_lost(make):
    t = make()
    t.register_hook(double)
    with pytest.warns(UserWarning, match=r"backward hook <function double.*will not be serialized"):
        twin = pickle.loads(pickle.dumps(t))
    assert twin.requires_grad and not twin._backward_hooks


def test_a_hook_marked_unserializable_is_left_behind_without_a_word():
    @unserializable_hook
    def meant(grad):
        return None

    t = leaf()
    handle = t.register_hook(meant)
    assert isinstance(handle, RemovableHandle)
    pickle.dumps(t)
    t.register_hook(double)
    with pytest.warns(UserWarning) as warned:
        warn_if_has_hooks(t)
    assert len(warned) == 1 and "double" in str(warned[0].message)
