# Where the slots of gradhook's classes lie in their objects, for the compiled core: it reads them as
# C fields, and the classes stay Python's. _layout.pyx checks every offset when it is imported.
cdef extern from *:
    """
    #ifndef GRADHOOK_LAYOUT
    #define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
    #include <numpy/ndarraytypes.h>
    #define GRADHOOK_LAYOUT
    typedef struct { PyObject_HEAD PyObject *_a, *_node, *_nr, *_slot, *_v, *_view; } GradhookTensor;
    typedef struct {
        PyObject_HEAD PyObject *dtype, *edges, *hooks, *saved, *seq, *shape;
    } GradhookNode;
    typedef struct {
        PyObject_HEAD
        PyObject *array, *grad, *hooked_views, *leaf, *lock, *parked, *post_accumulate, *retains;
    } GradhookSlot;
    typedef struct {
        PyObject_HEAD
        PyObject *bare, *callbacks, *captures, *carrier, *compat, *completion, *deliveries,
            *entries, *execute, *guard, *id, *keep, *late, *local, *node, *outer, *owned, *pending,
            *plain, *roots, *shared, *streams;
    } GradhookTask;
    typedef struct {
        PyObject_HEAD PyObject *compat, *grad, *inference, *saved_hooks_refused, *watch;
    } GradhookModes;

    // A fresh object whose first six slots, those of a Node or of a Tensor, are None.
    static PyObject *gradhook_new(PyObject *type) {
        PyObject *made = ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, 0);
        if (made != NULL) {
            PyObject **slots = (PyObject **)((char *)made + sizeof(PyObject));
            for (int k = 0; k < 6; k++) { Py_INCREF(Py_None); slots[k] = Py_None; }
        }
        return made;
    }
    // Whether x is a Tensor whose class does not hide _a, as a parameter without a shape yet does.
    static inline int gradhook_is_plain(PyObject *x, PyObject *name, PyObject *place) {
        return _PyType_Lookup(Py_TYPE(x), name) == place && ((GradhookTensor *)x)->_a != NULL;
    }
    // a.dtype
    static inline PyObject *gradhook_dtype(PyObject *a, PyObject *ndarray) {
        static PyObject *name = NULL;
        if ((PyObject *)Py_TYPE(a) == ndarray) {
            PyObject *found = (PyObject *)PyArray_DESCR((PyArrayObject *)a);
            Py_INCREF(found);
            return found;
        }
        if (name == NULL && (name = PyUnicode_InternFromString("dtype")) == NULL) return NULL;
        return PyObject_GetAttr(a, name);
    }
    // a.shape
    static PyObject *gradhook_shape(PyObject *a, PyObject *ndarray) {
        static PyObject *name = NULL;
        if ((PyObject *)Py_TYPE(a) == ndarray) {
            int n = PyArray_NDIM((PyArrayObject *)a);
            PyObject *found = PyTuple_New(n);
            for (int k = 0; found != NULL && k < n; k++) {
                PyObject *length = PyLong_FromSsize_t(PyArray_DIMS((PyArrayObject *)a)[k]);
                if (length == NULL) Py_CLEAR(found);
                else PyTuple_SET_ITEM(found, k, length);
            }
            return found;
        }
        if (name == NULL && (name = PyUnicode_InternFromString("shape")) == NULL) return NULL;
        return PyObject_GetAttr(a, name);
    }
    // The value of a context variable with a default.
    static inline PyObject *gradhook_current(PyObject *variable) {
        PyObject *found = NULL;
        if (PyContextVar_Get(variable, NULL, &found) < 0) return NULL;
        if (found == NULL) PyErr_SetNone(PyExc_LookupError);
        return found;
    }
    // draw(), where `counter` is the iterator whose __next__ it is, or None.
    static inline PyObject *gradhook_number(PyObject *counter, PyObject *draw) {
        if (counter != Py_None) return Py_TYPE(counter)->tp_iternext(counter);
        return PyObject_CallNoArgs(draw);
    }
    // A flag that a class of nodes has: 1 or 0, -1 with an error.
    static inline int gradhook_flag(PyObject *node, PyObject **name, const char *text) {
        PyObject *found;
        int flag;
        if (*name == NULL && (*name = PyUnicode_InternFromString(text)) == NULL) return -1;
        found = _PyType_Lookup(Py_TYPE(node), *name);
        if (found == Py_False) return 0;
        if (found == Py_True) return 1;
        found = PyObject_GetAttr(node, *name);  // a slot or a property
        if (found == NULL) return -1;
        flag = PyObject_IsTrue(found);
        Py_DECREF(found);
        return flag;
    }
    #define GRADHOOK_FLAG(flag) \
        static inline int gradhook_##flag(PyObject *node) { \
            static PyObject *name = NULL; \
            return gradhook_flag(node, &name, #flag); \
        }
    GRADHOOK_FLAG(leaf)
    GRADHOOK_FLAG(multi)
    GRADHOOK_FLAG(saves)
    #endif
    """
    ctypedef class gradhook.autograd.fields.TensorFields [object GradhookTensor, check_size ignore]:
        cdef object _a, _node, _nr, _slot, _v, _view
    int gradhook_leaf(object node) except -1
    int gradhook_multi(object node) except -1
    int gradhook_saves(object node) except -1
    ctypedef class gradhook.autograd.graph.Node [object GradhookNode, check_size ignore]:
        cdef object dtype, edges, hooks, saved, seq, shape
        @property
        cdef inline bint leaf(self) except -1:
            return gradhook_leaf(self)
        @property
        cdef inline bint multi(self) except -1:
            return gradhook_multi(self)
        @property
        cdef inline bint saves(self) except -1:
            return gradhook_saves(self)
    ctypedef class gradhook.autograd.graph.GradientSlot [object GradhookSlot, check_size ignore]:
        cdef object array, grad, hooked_views, leaf, lock, parked, post_accumulate, retains
    ctypedef class gradhook.autograd.graph_task.GraphTask [object GradhookTask, check_size ignore]:
        cdef object bare, callbacks, captures, carrier, compat, completion, deliveries, entries
        cdef object execute, guard, id, keep, late, local, node, outer, owned, pending, plain, roots
        cdef object shared, streams
    ctypedef class gradhook.modes.Modes [object GradhookModes, check_size ignore]:
        cdef object compat, grad, inference, saved_hooks_refused, watch
    Node new_node "gradhook_new" (object type)
    TensorFields new_tensor "gradhook_new" (object type)
    bint is_plain "gradhook_is_plain" (object x, object name, object place)
    object new_object "gradhook_new" (object type)
    object dtype_of "gradhook_dtype" (object array, object ndarray)
    object shape_of "gradhook_shape" (object array, object ndarray)
    Modes current_modes "gradhook_current" (object variable)
    object next_number "gradhook_number" (object counter, object draw)
