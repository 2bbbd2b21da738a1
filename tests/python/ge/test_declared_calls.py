# SPDX-License-Identifier: Apache-2.0
"""Converters in the form of public files, and the calls that they declare as their tests."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import npugraph
import torchair
from npugraph.testing import assert_supported
from tests.python.ge import public_converters
from torchair._ge_concrete_graph import supported_declaration as words
from torchair._ge_concrete_graph.fx2ge_converter import declare_supported, register_fx_node_ge_converter

pick = torch.ops.public_ops.pick.default
library = torch.library.Library("declared_calls", "DEF")


@pytest.fixture(autouse=True)
def fresh(own_converters: None) -> None:
    npugraph.reset()


@pytest.mark.feature("6.31", "10.05")
@torch.no_grad()
def test_a_converter_of_a_public_file_converts(graphs: list[Any]) -> None:
    config = torchair.CompilerConfig()
    config.debug.missing_converters = "error"
    fast = torch.compile(lambda x, i: pick(x, i) + 1, backend=torchair.get_npu_backend(config), fullgraph=True)
    x, places = torch.randn(5, 3), torch.tensor([4, 0])
    torch.testing.assert_close(fast(x, places), pick(x, places) + 1)
    assert "GatherV2" in {op.type for op in graphs[0].graph.op}


@pytest.mark.feature("10.05")
def test_declared_calls_are_kept_and_run() -> None:
    cases = public_converters.convert_pick.supported_cases
    assert [repr(case) for case in cases] == [
        "float32[4, 3], int64[2]",
        "float16[4, 3], int32[5], scale=0.5, kind='columns'",
        "bfloat16[4, 3], int64([3, 0, 3]), kind='rows'",
    ]
    assert assert_supported(pick) == 3


@pytest.mark.feature("10.05")
def test_every_call_that_goes_wrong_is_named() -> None:
    library.define("wrong(Tensor x, float scale) -> Tensor")
    library.impl("wrong", lambda x, scale: x * scale, "CompositeExplicitAutograd")
    wrong = torch.ops.declared_calls.wrong.default

    @register_fx_node_ge_converter(wrong)
    @declare_supported([words.Support(words.F32(2), 1.0), words.Support(words.F32(2), 3.0)])
    def convert(x: Any, scale: float) -> Any:
        if scale > 2:
            raise NotImplementedError("only small ones")
        return torchair.ge.custom_op("Neg", x)

    with pytest.raises(AssertionError) as caught:
        assert_supported()
    text = str(caught.value)
    assert "declared_calls.wrong.default(float32[2], 1.0) with known sizes: AssertionError: Tensor-likes" in text
    assert "declared_calls.wrong.default(float32[2], 3.0) with known sizes: MissingConverters: " in text
    assert "only small ones" in text and "public_ops" not in text
    with pytest.raises(AssertionError, match=r"aten\.sin\.default: no converter of the user is in use"):
        assert_supported(torch.ops.aten.sin.default)


@pytest.mark.feature("10.05")
@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("word", words.WORDS)
def test_each_word_makes_tensors_of_its_type(word: str) -> None:
    tensors, arguments = words.Support([getattr(words, word)(2, 3)], x=getattr(words, word)()).make("cpu")
    assert [tensor.size() for tensor in tensors] == [(2, 3), ()]
    (listed,), named = arguments(*tensors)
    assert listed[0] is tensors[0] and named["x"] is tensors[1]
    assert {tensor.dtype for tensor in tensors} == {words.WORDS[word].keywords["dtype"]}


@pytest.mark.parametrize("word", [words.I32, words.F32, words.F16])
def test_values_are_in_their_range(word: Any) -> None:
    (tensor,), _ = words.Support(word(100, value_range=(3, 5))).make("cpu")
    assert 3 <= tensor.min() < tensor.max() <= 5
