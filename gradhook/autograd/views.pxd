cimport cython
from gradhook.autograd.layout cimport TensorFields as Fields

@cython.locals(made=Fields)
cpdef alias_at(t, node, nr)
