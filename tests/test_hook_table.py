"""HookTable: an OrderedDict whose snapshots are never stale and never change while firing."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
import weakref
from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradhook.hooks import GlobalModuleHooks, HookTable


def fresh(table):
    """What the snapshots must be, read from the mapping itself."""
    return tuple(OrderedDict.values(table))


def test_hooks_fire_in_registration_order_and_prepended_ones_as_a_stack_before():
    table = HookTable()
    for name, prepend in (("a", False), ("b", True), ("c", False), ("d", True)):
        table.add(name.join, prepend=prepend)
    assert [hook("..") for hook in table.snapshot()] == [".d.", ".b.", ".a.", ".c."]


def test_the_snapshot_is_the_same_object_until_the_table_changes():
    table = HookTable()
    table.add(print)
    first, entries = table.snapshot(), table.items_snapshot()
    assert table.snapshot() is first and table.items_snapshot() is entries
    table.add(len)
    assert first == (print,) and table.snapshot() == (print, len)


@pytest.mark.parametrize("value", [None, 3, "hook", [print]])
def test_what_cannot_be_called_is_refused_and_named(value):
    table = HookTable()
    with pytest.raises(TypeError, match=type(value).__qualname__):
        table.add(value)
    assert not table


def test_flags_go_with_the_hook():
    table = HookTable()
    plain = table.add(print)
    flagged = table.add(len, flags=("with_kwargs", "always_call"))
    assert table.items_snapshot() == (
        (plain.id, print, frozenset()),
        (flagged.id, len, {"with_kwargs", "always_call"}),
    )
    flagged.remove()
    table[flagged.id] = len
    assert table.flags(flagged.id) == frozenset()


MUTATIONS = {
    "setitem": lambda t, k: t.__setitem__(k, len),
    "setitem_new": lambda t, k: t.__setitem__(-1, len),
    "delitem": lambda t, k: t.__delitem__(k),
    "pop": lambda t, k: t.pop(k),
    "pop_missing": lambda t, k: t.pop(-1, None),
    "popitem": lambda t, k: t.popitem(),
    "popitem_first": lambda t, k: t.popitem(last=False),
    "clear": lambda t, k: t.clear(),
    "update": lambda t, k: t.update({k: len, -1: abs}),
    "setdefault": lambda t, k: t.setdefault(-1, len),
    "move_to_end": lambda t, k: t.move_to_end(k),
    "move_to_front": lambda t, k: t.move_to_end(k, last=False),
    "ior": lambda t, k: t.__ior__({-1: len}),
}


@given(st.lists(st.tuples(st.sampled_from(sorted(MUTATIONS)), st.integers(0, 4)), max_size=8))
def test_no_sequence_of_mutations_leaves_a_stale_snapshot_or_differs_from_an_ordered_dict(steps):
    table = HookTable()
    for hook in (print, len, abs):
        table.add(hook, flags=("with_kwargs",))
    twin = OrderedDict(table)
    for name, position in steps:
        table.snapshot(), table.items_snapshot()
        key = list(table)[position % len(table)] if table else 0
        outcomes = []
        for target in (table, twin):
            try:
                MUTATIONS[name](target, key)
                outcomes.append(None)
            except KeyError:
                outcomes.append(KeyError)
        assert outcomes[0] is outcomes[1]
        assert table == twin and list(table) == list(twin)
        assert table.snapshot() == fresh(table)
        assert [entry[:2] for entry in table.items_snapshot()] == list(table.items())
        assert set(table._flags) <= set(table)


def test_it_equals_a_plain_ordered_dict_and_is_weakly_referenceable():
    table = HookTable()
    handle = table.add(print)
    assert table == OrderedDict({handle.id: print}) == table
    assert weakref.ref(table)() is table


def test_a_hook_may_remove_itself_and_register_others_while_the_table_fires():
    table, fired = HookTable(), []

    def once():
        fired.append("once")
        handle.remove()
        table.add(lambda: fired.append("new"))

    handle = table.add(once)
    table.add(lambda: fired.append("last"))
    for hook in table.snapshot():
        hook()
    assert fired == ["once", "last"]
    for hook in table.snapshot():
        hook()
    assert fired == ["once", "last", "last", "new"]


def test_snapshots_stay_right_while_other_threads_register_and_remove():
    table = HookTable()
    keep = table.add(print)
    stop = threading.Event()

    def churn():
        while not stop.is_set():
            table.add(len).remove()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=churn) for _ in range(2)]
    try:
        for thread in threads:
            thread.start()
        for _ in range(3000):
            assert table.snapshot()[0] is print
            assert table.items_snapshot()[0][0] == keep.id
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert table.snapshot() == fresh(table) == (print,)


class Owner:
    def __init__(self):
        self.hooks = HookTable()
        self.hooks.add(self.method, flags=("always_call",))

    def method(self):
        return self


def duplicate_by_pickle(value):
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, duplicate_by_pickle, HookTable.copy]
)
def test_every_kind_of_copy_keeps_hooks_order_and_flags_and_is_a_table_of_its_own(duplicate):
    table = HookTable()
    table.add(print)
    table.add(len, prepend=True, flags=("with_kwargs",))
    twin = duplicate(table)
    assert type(twin) is HookTable and twin == table
    assert twin.items_snapshot() == table.items_snapshot()
    twin.clear()
    assert table.snapshot() == (len, print)
    assert table.items_snapshot()[0][2] == {"with_kwargs"}


@pytest.mark.parametrize("duplicate", [copy.deepcopy, duplicate_by_pickle])
def test_bound_methods_of_a_copied_owner_are_bound_to_the_copy(duplicate):
    twin = duplicate(Owner())
    ((_, hook, flags),) = twin.hooks.items_snapshot()
    assert hook() is twin and flags == {"always_call"}


def test_new_hooks_never_overwrite_those_that_unpickling_brought():
    table = HookTable()
    foreign = table.add(print).id + 40
    table[foreign] = len
    loaded = duplicate_by_pickle(table)
    assert loaded.add(abs).id > foreign
    assert loaded.snapshot() == (print, len, abs)


def test_or_gives_a_table_with_both_and_leaves_the_operands_alone():
    first, second = HookTable(), HookTable()
    first.add(print, flags=("with_kwargs",))
    second.add(len, flags=("always_call",))
    both = first | second
    assert type(both) is HookTable and both.snapshot() == (print, len)
    assert [flags for _, _, flags in both.items_snapshot()] == [{"with_kwargs"}, {"always_call"}]
    assert len(first) == len(second) == 1


def test_the_global_tables_know_at_once_whether_any_hook_is_registered():
    everywhere = GlobalModuleHooks()
    assert not everywhere.any and not everywhere.any_backward
    with everywhere.forward.add(print):
        assert everywhere.any and not everywhere.any_backward
    with everywhere.full_backward_pre.add(print):
        assert everywhere.any and everywhere.any_backward
    everywhere.legacy_backward = HookTable({0: print})
    assert everywhere.any and everywhere.any_backward
