"""Names whose values are made when they are first asked for: the package's, and those of Later."""

from __future__ import annotations

import ast
import pickle
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import gradhook as gh
from gradhook.later import Later, LaterAttribute, attributes
from gradhook.methods import TensorMethods

SUBPACKAGES = """_C cuda custom_ops device_hooks fft func linalg masked ndimage nn optim safetensors
    serialization signal sparse special utils""".split()


def in_a_fresh_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_importing_gradhook_compiles_no_function_and_imports_no_subpackage_that_nobody_asked_for():
    code = f"""if True:
        import linecache, sys
        import gradhook
        print([name for name in linecache.cache if name.startswith("<gradhook ")])
        print([name for name in {SUBPACKAGES} if f"gradhook.{{name}}" in sys.modules])
    """
    assert in_a_fresh_process(code).splitlines() == ["[]", "[]"]


def test_one_call_compiles_that_function_alone():
    code = """if True:
        import linecache
        import gradhook
        gradhook.cos, gradhook.Tensor.cos_
        print([name for name in linecache.cache if name.startswith("<gradhook function")])
    """
    assert in_a_fresh_process(code) == "['<gradhook function cos>', '<gradhook function cos_>']"


def test_every_subpackage_is_an_attribute_of_the_package_in_a_process_that_asks_for_nothing_else():
    code = f"""if True:
        import gradhook
        print(*(getattr(gradhook, name).__name__ for name in {SUBPACKAGES}))
    """
    assert in_a_fresh_process(code).split() == [f"gradhook.{name}" for name in SUBPACKAGES]


def test_a_star_import_and_dir_give_every_public_name():
    code = """if True:
        import gradhook
        before = dir(gradhook)
        names = {}
        exec("from gradhook import *", names)
        assert set(gradhook.__all__) == set(names) - {"__builtins__"}
        assert set(gradhook.__all__) <= set(before)
        print("add" in names, "Tensor" in names, "nn" in names, "t" in names, "load" in names)
    """
    assert in_a_fresh_process(code) == "True True True True True"


def test_a_function_unpickles_in_a_process_that_has_not_asked_for_it():
    text = pickle.dumps([gh.atan, gh.Tensor.atan, gh.Tensor.cumsum, gh.arange, gh.special.erf])
    code = f"""if True:
        import pickle
        print(*(f.__name__ for f in pickle.loads({text!r})))
    """
    assert in_a_fresh_process(code) == "atan atan cumsum arange erf"


def test_what_was_asked_for_is_an_ordinary_attribute_from_then_on():
    for space, holder in ((gh, gh), (gh.functions, gh.functions), (gh.Tensor, TensorMethods)):
        asked = space.acos
        assert vars(holder)["acos"] is asked
    for name in ("acos_", "__add__", "cross"):
        asked = getattr(gh.Tensor, name)
        assert vars(TensorMethods)[name] is asked
    assert gh.absolute is gh.abs
    assert gh.Tensor.isnan is gh.isnan  # one function where there is no out


@pytest.mark.parametrize(
    "space", [gh, gh.functions, gh.linalg, gh.fft, gh.autograd.graph, gh.utils]
)
def test_a_name_that_is_not_there_is_an_attribute_error_that_names_the_module(space):
    with pytest.raises(AttributeError, match=f"module '{space.__name__}' has no attribute 'nope'"):
        space.nope  # noqa: B018
    assert not hasattr(space, "__wrapped__")


def test_the_later_names_of_the_package_are_those_that_type_checkers_see():
    tree = ast.parse(Path(gh.__file__).read_text("utf-8"))
    checked = next(n for n in tree.body if isinstance(n, ast.If)).body
    told = {a.asname for n in checked for a in n.names if a.name != "*"}
    assert told == set(gh._later) - set(gh.creation.__all__)
    assert {n.module for n in checked if n.names[0].name == "*"} == {
        "gradhook.creation",
        "gradhook.functions",
    }


def test_no_module_of_the_package_takes_the_name_of_a_function():
    modules = {m.name for m in pkgutil.iter_modules(gh.__path__)}
    for name in modules & {*gh._later, *gh.functions.table_functions()}:
        value = getattr(gh, name)
        assert isinstance(value, ModuleType) or name == "tensor", name
    assert gh.tensor is gh.creation.tensor


def test_a_value_is_made_once_by_the_first_look_up():
    made: list[str] = []
    table = Later()
    for name in ("a", "b"):
        table.put(name, lambda name=name: made.append(name) or name.upper())
    assert (list(table), len(table), "a" in table, "c" in table) == (["a", "b"], 2, True, False)
    assert made == []
    assert [table["a"], table["a"], table.get("c")] == ["A", "A", None]
    assert made == ["a"]
    table.put("a", lambda: "new")
    assert dict(table) == {"a": "new", "b": "B"}


def test_a_module_has_the_names_of_its_tables_in_their_order_and_keeps_what_it_gave():
    first, second = Later(), Later()
    first.put("a", lambda: "first")
    second.put("a", lambda: "second")
    second.put_from("math", "pi tau")
    second.put_modules("os", "path")
    module: dict[str, object] = {"__name__": "somewhere", "own": 1}
    get, names = attributes(module, first, second)
    assert names() == ["__name__", "a", "own", "path", "pi", "tau"]
    assert (get("a"), round(get("pi"), 2), get("path").__name__) == ("first", 3.14, "posixpath")
    assert module["a"] == "first"


def test_an_attribute_made_late_is_bound_as_a_method_and_does_not_replace_a_newer_one():
    class Base:
        pass

    late = LaterAttribute(Base, "f", lambda: lambda self: type(self).__name__)
    Base.f = late
    base_f = vars(Base)["f"]

    class Below(Base):
        def f(self):
            return f"below {super().f()}"

    assert base_f is late
    assert Below().f() == "below Below"
    assert Base().f() == "Base"
    assert vars(Base)["f"] is not late
    Base.f = newer = lambda self: "newer"
    assert late.__get__(Base(), Base)() == "Base"
    assert vars(Base)["f"] is newer
