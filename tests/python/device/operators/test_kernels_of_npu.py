# SPDX-License-Identifier: Apache-2.0
"""Calls of ATen operators that npu takes and cpu refuses: products of several floating-point types, histograms of
integers, gradients of ``matmul``, fused cells; in eager mode, on fake tensors, in compiled and in captured graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as f

import npugraph
from npugraph import npu_kernels
from tests.python.device.npu_operators import check_fake, integers, normal

aten = torch.ops.aten

PRODUCTS: dict[str, tuple[Callable[..., torch.Tensor], tuple[tuple[int, ...], ...]]] = {
    "mm": (lambda a, b: a @ b, ((3, 4), (4, 5))),
    "folded": (lambda a, b: a @ b, ((2, 3, 4), (4, 5))),
    "bmm": (lambda a, b: a @ b, ((2, 3, 4), (2, 4, 5))),
    "mv": (lambda a, b: a @ b, ((3, 4), (4,))),
    "vm": (lambda a, b: a @ b, ((4,), (4, 5))),
    "dot": (lambda a, b: a @ b, ((4,), (4,))),
    "linear": (f.linear, ((2, 3, 4), (5, 4), (5,))),
    "linear without bias": (f.linear, ((3, 4), (5, 4))),
    "addmm": (lambda a, b, c: torch.addmm(c, a, b, beta=2, alpha=0.5), ((3, 4), (4, 5), (5,))),
    "baddbmm": (lambda a, b, c: torch.baddbmm(c, a, b), ((2, 3, 4), (2, 4, 5), (2, 3, 5))),
    "einsum": (lambda a, b: torch.einsum("bij,bjk->bik", a, b), ((2, 3, 4), (2, 4, 5))),
}


def operands(name: str, *types: torch.dtype) -> list[torch.Tensor]:
    sizes = PRODUCTS[name][1]
    return [normal(*size, dtype=types[i % len(types)], seed=i).npu() for i, size in enumerate(sizes)]


def compiled(fn: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(fn, backend="npugraph_ex", fullgraph=True, **options)


def check_everywhere(fn: Callable[..., Any], args: list[torch.Tensor], want: torch.Tensor) -> None:
    """Checks ``fn`` in eager mode, compiled, and on fake tensors. ``want`` has the dtype of the result."""
    for run in (fn, compiled(fn), compiled(fn, dynamic=True)):
        for gradients_off in (torch.no_grad, torch.inference_mode):
            with gradients_off():
                got = run(*args)
            assert got.dtype == want.dtype and got.device.type == "npu"
            torch.testing.assert_close(got.cpu(), want.cpu())
    check_fake(fn, args, {}, want.npu(), dynamic=False)


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_several_types_are_in_their_common_type(name: str) -> None:
    fn = PRODUCTS[name][0]
    for types in ((torch.float16, torch.float32), (torch.float32, torch.bfloat16), (torch.bfloat16, torch.float16)):
        args = operands(name, *types)
        check_everywhere(fn, args, fn(*(x.cpu().float() for x in args)))


def test_gradients_of_such_products_have_the_types_of_their_operands() -> None:
    for name in ("mm", "bmm", "linear"):
        fn = PRODUCTS[name][0]
        exact = [x.cpu().double().requires_grad_() for x in operands(name, torch.float16, torch.float32)]
        fn(*exact).square().sum().backward()
        for run in (fn, compiled(fn)):
            leaves = [x.requires_grad_() for x in operands(name, torch.float16, torch.float32)]
            run(*leaves).square().sum().backward()
            for leaf, want in zip(leaves, exact, strict=True):
                assert leaf.grad.dtype == leaf.dtype
                torch.testing.assert_close(leaf.grad.cpu().double(), want.grad, rtol=2e-3, atol=2e-3)


def test_products_of_several_types_into_results_and_in_captures() -> None:
    a, b = operands("mm", torch.float16, torch.float32)
    out = torch.zeros(3, 5).npu()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        torch.mm(a, b, out=out)
    a.mul_(2)
    graph.replay()
    torch.testing.assert_close(out.cpu(), a.cpu().float() @ b.cpu())


def test_integers_do_not_mix_with_floats() -> None:
    with pytest.raises(RuntimeError, match="same dtype"):
        torch.ones(2, 2, dtype=torch.int32).npu() @ torch.ones(2, 2).npu()


def counted(x: torch.Tensor, bins: int, low: int, high: int) -> torch.Tensor:
    """Counts by the definition, one value after the other."""
    values = x.flatten().tolist()
    if low == high and values:
        low, high = min(values), max(values)
        low, high = low - (low == high), high + (low == high)
    out = [0] * bins
    for value in values:
        if low <= value <= high:
            out[min((value - low) * bins // (high - low), bins - 1)] += 1
    return torch.tensor(out, dtype=x.dtype)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("limits", [(8, 0, 7), (5, 2, 9), (3, 0, 0), (4, 6, 6)])
def test_histograms_of_integers(dtype: torch.dtype, limits: tuple[int, int, int]) -> None:
    for x in (integers(0, 12, 5, 7, dtype=dtype), torch.full((3,), 4, dtype=dtype), torch.empty(0, dtype=dtype)):
        want = counted(x, *limits)
        assert torch.equal(torch.histc(x.npu(), *limits).cpu(), want)
    x = integers(0, 12, 5, 7, dtype=dtype)
    check_everywhere(lambda x: torch.histc(x, *limits), [x.npu()], counted(x, *limits))


def test_histograms_into_results() -> None:
    x, out = integers(0, 8, 20, dtype=torch.int32), torch.zeros(0, dtype=torch.int32).npu()
    assert torch.histc(x.npu(), 8, 0, 7, out=out) is out
    assert torch.equal(out.cpu(), counted(x, 8, 0, 7))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_histograms_of_few_bits_find_bins_as_cpu_does(dtype: torch.dtype) -> None:
    x = normal(1000, dtype=dtype)
    check_everywhere(lambda x: torch.histc(x, 100, -2, 2), [x.npu()], torch.histc(x, 100, -2, 2))


def test_histograms_that_are_refused() -> None:
    x = torch.ones(3, dtype=torch.int32).npu()
    with pytest.raises(RuntimeError, match="histc: bins is 0, and must be positive"):
        torch.histc(x, 0)
    with pytest.raises(RuntimeError, match="histc: max is 1, and must not be less than min, which is 2"):
        torch.histc(x, 4, 2, 1)


def test_tokens_of_each_expert_as_mixtral_counts_them() -> None:
    """transformers passes integers to histc on accelerators, and floats on cpu."""
    experts = integers(0, 8, 6, 2)

    def counts(experts: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(torch.histc(experts.flatten().int(), bins=8, min=0, max=7), 0, dtype=torch.int32)

    want = experts.flatten().bincount(minlength=8).cumsum(0).int()
    check_everywhere(counts, [experts.npu()], want)


@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 4), (4, 5)), ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (5, 4, 6)),
     ((4,), (2, 4, 5)), ((2, 3, 4), (4,))],
)  # fmt: skip
def test_gradients_of_matmul(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = normal(*left), normal(*right, seed=1)
    leaves = [x.double().requires_grad_() for x in (a, b)]
    y = torch.matmul(*leaves)
    grad = normal(*y.shape, seed=2)
    y.backward(grad)
    args = [x.npu() for x in (grad, a, b)]

    def both(grad: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> Any:
        return aten.matmul_backward(grad, a, b, [True, True])

    for run in (both, compiled(both), compiled(both, dynamic=True)):
        with torch.no_grad():
            for got, leaf in zip(run(*args), leaves, strict=True):
                torch.testing.assert_close(got.cpu().double(), leaf.grad, rtol=1e-5, atol=1e-5)
    check_fake(both, args, {}, both(*args), dynamic=False)
    for i in (0, 1):
        got = aten.matmul_backward(*args, [i == 0, i == 1])
        assert got[1 - i] is None
        torch.testing.assert_close(got[i].cpu().double(), leaves[i].grad, rtol=1e-5, atol=1e-5)


def test_all_operators_that_only_accelerators_dispatch_are_known() -> None:
    """Compiled code calls kernels of cpu, so that graphs hold the operators that such kernels of npu call. Those
    that are left write tensors."""

    def has(name: str, key: str) -> bool:
        return torch._C._dispatch_has_kernel_for_dispatch_key(name, key)

    # A kernel of cpu may be a composite one.
    of_cpu = (
        "CPU",
        "CompositeExplicitAutograd",
        "CompositeExplicitAutogradNonFunctional",
        "CompositeImplicitAutograd",
    )
    found = {
        name
        for name in torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1")
        if name.startswith("aten::") and not any(has(name, key) for key in of_cpu)
    }
    writing = {"aten::record_stream", "aten::_copy_from", "aten::_copy_from_and_resize"}
    writing.add("aten::batch_norm_gather_stats_with_counts")
    assert found - {op.name() for op in npu_kernels.OPERATORS} == writing


def cells(with_bias: bool) -> dict[str, tuple[Callable[..., Any], list[torch.Tensor]]]:
    """Calls of each operator of fused cells of recurrent networks."""
    rows, hidden = 3, 5
    bias = [normal(4 * hidden, seed=3), normal(4 * hidden, seed=4)] if with_bias else []
    gates = [normal(rows, 4 * hidden, seed=seed) for seed in (0, 1)]
    state, grads = normal(rows, hidden, seed=2), [normal(rows, hidden, seed=seed) for seed in (5, 6)]
    thirds = [gate[:, : 3 * hidden] for gate in gates], [one[: 3 * hidden] for one in bias]
    _, cy, workspace = (one.cpu() for one in aten._thnn_fused_lstm_cell(*(x.npu() for x in (*gates, state, *bias))))
    _, of_gru = (one.cpu() for one in aten._thnn_fused_gru_cell(*(x.npu() for x in (*thirds[0], state, *thirds[1]))))
    return {
        "lstm": (aten._thnn_fused_lstm_cell.default, [*gates, state, *bias]),
        "gru": (aten._thnn_fused_gru_cell.default, [*thirds[0], state, *thirds[1]]),
        "lstm backward": (
            lambda *tensors: aten._thnn_fused_lstm_cell_backward_impl(*tensors, with_bias),
            [*grads, state, cy, workspace],
        ),
        "gru backward": (
            lambda *tensors: aten._thnn_fused_gru_cell_backward(*tensors, with_bias),
            [grads[0], of_gru],
        ),
    }


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("name", ["lstm", "gru", "lstm backward", "gru backward"])
def test_cells_of_recurrent_networks(name: str, with_bias: bool) -> None:
    fn, tensors = cells(with_bias)[name]
    args = [x.npu() for x in tensors]
    with torch.no_grad():
        want = fn(*args)
        for run in (compiled(fn), compiled(fn, dynamic=True)):
            torch.testing.assert_close(run(*args), want)
            assert not [task for task in npugraph.artifacts()[-1].tasks if "thnn" in task.name]
    check_fake(fn, args, {}, want, dynamic=False)


def test_parts_of_synced_batch_norms() -> None:
    def both(x: torch.Tensor, dy: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> Any:
        mean, invstd = torch.batch_norm_stats(x, 1e-5)
        counts = torch.full((2,), x.numel() // x.shape[1], device="npu", dtype=torch.float32)
        means, invstds = torch.batch_norm_gather_stats_with_counts(
            x, torch.stack([mean, mean + 1]), torch.stack([invstd, invstd]), None, None, 0.1, 1e-5, counts
        )
        y = torch.batch_norm_elemt(x, weight, bias, means, invstds, 1e-5)
        sums = torch.batch_norm_backward_reduce(dy, x, means, invstds, weight, True, True, True)
        dx = torch.batch_norm_backward_elemt(dy, x, means, invstds, weight, *sums[:2], counts.int())
        return [y, dx, *sums]

    args = [x.npu() for x in (normal(2, 3, 4, 5), normal(2, 3, 4, 5, seed=1), normal(3), normal(3, seed=1))]
    with torch.no_grad():
        torch.testing.assert_close(compiled(both)(*args), both(*args), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dynamic", [False, True])
def test_gathered_statistics_of_synced_batch_norms(dynamic: bool) -> None:
    def gathered(x: torch.Tensor, means: torch.Tensor, invstds: torch.Tensor, counts: torch.Tensor) -> Any:
        running = torch.zeros_like(means[0]), torch.ones_like(means[0])
        gather = torch.batch_norm_gather_stats_with_counts
        return *gather(x, means, invstds, *running, 0.1, 1e-5, counts), *running

    run = compiled(gathered, dynamic=dynamic)
    for ranks, channels in ((2, 3), (3, 5)):
        args = [normal(2, channels, 4), normal(ranks, channels), normal(ranks, channels).abs() + 1, torch.ones(ranks)]
        args = [x.npu() for x in args]
        torch.testing.assert_close(run(*args), gathered(*args))


@pytest.mark.parametrize("kind", [torch.nn.LSTMCell, torch.nn.GRUCell])
@pytest.mark.parametrize("dynamic", [False, True])
def test_cells_as_modules(kind: type[torch.nn.Module], dynamic: bool) -> None:
    cell, x = kind(6, 5).npu(), normal(3, 6).npu()
    results = []
    for run in (cell, compiled(cell, dynamic=dynamic)):
        own = x.clone().requires_grad_()
        state = run(own)
        state = run(own, state)
        loss = sum(one.square().sum() for one in (state if isinstance(state, tuple) else (state,)))
        results.append([loss, *torch.autograd.grad(loss, [own, *cell.parameters()])])
    torch.testing.assert_close(*results)
