cimport cython

@cython.locals(own=dict, ids=list)
cpdef call_hooked(self, is_call, kinds, tuple args, dict kwargs)

cdef _new_call(dict own, backward, backward_pre, flagged)
cdef _entries(shared, own)
cdef _hooks(shared, own)
cdef _call_with_forward_hooks(call, dict own, tuple args, dict kwargs, backward, backward_pre)
cdef _call(call, dict own, args, kwargs, backward, backward_pre, tuple forward_hooks, ran)
