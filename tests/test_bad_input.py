"""Bad input: one clear error each, with what was found, what was expected and the way out."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import gradhook
from gradhook import autograd, backend, nn


def leaf(values):
    return gradhook.tensor(values, dtype=gradhook.float64, requires_grad=True)


class CudaArray:
    """Another library's array on a CUDA device, as far as its interface says."""

    shape, dtype = (3,), np.dtype("float32")

    @property
    def __cuda_array_interface__(self):
        return {"shape": (3,), "typestr": "<f4", "data": (4096, False), "version": 3}


needs_no_cupy = pytest.mark.skipif(
    backend.is_available(), reason="with CuPy and a device the array would be taken"
)


def refused(error, action, *words):
    """Run the action: it raises `error`, whose text has all these words."""
    with pytest.raises(error) as caught:
        action()
    text = str(caught.value)
    missing = [w for w in words if w not in text]
    assert not missing, f"{missing} not in: {text}"


# ---- dtype


@pytest.mark.parametrize("dtype", ["int64", "int32", "bool", "uint8"])
@pytest.mark.parametrize(
    "ask",
    [
        lambda dtype: gradhook.zeros(2, dtype=dtype, requires_grad=True),
        lambda dtype: gradhook.tensor([1, 0], dtype=dtype, requires_grad=True),
        lambda dtype: gradhook.zeros(2, dtype=dtype).requires_grad_(),
        lambda dtype: setattr(gradhook.zeros(2, dtype=dtype), "requires_grad", True),
        lambda dtype: nn.Parameter(gradhook.zeros(2, dtype=dtype)),
    ],
    ids=["zeros", "tensor", "requires_grad_", "attribute", "Parameter"],
)
def test_an_integer_tensor_cannot_require_grad(ask, dtype):
    refused(
        RuntimeError,
        lambda: ask(getattr(gradhook, dtype)),
        "only Tensors of floating point and complex dtype can require gradients",
        f"found gradhook.{dtype}",
        ".float()",
    )


def test_an_array_of_a_dtype_gradhook_does_not_have_is_refused():
    for array in (np.array([object()]), np.ones(2, dtype=np.uint16), np.array(["text"])):
        refused(TypeError, lambda array=array: gradhook.tensor(array), "float32")


# ---- shape


def test_shapes_that_do_not_broadcast_name_both_sizes_and_the_dimension():
    refused(
        RuntimeError,
        lambda: gradhook.ones(2, 3) + gradhook.ones(4, 3),
        "The size of tensor a (2) must match the size of tensor b (4) at non-singleton dimension 0",
        "add",
        "reshape or expand",
    )


def test_a_linear_layer_names_the_features_it_expects():
    refused(
        RuntimeError,
        lambda: nn.Linear(3, 2)(gradhook.ones(4, 5)),
        "mat1 and mat2 shapes cannot be multiplied (4x5 and 3x2)",
        "in_features",
        "(4, 5)",
    )


def test_a_view_of_another_size_is_refused():
    refused(
        RuntimeError,
        lambda: gradhook.ones(2, 3).view(4),
        "shape '[4]' is invalid for input of size 6",
    )
    refused(RuntimeError, lambda: gradhook.ones(2, 3).reshape(4), "is invalid for input of size 6")


def test_an_assigned_grad_must_fit_its_tensor():
    x = leaf([1.0, 2.0])
    for value, error, words in (
        (
            gradhook.ones(3),
            RuntimeError,
            ("assigned grad has data of a different size", "[2]", "[3]"),
        ),
        (gradhook.ones(2), RuntimeError, ("assigned grad has data of a different type", "float32")),
        ([1, 2], TypeError, ("assigned grad expected to be a Tensor or None", "list")),
        (x, RuntimeError, ("can't assign Variable as its own grad",)),
    ):
        refused(error, lambda value=value: setattr(x, "grad", value), *words)
    assert x.grad is None


# ---- backward


def test_backward_on_a_non_scalar_says_so():
    refused(
        RuntimeError,
        (leaf([1.0, 2.0]) * 2).backward,
        "grad can be implicitly created only for scalar outputs",
        "(2,)",
        "gradient=",
        ".sum()",
    )


def test_backward_without_history_says_how_to_get_one():
    refused(
        RuntimeError,
        gradhook.ones(2).sum().backward,
        "element 0 of tensors does not require grad and does not have a grad_fn",
        "requires_grad_()",
        "no_grad()",
    )


def test_backward_twice_says_how_to_keep_the_graph():
    x = leaf([1.0, 2.0])
    y = (x * x).sum()
    y.backward()
    refused(
        RuntimeError,
        y.backward,
        "Trying to backward through the graph a second time",
        "retain_graph=True",
    )
    assert x.grad.tolist() == [2, 4]


def test_a_gradient_that_does_not_fit_is_refused():
    y = leaf([1.0, 2.0]) * 2
    refused(RuntimeError, lambda: y.backward(gradhook.ones(3)), "Mismatch in shape", "[3]", "[2]")
    refused(TypeError, lambda: y.backward(np.ones(2)), "Tensors or None, but got ndarray")
    refused(RuntimeError, lambda: autograd.backward([y], [y, y]), "1 tensors and 2 gradients")
    refused(TypeError, lambda: autograd.backward([5]), "expected a Tensor, found int")
    z = gradhook.tensor([1j, 2j]).requires_grad_() * 2
    refused(RuntimeError, lambda: z.backward(gradhook.ones(2)), "required to have the same dtype")
    refused(
        RuntimeError, z.sum().backward, "only for real scalar outputs", "complex64", "gradient="
    )


def test_grad_refuses_inputs_it_cannot_differentiate_for():
    x = leaf([1.0])
    refused(TypeError, lambda: autograd.grad((x * 2).sum(), 5), "expected a Tensor", "found int")
    refused(RuntimeError, lambda: autograd.grad((x * 2).sum(), []), "cannot be empty")
    refused(
        RuntimeError,
        lambda: autograd.grad((x * 2).sum(), gradhook.ones(1)),
        "does not require grad",
        "requires_grad_()",
    )
    refused(
        RuntimeError,
        lambda: autograd.grad((x * 2).sum(), [leaf([1.0])]),
        "not have been used in the graph",
        "allow_unused=True",
    )


# ---- values that are no numbers


def test_ragged_rows_and_text_make_no_tensor():
    refused(ValueError, lambda: gradhook.tensor([[1, 2], [3]]), "rows of different lengths")
    refused(TypeError, lambda: gradhook.tensor("text"), "expected numbers", "found str")


def test_an_operand_that_is_no_tensor_is_refused():
    x = leaf([1.0])
    refused(TypeError, lambda: x - [1.0], "unsupported operand", "list")
    refused(TypeError, lambda: nn.Linear(1, 1)([1.0]), "must be Tensor", "list", "gradhook.tensor")


def test_a_function_refuses_what_is_no_tensor():
    refused(TypeError, lambda: gradhook.add(leaf([1.0]), None), "must be Tensor", "NoneType")


def test_a_layer_refuses_none():
    refused(TypeError, lambda: nn.Linear(1, 1)(None), "must be Tensor", "NoneType")


def test_values_of_tensors_with_history_or_of_several_elements_are_not_read_silently():
    x = leaf([1.0, 2.0])
    refused(RuntimeError, x.numpy, "requires grad", "detach().numpy()")
    refused(RuntimeError, lambda: np.asarray(x), "requires grad", "detach().numpy()")
    refused(RuntimeError, x.item, "2 elements")
    refused(RuntimeError, lambda: bool(x), "ambiguous")


# ---- devices


@needs_no_cupy
def test_cuda_without_a_device_says_what_to_install():
    x = leaf([1.0])
    for ask in (
        lambda: x.to("cuda"),
        x.cuda,
        lambda: gradhook.ones(2, device="cuda"),
        lambda: nn.Linear(1, 1).to("cuda"),
        lambda: gradhook.as_tensor(CudaArray()),
    ):
        refused(
            backend.DeviceError, ask, "CUDA", "CuPy", "gradhook[cuda12]", "python -m gradhook info"
        )


def test_an_unknown_device_is_refused():
    refused(RuntimeError, lambda: gradhook.ones(2, device="banana"), "cpu, cuda", "banana")


@needs_no_cupy
def test_a_cuda_array_is_no_operand_of_a_cpu_tensor():
    x = leaf([1.0, 2.0, 3.0])
    refused(TypeError, lambda: x + CudaArray(), "CudaArray")
    refused(TypeError, lambda: gradhook.from_cupy(np.ones(2)), "expected cupy.ndarray", "as_tensor")


@pytest.mark.cuda
@pytest.mark.skipif(not backend.is_available(), reason="needs CuPy and a CUDA device")
def test_a_numpy_array_beside_a_cuda_tensor_is_refused():
    x = gradhook.ones(3, device="cuda")
    refused(
        TypeError,
        lambda: x + np.ones(3, dtype=np.float32),
        "found a NumPy array beside a CUDA tensor",
        "expected all on one device",
        ".to(tensor.device)",
    )
    refused(
        RuntimeError,
        lambda: x + gradhook.ones(3, device="cpu"),
        "Expected all tensors to be on the same device",
        ".to(device)",
    )


# ---- state dicts and optimizers


def test_what_is_no_state_dict_is_refused_with_the_way_out(tmp_path):
    module = nn.Linear(2, 2)
    path = tmp_path / "weights.pickle"
    path.write_bytes(pickle.dumps([1, 2]))
    before = module.weight.tolist()
    for value in (str(path), path, pickle.loads(path.read_bytes()), None):
        refused(
            TypeError,
            lambda value=value: module.load_state_dict(value),
            "Expected state_dict to be dict-like",
            type(value).__name__,
            "state_dict()",
        )
    assert module.weight.tolist() == before


def test_a_state_dict_of_another_module_lists_everything_that_does_not_fit():
    module = nn.Linear(2, 2)
    refused(
        RuntimeError,
        lambda: module.load_state_dict({"weight": gradhook.ones(3, 3), "other": gradhook.ones(1)}),
        "Error(s) in loading state_dict for Linear",
        'Missing key(s) in state_dict: "bias"',
        'Unexpected key(s) in state_dict: "other"',
        "size mismatch for weight",
    )
    refused(
        RuntimeError,
        lambda: module.load_state_dict({"weight": 5, "bias": gradhook.ones(2)}),
        "weight",
        "expected gradhook.Tensor",
        "int",
    )


def test_an_optimizer_refuses_what_is_no_list_of_parameters_or_no_rate():
    w = nn.Parameter(gradhook.ones(2))
    refused(ValueError, lambda: gradhook.optim.SGD([], lr=0.1), "empty parameter list")
    refused(ValueError, lambda: gradhook.optim.SGD([w], lr=-1), "Invalid learning rate: -1")
    refused(TypeError, lambda: gradhook.optim.SGD(w, lr=0.1), "iterable of Tensors or dicts")


def test_a_module_without_forward_says_so():
    refused(NotImplementedError, lambda: nn.Module()(1), 'missing the required "forward" function')


def test_a_write_into_read_only_memory_is_refused_before_anything_changes():
    array = np.ones(2)
    array.flags.writeable = False
    t = gradhook.from_numpy(array)
    refused(RuntimeError, lambda: t.add_(1), "read-only", "clone()")
    assert t._version == 0 and t.tolist() == [1, 1]
