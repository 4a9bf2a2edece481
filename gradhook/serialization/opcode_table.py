"""What each opcode does to the machine's stack."""

from __future__ import annotations

import pickle
import struct
from collections import deque
from collections.abc import Callable
from pickle import decode_long
from typing import Any

from gradhook.serialization.errors import LoadError, shown
from gradhook.serialization.opcodes import CONTAINER, opcode
from gradhook.serialization.opcodes import WeightsMachine as WeightsMachine


def _push(code: bytes, read: Callable[[WeightsMachine], Any]) -> None:
    opcode(code)(lambda m: m.stack.append(read(m)))


def _protocol(m: WeightsMachine) -> None:
    if not 2 <= m.take(1)[0] <= 5:
        raise LoadError(f"its pickle has protocol {m.data[m.at - 1]}, expected 2 to 5")


def _frame(m: WeightsMachine) -> None:
    if m.number("<Q") > len(m.data) - m.at:
        raise LoadError("its pickle is cut short: a frame is longer than what is there")


def _long4(m: WeightsMachine) -> int:
    size = m.number("<i")
    if size < 0:
        raise LoadError("its pickle has an int of negative size")
    return decode_long(m.take(size))


def _float(m: WeightsMachine) -> float:
    found: float = struct.unpack(">d", m.take(8))[0]
    return found


opcode(pickle.PROTO)(_protocol)
opcode(pickle.FRAME)(_frame)

# ---- numbers, text and bytes
_push(pickle.NONE, lambda m: None)
_push(pickle.NEWTRUE, lambda m: True)
_push(pickle.NEWFALSE, lambda m: False)
_push(pickle.BININT, lambda m: m.number("<i"))
_push(pickle.BININT1, lambda m: m.take(1)[0])
_push(pickle.BININT2, lambda m: m.number("<H"))
_push(pickle.LONG1, lambda m: decode_long(m.take(m.take(1)[0])))
_push(pickle.LONG4, _long4)
_push(pickle.BINFLOAT, _float)
_push(pickle.SHORT_BINSTRING, lambda m: m.text(m.take(1)[0]))
_push(pickle.SHORT_BINUNICODE, lambda m: m.text(m.take(1)[0]))
_push(pickle.BINUNICODE, lambda m: m.text(m.number("<I")))
_push(pickle.BINUNICODE8, lambda m: m.text(m.number("<Q")))
_push(pickle.SHORT_BINBYTES, lambda m: m.take(m.take(1)[0]))
_push(pickle.BINBYTES, lambda m: m.take(m.number("<I")))
_push(pickle.BINBYTES8, lambda m: m.take(m.number("<Q")))
_push(pickle.BYTEARRAY8, lambda m: bytearray(m.take(m.number("<Q"))))


# ---- containers
def _made(code: bytes, make: Callable[[], Any], nbytes: int) -> None:
    opcode(code)(lambda m: m.push_container(make(), nbytes))


_made(pickle.EMPTY_TUPLE, tuple, 8)
_made(pickle.EMPTY_LIST, list, CONTAINER)
_made(pickle.EMPTY_DICT, dict, CONTAINER + 8)
_made(pickle.EMPTY_SET, set, 232)


@opcode(pickle.MARK)
def _mark(m: WeightsMachine) -> None:
    m.budget.spend(CONTAINER)
    m.marks.append(m.stack)
    m.stack = []


def _tuple(count: int) -> Callable[[WeightsMachine], None]:
    return lambda m: m.push_container(tuple(m.pop(count)), 48 + 8 * count)


opcode(pickle.TUPLE1)(_tuple(1))
opcode(pickle.TUPLE2)(_tuple(2))
opcode(pickle.TUPLE3)(_tuple(3))


@opcode(pickle.TUPLE)
def _tuple_to_mark(m: WeightsMachine) -> None:
    items = m.pop_mark()
    m.push_container(tuple(items), 48 + 8 * len(items))


@opcode(pickle.FROZENSET)
def _frozenset(m: WeightsMachine) -> None:
    items = m.pop_mark()
    m.stack.append(m.values.make_frozenset(items))


@opcode(pickle.APPEND)
def _append(m: WeightsMachine) -> None:
    (item,) = m.pop()
    m.budget.spend(16)
    m.top((list, deque), "an item").append(item)


@opcode(pickle.APPENDS)
def _appends(m: WeightsMachine) -> None:
    items = m.pop_mark()
    m.budget.spend(16 * len(items))
    m.top((list, deque), "items").extend(items)


@opcode(pickle.ADDITEMS)
def _add_items(m: WeightsMachine) -> None:
    items = m.pop_mark()
    m.top((set,), "members").update(m.values.make_set(items))


@opcode(pickle.SETITEM)
def _set_item(m: WeightsMachine) -> None:
    m.set_items(m.pop(2))


@opcode(pickle.SETITEMS)
def _set_items(m: WeightsMachine) -> None:
    m.set_items(m.pop_mark())


@opcode(pickle.POP)
def _pop(m: WeightsMachine) -> None:
    if m.stack:
        m.stack.pop()
    else:
        m.pop_mark()


@opcode(pickle.POP_MARK)
def _pop_to_mark(m: WeightsMachine) -> None:
    m.pop_mark()


# ---- the memo
opcode(pickle.BINPUT)(lambda m: m.put(m.take(1)[0]))
opcode(pickle.LONG_BINPUT)(lambda m: m.put(m.number("<I")))
opcode(pickle.MEMOIZE)(lambda m: m.put(len(m.memo)))
opcode(pickle.BINGET)(lambda m: m.get(m.take(1)[0]))
opcode(pickle.LONG_BINGET)(lambda m: m.get(m.number("<I")))

# ---- names and calls
_push(pickle.GLOBAL, lambda m: m.named(m.line(), m.line()))


@opcode(pickle.STACK_GLOBAL)
def _stack_global(m: WeightsMachine) -> None:
    module, name = m.pop(2)
    if type(module) is not str or type(name) is not str:
        raise LoadError(f"its pickle names {shown(module)}.{shown(name)}")
    m.stack.append(m.named(module, name))


@opcode(pickle.BINPERSID)
def _persistent(m: WeightsMachine) -> None:
    m.stack.append(m.persistent(m.pop()[0]))


@opcode(pickle.REDUCE)
def _reduce(m: WeightsMachine) -> None:
    function, args = m.pop(2)
    m.push_container(m.call(function, args), 16)


@opcode(pickle.BUILD)
def _build(m: WeightsMachine) -> None:
    made, state = m.pop(2)
    m.set_state(made, state)
    m.stack.append(made)
