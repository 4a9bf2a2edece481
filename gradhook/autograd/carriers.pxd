cimport cython
from gradhook.autograd.layout cimport TensorFields as Fields

@cython.locals(t=Fields)
cpdef lent(array, node=*, nr=*)
