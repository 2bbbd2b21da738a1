# SPDX-License-Identifier: Apache-2.0
"""Functions with operators that have no converter: these run eagerly between graphs of GE, as few as possible."""

from __future__ import annotations

import gc
import re
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from npugraph.ge import apis as ge
from npugraph.ge.backend import target
from npugraph.ge.backend.npu_backend import get_npu_backend
from npugraph.ge.config import CompilerConfig
from npugraph.ge.converters import MissingConverters, register_fx_node_ge_converter, registry
from tests.python.ge.converted import random_tensor as t
from tests.python.ge.cut_runs import Run

pytestmark = pytest.mark.usefixtures("order_is_missing")


def sorted_(x: torch.Tensor) -> torch.Tensor:
    return torch.sort(x, -1)[0]


def cummax(x: torch.Tensor) -> torch.Tensor:
    return torch.cummax(x, 0)[0]


PARTS = {
    "at the start": (lambda x, y: sorted_(x) * 2 + y, 1, 1),
    "at the end": (lambda x, y: sorted_(x * 2 + y), 1, 1),
    "in the middle": (lambda x, y: sorted_(x * 2 + y) - 1, 2, 1),
    "alone": (lambda x, y: (sorted_(x), cummax(y)), 0, 1),
    "beside the rest": (lambda x, y: (torch.relu(x) * y, sorted_(y)), 1, 1),
    "two behind each other": (lambda x, y: cummax(sorted_(x + y)) * 2, 2, 1),
    "two with others between": (lambda x, y: cummax(sorted_(x + y) * 2) - y, 3, 2),
    "two in branches": (lambda x, y: sorted_(x + 1) * cummax(y * 2), 2, 1),
    "two in branches of different length": (lambda x, y: (sorted_(x) + 1) * cummax(sorted_(y * 2) + x), 3, 2),
    "three in a row": (lambda x, y: torch.digamma(cummax(sorted_(x * y) + 1) + 2) + 3, 4, 3),
    "three kinds at once": (lambda x, y: sorted_(x) + cummax(x) + torch.digamma(y), 1, 1),
    "one whose result is read much later": (lambda x, y: cummax(sorted_(x + 1) * 2) + digamma_first(y), 3, 2),
}


def digamma_first(y: torch.Tensor) -> torch.Tensor:
    return torch.digamma(y) * 2


@pytest.mark.parametrize("case", PARTS)
@torch.no_grad()
def test_there_are_as_few_parts_as_possible(case: str, caplog: pytest.LogCaptureFixture) -> None:
    function, num_graphs, num_eager_parts = PARTS[case]
    run = Run(function, caplog)
    for _ in range(2):
        run.check(t(4, 6), t(4, 6) + 0.5)
    assert (run.num_graphs, run.num_eager_parts) == (num_graphs, num_eager_parts)


@torch.no_grad()
def test_one_warning_names_all_operators_with_their_lines(caplog: pytest.LogCaptureFixture) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = torch.sort(x + 1)[0]
        z = torch.digamma(y) * 2
        return torch.sort(z)[0] - 1

    first = function.__code__.co_firstlineno
    run = Run(function, caplog)
    for _ in range(2):
        run.check(t(3, 4))
    (warning,) = run.warnings
    lines = warning.splitlines()
    assert re.fullmatch(r"2 operators of graph 'graph_\d+' cannot be converted to Ascend IR:", lines[0])
    refusal = r"  torch\.ops\.aten\.{} ge_converter is not implemented! At {}"
    place = r".*test_missing\.py:{} in function"
    places = ", ".join(place.format(first + line) for line in (1, 3))
    assert re.fullmatch(refusal.format(r"sort\.default", places), lines[1])
    assert re.fullmatch(refusal.format(r"digamma\.default", place.format(first + 2)), lines[2])
    assert lines[3].startswith("They run eagerly, in 2 parts of the graph. Graphs of GE for the rest: graph_")
    assert "option debug.missing_converters='error' of torchair.CompilerConfig" in lines[3]


@torch.no_grad()
def test_an_option_makes_them_an_error() -> None:
    def function(x: torch.Tensor) -> Any:
        return torch.sort(x + 1)[0], torch.digamma(x), torch.cummax(x, 0)[0]

    config = CompilerConfig()
    config.debug.missing_converters = "error"
    torch._dynamo.reset()
    fast = torch.compile(function, backend=get_npu_backend(compiler_config=config))
    with pytest.raises(NotImplementedError, match=r"^3 operators of graph 'graph_\d+' cannot be converted") as caught:
        fast(t(3, 4))
    assert isinstance(caught.value, MissingConverters)
    assert any(note.startswith("[ERROR] ") for note in caught.value.__notes__)
    place = f"{__file__}:{function.__code__.co_firstlineno + 1} in function"
    for name in ("sort", "digamma", "cummax"):
        assert f"torch.ops.aten.{name}.default ge_converter is not implemented! At {place}" in str(caught.value)


# Sizes


@torch.no_grad()
def test_one_compile_serves_all_sizes(caplog: pytest.LogCaptureFixture) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        both = torch.cat([x, y]) * 2
        ordered = torch.sort(both, 0)[0]
        flat = ordered.view(x.shape[0] * 2 * x.shape[1])
        return flat + 1, ordered * y.shape[0], x.shape[0] + 1

    run = Run(function, caplog, dynamic=True)
    for rows, columns in ((3, 4), (5, 2), (9, 6)):
        run.check(t(rows, columns), t(rows, columns) - 1)
    assert (run.num_graphs, run.num_eager_parts) == (2, 1)


@torch.no_grad()
def test_sizes_that_follow_from_sizes_cross_parts(caplog: pytest.LogCaptureFixture) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        longer = torch.sort(torch.cat([x, x[:1]]) * 2, 0)[0]
        return torch.relu(longer) + torch.cummax(longer * 2, 0)[0]

    run = Run(function, caplog, dynamic=True)
    for rows in (3, 5, 9):
        run.check(t(rows, 4))
    assert run.num_graphs == 3


@torch.no_grad()
@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_sizes_that_an_eager_operator_finds(caplog: pytest.LogCaptureFixture) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        places = torch.nonzero(torch.relu(x))
        return places * 2 + 1

    run = Run(function, caplog)
    for offset in (0.0, 0.5, -0.5):
        run.check(t(4, 6) + offset)
    assert run.num_graphs == 2


# Memory


@torch.no_grad()
def test_inputs_are_written_behind_their_readers(caplog: pytest.LogCaptureFixture) -> None:
    def step(cache: torch.Tensor, total: torch.Tensor, x: torch.Tensor) -> Any:
        before = torch.sort(cache)[0]
        cache.add_(x)
        total.mul_(2)
        after = torch.sort(cache + 1)[0] + before
        total.add_(after)
        return after * 2, cache * total

    run = Run(step, caplog)
    run.check(t(4, 6), t(4, 6) + 1, t(4, 6) - 1)
    assert run.num_graphs == 2


@torch.no_grad()
def test_values_that_eager_operators_compute_are_written(caplog: pytest.LogCaptureFixture) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        y.copy_(torch.sort(x * 2)[0])
        return y + x

    Run(function, caplog).check(t(4, 6), t(4, 6) + 1)


@torch.no_grad()
def test_inputs_of_which_eager_operators_make_views_are_written(caplog: pytest.LogCaptureFixture) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        doubled = x.unfold(0, 2, 2) * 2
        x.add_(1)
        return doubled

    run = Run(function, caplog)
    run.check(t(4, 6))
    assert run.num_graphs == 1


@torch.no_grad()
def test_views_share_the_memory_of_what_they_view(caplog: pytest.LogCaptureFixture) -> None:
    def function(x: torch.Tensor) -> Any:
        y = x * 2
        return y, y.t(), torch.sort(y[1:, ::2].t())[0], y[0].expand(2, 6)

    whole, turned, _, row = Run(function, caplog).check(t(4, 6))
    assert whole.data_ptr() == turned.data_ptr() == row.data_ptr()


@torch.no_grad()
def test_results_of_operators_with_several(caplog: pytest.LogCaptureFixture) -> None:
    def function(x: torch.Tensor) -> Any:
        values, indices = torch.sort(x + 1, -1)
        first, *_, last = values.split(2, -1)
        top, places = torch.topk(first * last, 1)
        return torch.gather(x * 2, -1, indices) + top, places

    Run(function, caplog).check(t(4, 6))


@torch.no_grad()
def test_no_call_keeps_its_inputs_or_results(caplog: pytest.LogCaptureFixture) -> None:
    run = Run(PARTS["two with others between"][0], caplog)
    run.check(t(4, 6), t(4, 6))
    x, y = t(4, 6), t(4, 6)
    result = run.fast(x, y)
    references = [weakref.ref(tensor) for tensor in (x, y, result)]
    del x, y, result
    assert [reference() for reference in references] == [None] * 3


@torch.no_grad()
def test_graphs_of_torch_are_needed_no_more_when_they_are_converted(converted: list[weakref.ref[Any]]) -> None:
    """Although the function lives."""
    torch._dynamo.reset()
    fast = torch.compile(lambda x: (torch.sort(x * 2)[0].t() + 1).t(), backend=get_npu_backend())
    fast(t(4, 6))
    gc.collect()
    assert [graph() for graph in converted] == [None]


# Effects


@torch.no_grad()
def test_random_operators_keep_their_order(caplog: pytest.LogCaptureFixture) -> None:
    def function(x: torch.Tensor) -> Any:
        late = torch.sort(x + 1)[0] * 2
        first = torch.rand_like(late)
        second = torch.rand_like(x)
        return first, second * late + torch.bernoulli(x.sigmoid())

    Run(function, caplog).check(t(4, 6))


@torch.no_grad()
def test_operators_that_write_in_place(caplog: pytest.LogCaptureFixture, library: torch.library.Library) -> None:
    library.define("double_(Tensor(a!) self) -> ()")
    library.impl("double_", lambda self: [self.mul_(2)].clear(), "CompositeExplicitAutograd")

    def function(x: torch.Tensor) -> Any:
        y = x + 1
        z = y[1:]
        before = z * 3
        torch.ops.ge_missing.double_(y)
        return before, z * 5, y

    run = Run(function, caplog)
    run.check(t(4, 6))
    assert (run.num_graphs, run.num_eager_parts) == (2, 1)
    (warning,) = run.warnings
    assert "torch.ops.ge_missing.double_.default ge_converter is not implemented! (Ascend IR has no" in warning


@pytest.fixture
def library() -> Iterator[torch.library.Library]:
    with torch.library._scoped_library("ge_missing", "DEF") as made:
        yield made


@torch.no_grad()
def test_control_flow_runs_eagerly(caplog: pytest.LogCaptureFixture) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x * 2,)) + 1

    run = Run(function, caplog)
    for sign in (1, -1):
        run.check(t(4, 6).abs() * sign)
    assert run.num_graphs == 2


@torch.no_grad()
def test_autocast_of_the_caller_does_not_reach_operators(caplog: pytest.LogCaptureFixture) -> None:
    def function(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", enabled=False):
            y = torch.addbmm(x, a, b)
        return y * 2

    run = Run(function, caplog)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        run.check(t(4, 5), t(3, 4, 6), t(3, 6, 5))
    assert run.num_eager_parts == 1


# What else is missing


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@torch.no_grad()
def test_quantised_tensors_stay_outside(caplog: pytest.LogCaptureFixture) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.quantize_per_tensor(x * 2, 0.125, 0, torch.qint8)).dequantize() + 1

    run = Run(function, caplog)
    run.check(t(4, 6))
    (warning,) = run.warnings
    assert "torch.ops.aten.relu.default ge_converter is not implemented! (GE has no quantized tensors)" in warning
    assert run.num_graphs == 2


@torch.no_grad()
def test_parts_get_the_strides_of_eager_mode(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of indexing depend on the indices, which torch's fake tensors do not know."""
    monkeypatch.delitem(registry._converters, "aten.index.Tensor")
    run = Run(lambda x, places: x.permute(0, 2, 3, 1)[:, places] * 2, caplog)
    run.check(t(2, 3, 4, 5), torch.tensor([[0, 1], [2, 3]]).t())
    assert run.num_graphs == 1


@torch.no_grad()
def test_operators_of_ir_that_the_engine_does_not_compute(
    caplog: pytest.LogCaptureFixture, own_converters: None
) -> None:
    @register_fx_node_ge_converter(torch.ops.aten.special_i0e.default)
    def convert(self: Any, *, meta_outputs: Any) -> Any:
        return ge.BesselI0e(self)

    run = Run(lambda x: torch.special.i0e(x * 0.25) * 3, caplog)
    run.check(t(4, 6))
    (warning,) = run.warnings
    assert "the engine does not compute operators of type BesselI0e" in warning
    assert run.num_graphs == 2


# Gradients and models


def test_gradients_of_operators_without_converters_are_those_of_eager(caplog: pytest.LogCaptureFixture) -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (torch.lgamma(torch.relu(x * w) + 1) * x + torch.digamma(w + 3)).sum()

    run = Run(function, caplog)
    gradients = []
    for call in (function, run.fast):
        x, w = t(4, 6).requires_grad_(), (t(4, 6) + 0.25).requires_grad_()
        call(x, w).backward()
        gradients.append((x.grad, w.grad))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs)
    assert len(run.warnings) >= 1


class Ranking(torch.nn.Module):
    """Scores of documents, the best of which are mixed again."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(32, 16)
        self.norm = torch.nn.LayerNorm(16)
        self.score = torch.nn.Linear(16, 8)
        self.dropout = torch.nn.Dropout(0.25)
        self.mix = torch.nn.Linear(4, 8)
        self.register_buffer("seen", torch.zeros(8))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        scores = self.score(torch.nn.functional.gelu(self.norm(self.embed(tokens))))
        best, places = torch.topk(self.dropout(scores), 4, -1)
        self.seen += torch.nn.functional.one_hot(places, 8).sum((0, 1, 2))
        return self.mix(torch.softmax(best, -1)) + self.seen


@pytest.mark.parametrize("training", [False, True])
def test_a_model_with_dynamic_sizes(training: bool, caplog: pytest.LogCaptureFixture) -> None:
    torch.manual_seed(0)
    models = [Ranking().train(training) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    run = Run(models[0], caplog, dynamic=True)
    for rows, length in ((2, 5), (3, 7), (4, 4)):
        tokens = torch.randint(0, 32, (rows, length), generator=torch.Generator().manual_seed(rows))
        results = []
        for call in (run.fast, models[1]):
            torch.manual_seed(rows)
            with torch.set_grad_enabled(training):
                results.append(call(tokens))
            if training:
                results[-1].sum().backward()
        torch.testing.assert_close(*results)
        torch.testing.assert_close(models[0].seen, models[1].seen)
        for ours, theirs in zip(models[0].parameters(), models[1].parameters(), strict=True):
            torch.testing.assert_close(ours.grad, theirs.grad)
    assert len(run.warnings) == (2 if training else 1)  # one of each graph


@torch.no_grad()
def test_no_part_runs_before_all_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph that does not compile leaves the inputs as they are, although another one would have written them."""
    graphs = []

    class Noted(target.GeConcreteGraph):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            graphs.append(self.graph)

    monkeypatch.setattr(target, "GeConcreteGraph", Noted)
    backend = get_npu_backend()

    def spoilt(gm: Any, inputs: Any) -> Any:
        run = backend(gm, inputs)
        (data,) = [op for op in graphs[1].op if op.type == "Data"]
        data.attr["index"].i = 7
        return run

    torch._dynamo.reset()
    x = torch.ones(4)
    with pytest.raises(ValueError, match="its index is 7"):
        torch.compile(lambda x: torch.cummax(x.add_(1), 0)[0] * 2, backend=spoilt)(x)
    assert x.tolist() == [1.0] * 4
    assert len(graphs) == 2
