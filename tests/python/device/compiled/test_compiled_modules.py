# SPDX-License-Identifier: Apache-2.0
"""Modules of ``torch.nn`` on npu, compiled, against eager npu: results, gradients and state. Calls of operators that
only accelerators dispatch are compared in the same way."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch

import npugraph
from tests.python.backend.checks import compile_ex
from tests.python.device.op_database import tensors, to_npu
from tests.python.device.torch_npu.test_modules import MODULES, forward_and_backward, leaves

aten = torch.ops.aten

# Modules of which torch traces other operators on an accelerator than on cpu.
CHOSEN_BY_DEVICE = (
    *("nn_LSTMCell", "nn_GRUCell", "nn_LSTM", "nn_GRU", "nn_RNN", "nn_EmbeddingBag", "nn_Dropout", "nn_BatchNorm2d"),
    *("nn_LayerNorm", "nn_GroupNorm", "nn_PixelShuffle", "nn_TransformerEncoderLayer", "nn_MultiheadAttention"),
)


@pytest.fixture(autouse=True)
def fresh() -> None:
    npugraph.reset()


def assert_like_eager(got: Any, want: Any, what: str) -> None:
    ours, theirs = tensors(got), tensors(want)
    assert len(ours) == len(theirs), what
    for one, other in zip(ours, theirs, strict=True):
        assert (one.device, one.stride()) == (other.device, other.stride()), what
        torch.testing.assert_close(one, other, rtol=2e-4, atol=2e-5, equal_nan=True, msg=lambda text: f"{what}: {text}")


def check_module(name: str, training: bool, most: int | None = None) -> None:
    info = MODULES[name]
    samples = info.module_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=info.supports_gradgrad, training=training
    )
    for sample in [sample for sample in samples if sample.forward_input is not None][:most]:
        built = sample.constructor_input
        torch.manual_seed(0)
        eager = info.module_cls(*built.args, **built.kwargs).train(training).npu()
        module = copy.deepcopy(eager)
        torch._dynamo.reset()
        compiled = compile_ex(module, fullgraph=False)
        arguments = to_npu(leaves((sample.forward_input.args, sample.forward_input.kwargs)))
        given = to_npu(arguments)
        what = f"{name} {sample.desc}"
        try:
            want = forward_and_backward(eager, arguments)
        except Exception as error:
            with pytest.raises(type(error)):
                forward_and_backward(compiled, given)
            continue
        assert_like_eager(forward_and_backward(compiled, given), want, what)
        assert_like_eager(module.state_dict(), eager.state_dict(), f"{what}: state")


@pytest.mark.parametrize("name", CHOSEN_BY_DEVICE)
def test_modules_that_depend_on_the_device(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", npugraph.NpugraphWarning)
        check_module(name, True, most=2)


@pytest.mark.long
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", sorted(MODULES))
def test_all_modules(name: str, training: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", npugraph.NpugraphWarning)
        check_module(name, training)
