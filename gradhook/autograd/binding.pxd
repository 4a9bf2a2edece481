cimport cython
from gradhook.autograd.layout cimport TensorFields as Fields

@cython.locals(t=Fields)
cpdef make(array)

@cython.locals(t=Fields)
cpdef make_at(array, node, nr)
