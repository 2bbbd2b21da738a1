# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own databases of modules and optimisers on npu against cpu: the same kernels and products, so the same
bits."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db
from torch.utils import _pytree as pytree

from tests.python.device.op_database import assert_same
from tests.python.device.products_of_npu import ProductsOfNpu
from tests.python.device.tensors import tensors, to_npu

MODULES = {info.formatted_name: info for info in module_db}
OPTIMISERS = {info.optim_cls.__name__: info for info in optim_db}
NO_SPARSE_TENSORS = {"SparseAdam"}

# Relative tolerances of modules that torch computes in another way on cpu than on every other device.
TOLERANCES = dict.fromkeys(("nn_GRU", "nn_GRUCell", "nn_LSTM", "nn_LSTMCell", "nn_RNN"), 1e-4)


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def leaves(value: Any) -> Any:
    """Returns ``value`` with tensors that do not depend on each other, since some samples are logarithms of others."""
    return pytree.tree_map_only(torch.Tensor, lambda x: x.detach().requires_grad_(x.requires_grad), value)


def forward_and_backward(module: torch.nn.Module, arguments: Any) -> tuple[Any, list[Any]]:
    args, kwargs = arguments
    torch.manual_seed(2)
    result = module(*args, **kwargs)
    differentiable = [one for one in tensors(result) if one.requires_grad]
    wanted = [one for one in [*module.parameters(), *tensors(arguments)] if one.requires_grad]
    if not differentiable or not wanted:
        return result, []
    torch.manual_seed(1)
    seeds = [torch.randn(one.shape, dtype=one.dtype).to(one.device) for one in differentiable]
    with torch.autograd.set_multithreading_enabled(False):
        return result, list(torch.autograd.grad(differentiable, wanted, seeds, allow_unused=True))


def check_module(name: str, training: bool, most: int) -> None:
    info = MODULES[name]
    samples = info.module_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=info.supports_gradgrad, training=training
    )
    for sample in samples[:: 1 + len(samples) // most]:
        if sample.forward_input is None:
            continue
        built = sample.constructor_input
        torch.manual_seed(0)
        module = info.module_cls(*built.args, **built.kwargs).train(training)
        on_npu = copy.deepcopy(module).npu()
        arguments = leaves((sample.forward_input.args, sample.forward_input.kwargs))
        moved = to_npu(arguments)
        try:
            want = forward_and_backward(module, arguments)
        except Exception as error:
            with pytest.raises(type(error)):
                forward_and_backward(on_npu, moved)
            continue
        got = forward_and_backward(on_npu, moved)
        assert_same(got, want, f"{name} {sample.desc}", TOLERANCES.get(name, 0))
        assert_same(on_npu.state_dict(), module.state_dict(), f"{name}: state")


# About how many samples of a module run. nn_LinearCrossEntropyLoss has 857, nn_CrossEntropyLoss 105, the others fewer.
SOME, ALL = 60, 10_000


@pytest.mark.parametrize(
    ("training", "most"), [(True, SOME), *(pytest.param(mode, ALL, marks=pytest.mark.long) for mode in (True, False))]
)
@pytest.mark.parametrize("name", sorted(MODULES))
def test_modules_give_what_they_give_on_cpu(name: str, training: bool, most: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with ProductsOfNpu():
            check_module(name, training, most)


def steps(model: torch.nn.Module, optimiser: torch.optim.Optimizer) -> list[torch.Tensor]:
    device = next(model.parameters()).device
    for seed in range(3):
        x = torch.randn(5, 6, generator=torch.Generator().manual_seed(seed)).to(device)

        def closure(x: torch.Tensor = x) -> torch.Tensor:
            optimiser.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        optimiser.step(closure)
    state = pytree.tree_leaves([list(one.values()) for one in optimiser.state.values()])
    return [*model.parameters(), *(one for one in state if isinstance(one, torch.Tensor) and one.dim())]


@pytest.mark.parametrize("name", sorted(set(OPTIMISERS) - NO_SPARSE_TENSORS))
def test_optimisers_step_as_they_do_on_cpu(name: str) -> None:
    with ProductsOfNpu():
        check_optimiser(name)


def check_optimiser(name: str) -> None:
    info = OPTIMISERS[name]
    for chosen in info.optim_inputs_func(device="cpu"):
        for form in ("plain", "foreach", "fused"):
            if form != "plain" and form not in info.supported_impls:
                continue
            torch.manual_seed(0)
            bias = name != "Muon"  # Muon takes matrices only
            model = torch.nn.Sequential(torch.nn.Linear(6, 8, bias), torch.nn.Tanh(), torch.nn.Linear(8, 4, bias))
            on_npu = copy.deepcopy(model).npu()
            kwargs = {key: value for key, value in chosen.kwargs.items() if key != "params"}
            # By default torch chooses foreach on every device but cpu.
            kwargs |= (
                {"foreach": form == "foreach", "fused": form == "fused"} if "foreach" in info.supported_impls else {}
            )
            try:
                want = steps(model, info.optim_cls(model.parameters(), **kwargs))
            except Exception as error:
                with pytest.raises(type(error)):
                    steps(on_npu, info.optim_cls(on_npu.parameters(), **kwargs))
                continue
            kwargs = pytree.tree_map_only(torch.Tensor, lambda x: x.npu(), kwargs)
            got = steps(on_npu, info.optim_cls(on_npu.parameters(), **kwargs))
            assert_same(got, want, f"{name} {form} {kwargs}")
