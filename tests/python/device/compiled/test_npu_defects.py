# SPDX-License-Identifier: Apache-2.0
"""Defects of Ascend's own backend, in graphs over npu tensors. Here each feature does what its document promises."""

from __future__ import annotations

import pytest
import torch
import torch_npu
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

import npugraph
import npugraph_ex
from npugraph.options import CompilerConfig


@pytest.fixture(autouse=True)
def fresh():
    npugraph.reset()
    with torch.no_grad():
        yield


def ways_to_compile():
    """Returns arguments of torch.compile for each way to choose the backend."""
    config = CompilerConfig()
    config.verify = True

    def compiler(gm, inputs):
        return make_boxed_func(npugraph_ex.compile_fx(gm, inputs))

    return {
        "name": {"backend": "npugraph_ex"},
        "options": {"backend": "npugraph_ex", "options": {"verify": True}},
        "config": {"backend": npugraph_ex.get_npu_backend(compiler_config=config)},
        "compile_fx": {"backend": aot_autograd(fw_compiler=compiler)},
    }


@pytest.mark.feature("12b.2")
@pytest.mark.parametrize("way", list(ways_to_compile()))
@pytest.mark.parametrize("device", ["npu", "cpu"])
def test_weight_quant_batchmatmul_is_an_operator_as_others(way, device) -> None:
    def fn(x, weight, scale, offset):
        return torch_npu.npu_weight_quant_batchmatmul(x, weight, scale, offset).relu()

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 32, generator=generator).half().to(device)
    weight = torch.randint(-128, 128, (32, 16), generator=generator, dtype=torch.int8).to(device)
    scale, offset = torch.rand(2, 16, generator=generator).half().to(device)
    run = torch.compile(fn, **ways_to_compile()[way])
    for _ in range(2):
        got, want = run(x, weight, scale, offset), fn(x, weight, scale, offset)
        assert (got.dtype, got.device) == (want.dtype, want.device)
        torch.testing.assert_close(got, want, rtol=1e-2, atol=1e-2)
    assert npugraph.artifacts()[-1].counters["replays"] >= 2


def quantise(x1, x2, gamma, scales, dtype):
    y, _, x = torch_npu.npu_add_rms_norm(x1, x2, gamma)
    return torch_npu.npu_quantize(y, scales, None, dtype, -1, True), x


def norm_inputs() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x1, x2 = torch.randn(2, 4, 64, generator=generator).half().npu()
    gamma, scales = torch.rand(2, 64, generator=generator).half().npu() + 0.5
    return [x1, x2, gamma, scales]


def test_halves_go_where_the_pair_puts_them() -> None:
    """Quotients of 16 bits often lie halfway between two integers. An odd zero point decides which of the two is the
    even one."""

    def pair(x1, x2, gamma, scales, zero_points):
        y, _, x = torch_npu.npu_add_rms_norm(x1, x2, gamma)
        return torch_npu.npu_quantize(y, scales, zero_points, torch.int8, -1, True), x

    generator = torch.Generator().manual_seed(0)
    x1, x2, gamma = (torch.randn(16, 512, generator=generator).bfloat16().npu() for _ in range(3))
    scales = (torch.rand(512, generator=generator) * 0.05 + 0.01).bfloat16().npu()
    inputs = x1, x2, gamma[0], scales, torch.ones(512, dtype=torch.int32).npu()
    got = torch.compile(pair, backend="npugraph_ex", dynamic=False)(*inputs)
    assert [made.rule for made in npugraph.artifacts()[-1].replacements]
    assert torch.equal(got[0], pair(*inputs)[0])


@pytest.mark.feature("12b.4")
@pytest.mark.parametrize("dtype", [torch.int8, torch.qint8])
@pytest.mark.parametrize("fuses", [True, False])
def test_the_type_that_was_asked_for_is_that_of_the_fused_result(dtype, fuses) -> None:
    inputs = norm_inputs()
    run = torch.compile(
        lambda *args: quantise(*args, dtype), backend="npugraph_ex", options={"pattern_fusion_pass": fuses}
    )
    (got, _), (want, _) = run(*inputs), quantise(*inputs, dtype)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    assert torch.equal(got.cpu().int(), want.cpu().int())
    names = [made.rule for made in npugraph.artifacts()[-1].replacements]
    assert len(names) == int(fuses)


@pytest.mark.feature("12b.18")
def test_nothing_depends_on_versions_of_the_vendors_software(monkeypatch) -> None:
    """torch_npu reports the versions, but the rules do not ask for them. A pair that is not fused is reported with its
    reason."""
    found = []
    for cann, soc in (("9.9.0", None), ("7.0.RC1", 104), ("8.3.RC1", 220)):
        npugraph.reset()
        if soc is not None:
            monkeypatch.setattr(torch_npu.npu.cann, "_VERSION", cann)
            for module in (torch_npu.npu, torch_npu.npu.cann, torch_npu.npu.utils):
                monkeypatch.setattr(module, "get_soc_version", lambda soc=soc: soc)
            assert torch_npu.npu.utils.get_cann_version() == cann
        torch.compile(lambda *args: quantise(*args, torch.int8), backend="npugraph_ex")(*norm_inputs())
        torch.compile(lambda *args: quantise(*args, torch.qint32), backend="npugraph_ex")(*norm_inputs())
        fused, apart = npugraph.artifacts()
        found.append((fused.graph(), fused.replacements[0].rule, [miss.reason for miss in apart.near_misses]))
        assert found[-1][2] == ["does not hold: the type that is asked for is int8 or qint8: it is 14"]
    assert found[0] == found[1] == found[2]


@pytest.mark.feature("11.05")
def test_the_line_below_an_error_names_the_device() -> None:
    with pytest.raises(IndexError) as caught:
        torch.compile(lambda x, i: x[i] + 1, backend="npugraph_ex")(torch.ones(4).npu(), torch.tensor([9]).npu())
    *_, line = caught.value.__notes__
    assert "Device:0, RankID:-1) ERR03001 GRAPH invalid parameter" in line


def test_the_page_of_a_graph_over_npu_tensors(tmp_path) -> None:
    run = torch.compile(lambda *args: quantise(*args, torch.int8), backend="npugraph_ex")
    for _ in range(2):
        run(*norm_inputs())
    npugraph.artifacts()[-1].report(str(tmp_path / "page.html"))
    text = (tmp_path / "page.html").read_text()
    assert '"rule":"add_rms_norm_quantize' in text
    assert '"added":["npu.npu_add_rms_norm_quant.default"' in text
    assert '"op":"npu.npu_add_rms_norm"' in text
