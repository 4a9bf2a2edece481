"""Objects for the compiled core, and the check that layout.pxd is right about where slots lie."""

from importlib import import_module

from gradhook.autograd.layout cimport new_object


cdef extern from *:
    """
    #include <structmember.h>
    static Py_ssize_t gradhook_offset(PyObject *descriptor) {
        return ((PyMemberDescrObject *)descriptor)->d_member->offset;
    }
    """
    Py_ssize_t gradhook_offset(object descriptor) except? -1
    Py_ssize_t HEAD "sizeof(PyObject)"
    Py_ssize_t POINTER "sizeof(PyObject *)"


CLASSES = (
    ("gradhook.autograd.fields", "TensorFields"),
    ("gradhook.autograd.graph", "Node"),
    ("gradhook.autograd.graph", "GradientSlot"),
    ("gradhook.autograd.graph_task", "GraphTask"),
    ("gradhook.modes", "Modes"),
)


def blank(type kind):
    """A fresh Tensor or Node, its slots None."""
    return new_object(kind)


def check():
    """The slots of each class follow its header by name, as the structs of layout.pxd say.

    Errors: ImportError where this Python lays them out otherwise.
    """
    for module, name in CLASSES:
        kind = getattr(import_module(module), name)
        slots = sorted(s for s in kind.__slots__ if not s.startswith("__"))
        for k, slot in enumerate(slots):
            if gradhook_offset(kind.__dict__[slot]) != HEAD + k * POINTER:
                raise ImportError(
                    f"the compiled core of gradhook does not fit this Python: {name}.{slot} lies "
                    "elsewhere; install the pure-Python wheel, or build one here with "
                    "GRADHOOK_COMPILE=1"
                )
