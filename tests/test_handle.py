"""RemovableHandle behaves as PyTorch's, with ids that threads cannot share."""

from __future__ import annotations

import copy
import pickle
import threading
from collections import OrderedDict

import pytest

from gradhook.hooks import HookTable, RemovableHandle


def test_remove_takes_the_hook_out_and_a_second_remove_does_nothing():
    table = OrderedDict()
    handle = RemovableHandle(table)
    table[handle.id] = print
    handle.remove()
    handle.remove()
    assert handle.id not in table


def test_the_hook_is_removed_when_the_with_block_ends_even_by_an_exception():
    table = HookTable()
    with pytest.raises(ZeroDivisionError), table.add(print) as handle:
        assert handle.id in table
        raise ZeroDivisionError
    assert not table


def test_extra_dicts_lose_the_same_id_whether_one_or_a_list():
    table, first, second = OrderedDict(), OrderedDict(), OrderedDict()
    for extra, expected in ((first, (first,)), ([first, second], (first, second)), (None, ())):
        handle = RemovableHandle(table, extra_dict=extra)
        assert tuple(ref() for ref in handle.extra_dict_ref) == expected
        for mapping in (table, *expected):
            mapping[handle.id] = True
        handle.remove()
        assert not table and not first and not second


def test_the_table_is_not_kept_alive_and_remove_works_after_its_death():
    table = HookTable()
    handle = table.add(print)
    assert handle.hooks_dict_ref() is table
    del table
    assert handle.hooks_dict_ref() is None
    handle.remove()


def test_a_plain_dict_is_refused_as_python_refuses_its_weak_reference():
    with pytest.raises(TypeError, match="cannot create weak reference to 'dict' object"):
        RemovableHandle({})


def test_ids_grow_over_all_tables_and_next_id_is_above_them():
    ids = [HookTable().add(print).id for _ in range(3)]
    assert ids == sorted(set(ids))
    assert RemovableHandle.next_id > ids[-1]


def test_threads_never_draw_the_same_id():
    ids: list[int] = []

    def draw() -> None:
        ids.extend([RemovableHandle(table).id for _ in range(2000)])

    table = HookTable()
    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids)) == len(ids) == 8000


def test_pickled_with_its_table_it_still_removes_and_its_id_is_never_drawn_again():
    table = HookTable()
    handle = table.add(print)
    handle.id = RemovableHandle.next_id + 50
    table[handle.id] = len
    loaded_table, loaded = pickle.loads(pickle.dumps((table, handle)))
    assert loaded.hooks_dict_ref() is loaded_table
    assert RemovableHandle(table).id > loaded.id
    loaded.remove()
    assert list(loaded_table.values()) == [print]
    assert list(table.values()) == [print, len]


def test_its_state_is_table_id_extras_and_states_of_older_forms_load():
    table, extra = OrderedDict(), OrderedDict()
    handle = RemovableHandle(table, extra_dict=extra)
    assert handle.__getstate__() == (table, handle.id, (extra,))
    for state in ((table, 3), (table, 3, None)):
        old = RemovableHandle.__new__(RemovableHandle)
        old.__setstate__(state)
        assert (old.id, old.hooks_dict_ref(), old.extra_dict_ref) == (3, table, ())


def test_a_handle_whose_table_died_pickles_to_a_dead_handle():
    handle = RemovableHandle(HookTable())
    loaded = pickle.loads(pickle.dumps(handle))
    assert loaded.hooks_dict_ref() is None
    loaded.remove()


def test_deepcopied_together_the_copy_removes_from_the_copied_table_only():
    table = HookTable()
    handle = table.add(print)
    copied_table, copied = copy.deepcopy((table, handle))
    copied.remove()
    assert not copied_table
    assert list(table) == [handle.id]
