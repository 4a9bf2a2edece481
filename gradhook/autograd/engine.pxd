cimport cython
from gradhook.autograd.layout cimport GradientSlot as SlotFields
from gradhook.autograd.layout cimport GraphTask as TaskFields
from gradhook.autograd.layout cimport Node as NodeFields

@cython.locals(pending=dict, node=NodeFields, edges=tuple, stack=list)
cdef _count(TaskFields task, roots)

cdef _join(TaskFields task, have, g)

@cython.locals(entries=dict)
cdef _deliver(TaskFields task, NodeFields node, nr, g)

@cython.locals(
    pending=dict, entries=dict, owned=set, heap=list, node=NodeFields, following=NodeFields,
    edges=tuple, keep=bint, bare=bint, chains=bint, candidate=NodeFields,
)
cdef _execute(TaskFields task, list roots)

cdef bint _is_owned(h, a, fresh, Py_ssize_t k, bint bare) except -1

@cython.locals(
    pending=dict, entries=dict, bare=bint, plain=bint, edges=tuple, candidate=NodeFields,
    following=NodeFields, slot=SlotFields, k=Py_ssize_t,
)
cdef _spread(TaskFields task, NodeFields node, grads, list heap)

cdef _visit_specially(TaskFields task, NodeFields node, g)
cdef _visit(TaskFields task, NodeFields node, g)
cdef _release(TaskFields task, NodeFields node)

@cython.locals(slot=SlotFields)
cdef _accumulate(TaskFields task, node, g, owned, bint lent=*)
