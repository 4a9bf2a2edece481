# As autograd/layout.pxd, of what is defined later. `multi` is a slot here, not a flag of the class.
cimport gradhook.autograd.layout

cdef extern from *:
    ctypedef class gradhook.autograd.module_hook_node.BarrierNode [
        object GradhookNode, check_size ignore
    ]:
        cdef object dtype, edges, hooks, saved, seq, shape
