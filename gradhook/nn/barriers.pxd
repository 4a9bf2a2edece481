cimport cython
from gradhook.autograd.layout cimport Node as NodeFields
from gradhook.autograd.layout cimport TensorFields as Fields
from gradhook.nn.barrier_layout cimport BarrierNode as BarrierFields

@cython.locals(node=BarrierFields)
cpdef enter(state, tuple args, dict kwargs, bint flat=*)

@cython.locals(node=BarrierFields, origin=NodeFields)
cdef _leave_single(state, Fields output, grad, tuple args, dict kwargs)

cdef _left(state, node, Fields t, nr, tuple args, dict kwargs)

cdef bint _is_made_inside(state, node) except -1
