# SPDX-License-Identifier: Apache-2.0
"""Fake results are like real ones in sizes, types and strides: those of every call of ATen that operators of the
database and their gradients make, for arguments in all layouts. It takes minutes, where the tables over compiled
operators take an hour, and names the rows of true_strides.py that are missing."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from npugraph.fx.true_strides import with_true_strides
from tests.python import layouts
from tests.python.backend.checks import strides
from tests.python.backend.values.test_strides import NAMES

# Offsets of bags that no gradient needs are left out where a kernel of 16 bits is fast.
UNLIKE = {torch.ops.aten._embedding_bag.default}


class Comparison(TorchDispatchMode):
    """Calls operators on fake tensors, too, and collects differences of their results."""

    def __init__(self) -> None:
        super().__init__()
        self.fake = FakeTensorMode()
        self.found: dict[str, str] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        real = func(*args, **(kwargs or {}))
        if not func._schema.is_mutable and func not in UNLIKE:
            with contextlib.suppress(Exception):  # results that depend on values, and tensors that are not strided
                fake = self._fake_result(func, args, kwargs or {})
                for one, other in zip(pytree.tree_leaves(fake), pytree.tree_leaves(real), strict=True):
                    if isinstance(other, torch.Tensor) and _look(one) != _look(other):
                        self.found.setdefault(str(func), f"{func}: fake {_look(one)}, real {_look(other)}")
        return real

    def _fake_result(self, func: Any, args: Any, kwargs: Any) -> Any:
        def fake(tensor: torch.Tensor) -> torch.Tensor:
            return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)

        with self.fake:
            args, kwargs = pytree.tree_map_only(torch.Tensor, fake, (args, kwargs))
            return with_true_strides(func, args, func(*args, **kwargs))


def _look(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tuple(tensor.shape), tensor.dtype, strides(tensor)


@pytest.mark.long
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.int64])
def test_results_of_all_calls(dtype: torch.dtype) -> None:
    comparison = Comparison()
    for name in NAMES:
        for values in layouts.sampled(name, dtype, 3):
            for lay_out, first in itertools.product(layouts.LAYOUTS.values(), (False, True)):
                # What eager refuses has no result.
                with contextlib.suppress(Exception), comparison:
                    layouts.run_sample(name, layouts.laid_out(values, lay_out, first=first))
    assert not comparison.found, "\n".join(comparison.found.values())
