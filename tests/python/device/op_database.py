# SPDX-License-Identifier: Apache-2.0
"""Compares PyTorch's own operator database on npu with cpu. Both run the same kernels on the same bytes, and products
on cpu are those of npu, so the results have the same bits."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import warnings
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
import torch
from torch.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils import _pytree as pytree
from torch.utils._device import _device_constructors

from tests.python.device.products_of_npu import ProductsOfNpu
from tests.python.device.tensors import tensors, to_npu
from tests.python.op_samples import OPERATORS, samples

# `with torch.device(...)` looks up once in a process which functions it gives a device. transformers replaces
# torch.linspace while it makes a model. A lookup at that time would miss torch.linspace for good, so it is made here.
_device_constructors()

# Operators whose samples do not all run on npu, and why.
REFUSED: dict[str, str] = {
    **dict.fromkeys(
        ("sparse_mm_reduce", "sparse_sampled_addmm", "to_sparse"), "npu has no sparse tensors, and says so"
    ),
    "tensor_split": "takes its indices from cpu only, on every device; a sample has them on the device",
}

# Relative tolerances of results that are not equal to the bit, and why.
TOLERANCES: dict[str, float] = {
    # LAPACK's sums depend on addresses.
    **dict.fromkeys(("linalg_lstsq", "linalg_lstsq_grad_oriented"), 1e-5),
}


# Operators without products whose results torch does not store in ``out`` in any dispatch mode.
LOST_IN_MODES = {"linalg_matrix_rank", "linalg_matrix_rank_hermitian"}


@contextlib.contextmanager
def chosen_for_no_device() -> Iterator[None]:
    """Context manager: the chunked linear_cross_entropy chooses its chunks and the dtype of its sums by the name of the
    device. Here both devices take its choice for unknown devices."""
    adjust = LinearCrossEntropyOptions._adjust

    def without_device(options: LinearCrossEntropyOptions, *, device: torch.device, **sizes: Any) -> Any:
        return adjust(options, **sizes)

    with mock.patch.object(LinearCrossEntropyOptions, "_adjust", without_device):
        yield


def as_leaves(value: Any) -> Any:
    """Returns ``value`` with every tensor as a leaf of its own, as ``to_npu`` does. A sample that is a view of a leaf,
    made under ``no_grad``, says that it requires a gradient, but gets none."""

    def leaf(one: Any) -> Any:
        return one.detach().requires_grad_(one.requires_grad) if isinstance(one, torch.Tensor) else one

    return pytree.tree_map(leaf, value)


def assert_same(npu: Any, cpu: Any, what: str, rtol: float = 0) -> None:
    """Checks that two results have the same values, strides and dtypes, and that the first is on npu."""
    ours, theirs = tensors(npu), tensors(cpu)
    assert len(ours) == len(theirs), what
    for one, other in zip(ours, theirs, strict=True):
        assert one.device.type == "npu", f"{what}: the result is on {one.device}"
        assert one.stride() == other.stride(), f"{what}: strides"
        assert (one.is_conj(), one.is_neg()) == (other.is_conj(), other.is_neg()), what
        torch.testing.assert_close(
            one.cpu(), other, rtol=rtol, atol=rtol, equal_nan=True, msg=lambda text: f"{what}: {text}"
        )
    for one, other in zip(pytree.tree_leaves(npu), pytree.tree_leaves(cpu), strict=True):
        if not isinstance(other, torch.Tensor) and other == other:
            assert one == other, what


class Comparison:
    """Compares one operator on cpu and on npu. A call that raises on cpu must raise on npu."""

    def __init__(self, op: OpInfo, dtype: torch.dtype):
        self.op = op
        self.dtype = dtype
        self.rtol = TOLERANCES.get(op.formatted_name, 0)
        self.differentiable = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")

    def run(self, limit: int | None) -> int:
        """Compares up to ``limit`` samples forward, backward, in place and with out=. Returns the number of samples."""
        done = 0
        for sample in self._samples(self.differentiable, limit):
            self._forward_and_backward(sample)
            done += 1
        for sample in self._samples(False, limit):
            self._in_place(sample)
            self._out(sample)
        return done

    def _samples(self, requires_grad: bool, limit: int | None) -> Iterator[SampleInput]:
        return itertools.islice(samples(self.op.formatted_name, self.dtype, requires_grad=requires_grad), limit)

    def _both(self, function: Any, sample: SampleInput, what: str) -> tuple[Run, Run] | None:
        """Runs ``function`` on cpu and npu and compares the results. Returns None if both raise."""
        try:
            cpu = _run(function, sample, "cpu")
        except Exception as error:
            with pytest.raises(type(error)):
                _run(function, sample, "npu")
            return None
        npu = _run(function, sample, "npu")
        assert_same(npu.result, cpu.result, what, self.rtol)
        return cpu, npu

    def _forward_and_backward(self, sample: SampleInput) -> None:
        both = self._both(self.op, sample, "forward")
        if both is None or not self.differentiable:
            return
        results = [[one for one in tensors(run.result) if one.requires_grad] for run in both]
        leaves = [[one for one in tensors(run.arguments) if one.requires_grad] for run in both]
        if not results[0] or not leaves[0]:
            return
        torch.manual_seed(1)
        seeds = [torch.randn_like(one) for one in results[0]]
        # Both run in this thread. A thread of the engine may use another number of threads, and so another order of
        # sums.
        with torch.autograd.set_multithreading_enabled(False):
            grads = self._gradients(results, leaves, seeds)
        assert [one is None for one in grads[0]] == [one is None for one in grads[1]]
        assert_same(grads[1], grads[0], "backward", self.rtol)

    @staticmethod
    def _gradients(results: Any, leaves: Any, seeds: list[torch.Tensor]) -> list[Any]:
        return [
            torch.autograd.grad(outputs, inputs, [seed.to(outputs[0].device) for seed in seeds], allow_unused=True)
            for outputs, inputs in zip(results, leaves, strict=True)
        ]

    def _in_place(self, sample: SampleInput) -> None:
        variant = self.op.inplace_variant
        if variant is None or sample.broadcasts_input or not isinstance(sample.input, torch.Tensor):
            return

        def function(value: torch.Tensor, /, *args: Any, **kwargs: Any) -> torch.Tensor:
            own = value.clone()
            assert variant(own, *args, **kwargs) is own
            return own

        self._both(function, sample, "in place")

    def _out(self, sample: SampleInput) -> None:
        if not self.op.supports_out:
            return
        expected = _run(self.op, sample, "cpu").result
        shapes = [(one.shape, one.dtype) for one in tensors(expected)]
        for sized in (True, False):

            def function(value: Any, /, *args: Any, sized: bool = sized, **kwargs: Any) -> Any:
                device = torch.empty(0).device  # the default device
                outs = [torch.zeros(shape if sized else 0, dtype=dtype, device=device) for shape, dtype in shapes]
                return self.op(value, *args, out=outs[0] if len(outs) == 1 else tuple(outs), **kwargs)

            self._both(function, sample, "out=")


@dataclasses.dataclass
class Run:
    arguments: Any
    result: Any


def _run(function: Any, sample: SampleInput, device: str) -> Run:
    """Runs ``function`` on ``sample`` with ``device`` as the default device and a fresh seed."""
    arguments = (sample.input, sample.args, sample.kwargs)
    arguments = to_npu(arguments) if device == "npu" else as_leaves(arguments)
    torch.manual_seed(0)
    value, args, kwargs = arguments
    with torch.device(device):
        return Run(arguments, sample.output_process_fn_grad(function(value, *args, **kwargs)))


def compare_operator(name: str, dtype: torch.dtype, limit: int | None = None) -> int:
    """Compares up to ``limit`` samples of an operator of the database. Returns the number of samples."""
    products = contextlib.nullcontext() if name in LOST_IN_MODES else ProductsOfNpu()
    with warnings.catch_warnings(), chosen_for_no_device(), products:
        warnings.simplefilter("ignore")
        return Comparison(OPERATORS[name], dtype).run(limit)
