# SPDX-License-Identifier: Apache-2.0
"""Modules of ``torch.nn`` on npu, compiled, against eager npu: results, gradients and state. Calls of operators that
only accelerators dispatch are compared in the same way."""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import npugraph
from tests.python.backend.checks import compile_ex
from tests.python.device.tensors import tensors, to_npu
from tests.python.device.torch_npu.test_modules import MODULES, forward_and_backward, leaves

Call = tuple[Callable[[], nn.Module] | nn.Module, Callable[[], tuple[Any, ...]]]
CHANNELS_LAST = torch.channels_last

# Modules of which torch traces other operators on an accelerator than on cpu.
CHOSEN_BY_DEVICE = (
    *("nn_LSTMCell", "nn_GRUCell", "nn_LSTM", "nn_GRU", "nn_RNN", "nn_BatchNorm2d", "nn_LayerNorm", "nn_GroupNorm"),
    *("nn_TransformerEncoderLayer", "nn_MultiheadAttention"),
)


def image(*size: int) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(3))


def bags(mode: str, last: bool = False) -> Call:
    made = functools.partial(nn.EmbeddingBag, 10, 4, mode=mode, include_last_offset=last)
    return made, lambda: (torch.tensor([1, 2, 4, 5, 4, 3, 2, 9, 1, 1]), torch.tensor([0, 4, 10] if last else [0, 4]))


def pooled(rank: int) -> Call:
    """Puts the largest element of each window back into its place."""
    places = torch.arange(2 * 3 * 2**rank).view(2, 3, *[2] * rank) % 4**rank
    return getattr(nn, f"MaxUnpool{rank}d")(2), lambda: (image(2, 3, *[2] * rank), places)


# Modules that torch's database lacks: how they are made, and arguments.
OTHERS: dict[str, Call] = {
    "AdaptiveLogSoftmaxWithLoss": (lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10]),
                                   lambda: (image(4, 8), torch.tensor([1, 6, 12, 19]))),
    "AlphaDropout": (nn.AlphaDropout, lambda: (image(4, 5),)),
    "ChannelShuffle": (lambda: nn.ChannelShuffle(2), lambda: (image(2, 4, 3, 3),)),
    "CosineSimilarity": (nn.CosineSimilarity, lambda: (image(4, 5), image(4, 5) + 1)),
    "CrossMapLRN2d": (lambda: nn.CrossMapLRN2d(2), lambda: (image(2, 4, 3, 3),)),
    "Dropout": (nn.Dropout, lambda: (image(4, 5),)),
    "Dropout1d": (nn.Dropout1d, lambda: (image(4, 5, 3),)),
    "Dropout2d": (nn.Dropout2d, lambda: (image(2, 4, 5, 3),)),
    "Dropout3d": (nn.Dropout3d, lambda: (image(2, 4, 5, 3, 2),)),
    **{f"EmbeddingBag {mode}": bags(mode) for mode in ("sum", "mean", "max")},
    **{f"EmbeddingBag {mode}, last offset": bags(mode, True) for mode in ("sum", "mean")},
    "FeatureAlphaDropout": (nn.FeatureAlphaDropout, lambda: (image(2, 4, 5, 3),)),
    "Flatten": (nn.Flatten, lambda: (image(2, 4, 5),)),
    "Fold": (lambda: nn.Fold((4, 5), 2), lambda: (image(2, 12, 12),)),
    "Hardsigmoid": (nn.Hardsigmoid, lambda: (image(4, 5) * 3,)),
    "Identity": (nn.Identity, lambda: (image(4, 5),)),
    **{f"MaxUnpool{rank}d": pooled(rank) for rank in (1, 2, 3)},
    "PairwiseDistance": (nn.PairwiseDistance, lambda: (image(4, 5), image(4, 5) + 1)),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), lambda: (image(2, 8, 3, 3).to(memory_format=CHANNELS_LAST),)),
    "PixelUnshuffle": (lambda: nn.PixelUnshuffle(2), lambda: (image(2, 3, 4, 4).to(memory_format=CHANNELS_LAST),)),
    "RReLU": (nn.RReLU, lambda: (image(4, 5),)),
    "SyncBatchNorm": (lambda: nn.SyncBatchNorm(3), lambda: (image(2, 3, 4),)),
    "TransformerDecoder": (lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, 0.0), 1),
                           lambda: (image(3, 2, 8), image(4, 2, 8))),
    "TripletMarginLoss": (nn.TripletMarginLoss, lambda: (image(4, 5), image(4, 5) + 1, image(4, 5) * 2)),
    "TripletMarginWithDistanceLoss": (nn.TripletMarginWithDistanceLoss,
                                      lambda: (image(4, 5), image(4, 5) + 1, image(4, 5) * 2)),
    "Unflatten": (lambda: nn.Unflatten(1, (2, 2)), lambda: (image(2, 4),)),
    "Unfold": (lambda: nn.Unfold(2), lambda: (image(2, 3, 4, 4),)),
    "Upsample": (lambda: nn.Upsample(scale_factor=2), lambda: (image(2, 3, 4, 4),)),
    "UpsamplingBilinear2d": (lambda: nn.UpsamplingBilinear2d(scale_factor=2), lambda: (image(2, 3, 4, 4),)),
    "UpsamplingNearest2d": (lambda: nn.UpsamplingNearest2d(scale_factor=2), lambda: (image(2, 3, 4, 4),)),
}  # fmt: skip
# Containers, bases, names of others, and modules that become others at their first call.
NOT_CALLED = {"Container", "LinearCrossEntropyOptions", "Module", "ModuleDict", "ModuleList", "NLLLoss2d", "RNNBase"}
NOT_CALLED |= {"ParameterDict", "ParameterList", "RNNCellBase", "Sequential"}


@pytest.fixture(autouse=True)
def fresh() -> None:
    npugraph.reset()


def assert_like_eager(got: Any, want: Any, what: str, strides: bool = True) -> None:
    ours, theirs = tensors(got), tensors(want)
    assert len(ours) == len(theirs), what
    for one, other in zip(ours, theirs, strict=True):
        assert one.device == other.device and (not strides or one.stride() == other.stride()), what
        torch.testing.assert_close(one, other, rtol=2e-4, atol=2e-5, equal_nan=True, msg=lambda text: f"{what}: {text}")


def check_call(module: nn.Module, arguments: Any, what: str) -> None:
    """``module`` and ``arguments`` are on cpu."""
    eager = module.npu()
    own = copy.deepcopy(eager)
    torch._dynamo.reset()
    compiled = compile_ex(own, fullgraph=False)
    arguments = to_npu(leaves(arguments))
    given = to_npu(arguments)
    try:
        want = forward_and_backward(eager, arguments)
    except Exception as error:
        with pytest.raises(type(error)):
            forward_and_backward(compiled, given)
        return
    result, gradients = forward_and_backward(compiled, given)
    assert_like_eager(result, want[0], what)
    assert_like_eager(gradients, want[1], f"{what}: gradients", strides=False)  # AOTAutograd chooses those of seeds
    assert_like_eager(own.state_dict(), eager.state_dict(), f"{what}: state")


def check_module(name: str, training: bool, most: int | None = None) -> None:
    info = MODULES[name]
    samples = info.module_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=info.supports_gradgrad, training=training
    )
    for sample in [sample for sample in samples if sample.forward_input is not None][:most]:
        built = sample.constructor_input
        torch.manual_seed(0)
        module = info.module_cls(*built.args, **built.kwargs).train(training)
        check_call(module, (sample.forward_input.args, sample.forward_input.kwargs), f"{name} {sample.desc}")


@pytest.fixture(autouse=True)
def defects_are_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", npugraph.NpugraphWarning)
        yield


@pytest.mark.parametrize("name", CHOSEN_BY_DEVICE)
def test_modules_that_depend_on_the_device(name: str) -> None:
    check_module(name, True, most=2)


@pytest.mark.long
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", sorted(MODULES))
def test_all_modules(name: str, training: bool) -> None:
    check_module(name, training)


@pytest.mark.parametrize(
    "name", [name if "Bag" in name else pytest.param(name, marks=pytest.mark.long) for name in OTHERS]
)
def test_other_modules(name: str) -> None:
    made, arguments = OTHERS[name]
    for training in (True, False):
        torch.manual_seed(0)
        module = made if isinstance(made, nn.Module) else made()
        values = tuple(one.requires_grad_(one.is_floating_point()) for one in arguments())
        check_call(module.train(training), (values, {}), f"{name}, training {training}")


def test_every_module_is_called() -> None:
    known = {info.module_cls.__name__ for info in MODULES.values()} | {name.split()[0] for name in OTHERS} | NOT_CALLED
    assert [name for name in nn.modules.__all__ if name not in known and not name.startswith("Lazy")] == []
