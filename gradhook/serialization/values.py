"""What a file of weights may make by a call: containers, numbers and NumPy arrays, each checked.

Every function here gets what the file gives: any objects that the other functions made.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

import numpy as np

from gradhook.serialization.errors import Budget, LoadError, shown
from gradhook.serialization.layout import checked_sizes

ITEM = 32  # bytes of an item in a copied container, at most
FACTORIES = (int, float, str, list, dict, set, bool)
KEYS = (str, int, float, bool, bytes, type(None))
MOST_TUPLE_KEYS = 4096  # their hashes can be made to collide: each then costs a look at all others
_CODES = frozenset(
    ("?", "b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
)


def equals(value: Any, *options: Any) -> bool:
    """Whether a value from a file is one of these numbers, texts or tuples; never asks it."""
    for option in options:
        if type(value) is type(option):
            if type(option) is not tuple:
                if value == option:
                    return True
            elif len(value) == len(option) and all(map(equals, value, option)):
                return True
    return False


class Values:
    """The calls of one file. budget: what they may allocate."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._tuple_keys = 0

    # ---- keys and members ------------------------------------------------------------------
    def key(self, value: Any) -> Any:
        """A key of a dict or member of a set. Errors: LoadError unless it is a str, number of at
        most 64 bits, bool, None, bytes or a short flat tuple of these.
        """
        kind = type(value)
        if kind is str or kind is bytes or value is None or kind is bool or kind is float:
            return value
        if kind is int and value.bit_length() < 64:
            return value
        if kind is tuple and len(value) <= 8 and all(type(v) in KEYS for v in value):
            self._tuple_keys += 1
            if self._tuple_keys <= MOST_TUPLE_KEYS:
                for v in value:
                    self.key(v)
                return value
        raise LoadError(
            f"a dict has the key {shown(value)}; files of weights have str, int, float, bool, "
            f"None, bytes or up to {MOST_TUPLE_KEYS} flat tuples of these"
        )

    def _items(self, value: Any, kinds: tuple[type, ...], what: str) -> Any:
        if type(value) not in kinds:
            raise LoadError(f"{what} is made of {shown(value)}")
        self.budget.spend(ITEM * len(value))
        return value

    # ---- containers ------------------------------------------------------------------------
    def ordered_dict(self, items: Any = ()) -> OrderedDict[Any, Any]:
        """collections.OrderedDict, empty or of a list of pairs or a dict."""
        pairs = self._items(items, (list, tuple, dict, OrderedDict), "an OrderedDict")
        made: OrderedDict[Any, Any] = OrderedDict()
        self.budget.spend(200)
        for pair in pairs.items() if isinstance(pairs, dict) else pairs:
            if type(pair) not in (tuple, list) or len(pair) != 2:
                raise LoadError(f"an OrderedDict is made of {shown(pair)}, expected pairs")
            made[self.key(pair[0])] = pair[1]
        return made

    def counter(self, items: Any = ()) -> Counter[Any]:
        """collections.Counter, empty or of a dict."""
        made: Counter[Any] = Counter()
        self.budget.spend(200)
        if not equals(items, ()):
            dict.update(made, self._items(items, (dict,), "a Counter"))
        return made

    def default_dict(self, factory: Any = None) -> defaultdict[Any, Any]:
        """collections.defaultdict, empty."""
        if not any(factory is f for f in (None, *FACTORIES)):
            raise LoadError(f"a defaultdict has the factory {shown(factory)}")
        self.budget.spend(200)
        return defaultdict(factory)

    def make_deque(self, items: Any = (), maxlen: Any = None) -> deque[Any]:
        """collections.deque of a list or tuple."""
        if maxlen is not None and (type(maxlen) is not int or not 0 <= maxlen < 1 << 62):
            raise LoadError(f"a deque has the length {shown(maxlen)}")
        self.budget.spend(800)
        return deque(self._items(items, (list, tuple), "a deque"), maxlen)

    def make_set(self, items: Any = ()) -> set[Any]:
        """A set of a list or tuple of keys."""
        self.budget.spend(200)
        return {self.key(v) for v in self._items(items, (list, tuple), "a set")}

    def make_frozenset(self, items: Any = ()) -> frozenset[Any]:
        """A frozenset of a list or tuple of keys."""
        return frozenset(self.make_set(items))

    # ---- numbers and bytes -----------------------------------------------------------------
    def make_complex(self, real: Any = 0.0, imag: Any = 0.0) -> complex:
        """A complex number of two floats."""
        if type(real) is not float or type(imag) is not float:
            raise LoadError(f"a complex number is made of {shown(real)} and {shown(imag)}")
        return complex(real, imag)

    def make_range(self, *args: Any) -> range:
        """A range of two or three ints."""
        if not 2 <= len(args) <= 3 or any(type(a) is not int for a in args) or args[2:] == (0,):
            raise LoadError("a range is made of something other than ints")
        return range(*args)

    def make_slice(self, *args: Any) -> slice:
        """A slice of three ints or Nones."""
        if len(args) != 3 or any(type(a) not in (int, type(None)) for a in args):
            raise LoadError("a slice is made of something other than ints")
        return slice(*args)

    def encode(self, text: Any, encoding: Any = "latin1") -> bytes:
        """bytes as protocol 2 has them: `_codecs.encode(text, "latin1")`."""
        if type(text) is not str or not equals(encoding, "latin1", "latin-1"):
            raise LoadError(f"bytes are made of {shown(text)} by {shown(encoding)}")
        self.budget.spend(len(text))
        try:
            return text.encode("latin1")
        except UnicodeEncodeError:
            raise LoadError("bytes are made of text beyond latin1") from None

    def make_bytes(self) -> bytes:
        """No bytes, as protocol 2 has them: `bytes()`."""
        return b""

    def make_bytearray(self, data: Any = b"", encoding: Any = None) -> bytearray:
        """A bytearray of bytes, or of latin1 text as protocol 2 has it."""
        if encoding is not None:
            data = self.encode(data, encoding)
        if type(data) is not bytes:
            raise LoadError(f"a bytearray is made of {shown(data)}, expected bytes")
        self.budget.spend(len(data))
        return bytearray(data)

    # ---- NumPy -----------------------------------------------------------------------------
    def numpy_dtype(self, code: Any, align: Any = False, copy: Any = True) -> np.dtype[Any]:
        """A NumPy dtype of numbers; its byte order comes as a state."""
        if type(code) is not str or code.lstrip("<|=") not in _CODES or len(code) > 4:
            raise LoadError(f"a NumPy dtype is {shown(code)}, expected one of numbers")
        self.budget.spend(100)
        return np.dtype(code, copy=True)

    def _numpy_bytes(self, dtype: Any, data: Any, count: int, what: str) -> bytes:
        if not isinstance(dtype, np.dtype) or type(data) not in (bytes, bytearray):
            raise LoadError(f"{what} is made of {shown(dtype)} and {shown(data)}")
        if len(data) != count * dtype.itemsize:
            raise LoadError(
                f"{what} has {len(data)} bytes, {count} of {dtype} need {count * dtype.itemsize}"
            )
        self.budget.spend(len(data) + 100)
        return bytes(data)

    def numpy_scalar(self, dtype: Any, data: Any) -> Any:
        """A NumPy number of its bytes."""
        return np.frombuffer(self._numpy_bytes(dtype, data, 1, "a NumPy number"), dtype)[0]

    def numpy_empty(self, kind: Any, shape: Any, code: Any) -> np.ndarray[Any, Any]:
        """The empty array that NumPy's pickles begin with; its state fills it."""
        if kind is not np.ndarray or not (equals(shape, (0,)) and equals(code, b"b", "b")):
            raise LoadError("a NumPy array is not made as NumPy's pickles make it")
        self.budget.spend(200)
        return np.empty(0, np.int8)

    def numpy_array(self, data: Any, dtype: Any, shape: Any, order: Any) -> Any:
        """An array of its bytes, as protocol 5 has it."""
        sizes = checked_sizes(shape, "shape")
        if not equals(order, "C", "F"):
            raise LoadError(f"a NumPy array has the order {shown(order)}")
        raw = self._numpy_bytes(dtype, data, product(sizes), "a NumPy array")
        return np.frombuffer(bytearray(raw), dtype).reshape(sizes, order=order)

    # ---- states ----------------------------------------------------------------------------
    def set_state(self, made: Any, state: Any) -> None:
        """The state that a pickle gives to an object after making it. Errors: LoadError for an
        object that has none in files of weights.
        """
        if type(made) is OrderedDict:
            made.__dict__.update(self.attributes(OrderedDict, state))
        elif type(made) is np.ndarray:
            self._set_array(made, state)
        elif isinstance(made, np.dtype):
            rest = (None, None, None, -1, -1, 0)
            if not equals(state, *((3, order, *rest) for order in "<>|")):
                raise LoadError("a NumPy dtype has the state of one that is no number")
            made.__setstate__(state)  # type: ignore[attr-defined]
        else:
            raise LoadError(f"{shown(made)} is given a state")

    def attributes(self, kind: type, state: Any) -> dict[str, Any]:
        """The attributes in a state. Errors: LoadError for what would hide one of the class."""
        if type(state) is not dict:
            raise LoadError(f"the attributes of a {kind.__name__} are {shown(state)}")
        for name in state:
            if type(name) is not str or hasattr(kind, name):
                raise LoadError(f"a {kind.__name__} has the attribute {shown(name)}")
        self.budget.spend(200 + ITEM * len(state))
        return state

    def _set_array(self, made: np.ndarray[Any, Any], state: Any) -> None:
        if type(state) is not tuple or len(state) != 5 or type(state[3]) is not bool or made.size:
            raise LoadError("a NumPy array has a state that is none")
        _, shape, dtype, fortran, data = state
        sizes = checked_sizes(shape, "shape")
        raw = self._numpy_bytes(dtype, data, product(sizes), "a NumPy array")
        made.__setstate__((1, sizes, dtype, fortran, raw))


def product(sizes: tuple[int, ...]) -> int:
    """The number of elements. Errors: LoadError for sizes that NumPy can't hold."""
    count, largest = 1, 1
    for n in sizes:
        count *= n
        largest *= max(n, 1)
    if largest >= 1 << 58:
        raise LoadError(f"an array of shape {sizes} is larger than any memory")
    return count
