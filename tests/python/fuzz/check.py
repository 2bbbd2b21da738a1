# SPDX-License-Identifier: Apache-2.0
"""Runs a program compiled and in eager mode and compares everything that a caller can see."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from functorch.compile import nop
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.utils import counters

from npugraph.backend import npugraph_ex
from tests.python.fuzz.memory import storage_key
from tests.python.fuzz.program import Function, Program
from tests.python.fuzz.sized import Sized, trace

Tensors = Sequence[torch.Tensor]

# The largest difference that is allowed if steps round, as a share of the largest magnitude.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 5e-2, torch.float16: 1e-2}


@dataclasses.dataclass(frozen=True)
class Call:
    """One call of the compiled function: its size and the seed of its values. If ``separate``, each argument has memory
    of its own; otherwise they share memory as the program says."""

    n: int
    seed: int
    separate: bool = False


def check_with_dynamo(program: Program, calls: Sequence[Call], dynamic: bool, one_graph: bool = False) -> None:
    """Compares ``torch.compile`` with eager for each call. There may be one compile per graph of Dynamo, no partition
    and no warning. With ``one_graph``, Dynamo must not make a second graph, and no call may run operator by operator
    because of inputs that overlap."""

    def compile_(function: Function, backend: Any) -> Function:
        torch._dynamo.reset()
        counters.clear()
        return torch.compile(function, backend=backend, fullgraph=True, dynamic=dynamic)

    def check_counts() -> None:
        graphs, found = counters["stats"]["unique_graphs"], counters["npugraph_ex"]
        assert found["compiles"] <= graphs, f"{found['compiles']} compiles for {graphs} graphs of Dynamo"
        if one_graph:
            assert graphs <= 1 and not found["overlapping_inputs"], f"{graphs} graphs, counters {dict(found)}"

    roads = (lambda f: compile_(f, "npugraph_ex"), lambda f: compile_(f, _torch_alone), lambda f: compile_(f, "eager"))
    _check(program, calls, *roads, check_counts=check_counts)


def check_without_dynamo(program: Program, calls: Sequence[Call]) -> None:
    """Checks the backend on a graph that torch.fx traced, which is several times faster. Every pass is verified."""

    def compile_(function: Function, backend: Any) -> Function:
        return backend(trace(function), list(_arguments(program, calls[0])))

    verified = {"verify": True}
    _check(program, calls, lambda f: compile_(f, _with_options(verified)), lambda f: compile_(f, _torch_alone))


def check_sized(program: Program, calls: Sequence[Call], gradients: bool = False) -> None:
    """Like ``check_without_dynamo``, for symbolic sizes. With ``gradients``, the gradients of the inputs are compared
    too."""
    verified = _with_options({"verify": True})
    varying = program.varying_dims() if len(program.lines) % 2 else None

    def compile_(backend: Any) -> Callable[[Function], Function]:
        return lambda function: Sized(function, backend, varying)

    _check(program, calls, compile_(verified), compile_(_torch_alone), gradients=gradients)


def _with_options(options: dict[str, Any]) -> Callable[..., Any]:
    return lambda graph, inputs: npugraph_ex(graph, inputs, options=options)


def _run_as_promised(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """Runs a graph with torch's own operators. New tensors get the strides that the fake tensors promise, and start
    where their storage starts. AOTAutograd trusts this promise, and real operators do not always keep it
    (``index_fill`` of a diagonal, ``copy`` of a tensor with an offset).

    No result is a view for autograd, as no result of a compiled program is. With symbolic sizes, AOTAutograd makes a
    returned view again: from the base of the result if there is one, and with ``as_strided`` otherwise. The two give
    gradients with different strides."""
    run = nop(graph, inputs)
    made = [node.meta["val"] if isinstance(node, torch.fx.Node) else node for node in graph.graph.output_node().args[0]]
    taken = [node.meta["val"] for node in graph.graph.find_nodes(op="placeholder")]

    def call(args: list[Any]) -> list[Any]:
        symbols = _symbols(taken, args)
        promised = [_strides_where(symbols, value) if isinstance(value, torch.Tensor) else None for value in made]
        known = [storage_key(t) for t in args if isinstance(t, torch.Tensor)]
        results = [t.detach() if isinstance(t, torch.Tensor) else t for t in run(args)]
        known += [storage_key(t) for t in results if isinstance(t, torch.Tensor)]
        return [
            t if strides is None or known.count(storage_key(t)) > 1 else _laid_out(t, strides)
            for t, strides in zip(results, promised, strict=True)
        ]

    call._boxed_call = True
    return call


def _symbols(taken: Sequence[Any], args: Sequence[Any]) -> dict[Any, int]:
    """Returns the sizes that a call has for the symbols of the fake inputs."""
    found = {}
    for fake, real in zip(taken, args, strict=True):
        sizes = zip(fake.shape, real.shape, strict=True) if isinstance(fake, torch.Tensor) else [(fake, real)]
        found |= {size.node.expr: int(known) for size, known in sizes if isinstance(size, torch.SymInt)}
    return found


def _strides_where(symbols: dict[Any, int], fake: torch.Tensor) -> list[int]:
    return [int(s.node.expr.xreplace(symbols)) if isinstance(s, torch.SymInt) else s for s in fake.stride()]


def _laid_out(t: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    if t.stride() == tuple(strides) and not t.storage_offset():
        return t
    return torch.empty_strided(t.shape, strides, dtype=t.dtype).copy_(t)


# Does what our backend does, with torch's own operators in place of our Programs.
_torch_alone = aot_autograd(fw_compiler=_run_as_promised, keep_inference_input_mutations=True)


class TorchDiffers(Exception):
    """Without our backend, AOTAutograd fails or gives other gradients than eager, or Dynamo alone differs from eager in
    anything. So the program says nothing about the backend."""


class Differs(AssertionError):
    """A call ended, and not as in eager. Without gradients we promise what eager gives, whatever torch does."""


def _check(
    program: Program,
    calls: Sequence[Call],
    compile_: Callable[[Function], Function],
    compile_with_torch_alone: Callable[[Function], Function],
    compile_with_dynamo_alone: Callable[[Function], Function] | None = None,
    check_counts: Callable[[], None] | None = None,
    gradients: bool = False,
) -> None:
    ours = _failure(program, calls, compile_, gradients, check_counts)
    if ours is None:
        return
    theirs = _failure(program, calls, compile_with_torch_alone, gradients)
    if theirs is not None and not gradients and isinstance(ours, Differs):
        theirs = None
    if theirs is None and compile_with_dynamo_alone is not None:
        # Dynamo reads sizes of a tensor that is turned in place, as by squeeze_(), as they were before.
        theirs = _failure(program, calls, compile_with_dynamo_alone, gradients)
    if theirs is not None:
        raise TorchDiffers(f"{type(theirs).__name__}: {theirs}") from ours
    raise AssertionError(f"{program!r}# calls: {calls}\n\n{type(ours).__name__}: {ours}") from ours


def _failure(
    program: Program,
    calls: Sequence[Call],
    compile_: Callable[[Function], Function],
    gradients: bool,
    check_counts: Callable[[], None] | None = None,
) -> Exception | None:
    try:
        _compare_calls(program, calls, compile_, check_counts, gradients)
    except Exception as failure:
        return failure
    return None


def _compare_calls(
    program: Program,
    calls: Sequence[Call],
    compile_: Callable[[Function], Function],
    check_counts: Callable[[], None] | None,
    gradients: bool,
) -> None:
    function = program.function()
    with torch.set_grad_enabled(gradients), warnings.catch_warnings():
        warnings.filterwarnings("error", "npugraph_ex")
        compiled = compile_(program.function())
        for call in calls:
            _compare_call(program, call, function, compiled)
            if check_counts is not None:
                check_counts()


def _compare_call(program: Program, call: Call, function: Function, compiled: Function) -> None:
    expected_args, args = _arguments(program, call), _arguments(program, call)
    expected, found = _run(function, expected_args), _run(compiled, args)
    eager, ours = (expected_args, expected), (args, found)
    try:
        _compare(program, eager, ours)
    except AssertionError as difference:
        try:
            _compare(program, eager, ours, _errors(program, call, function, expected))
        except Exception:
            raise Differs(f"call {call}: {difference}") from None


def _errors(program: Program, call: Call, function: Function, expected: Tensors) -> list[tuple[float, float]]:
    """How far results of eager are from results in float64, and, with gradients, from those of arguments that are moved
    by two roundings. Where terms cancel, this is more than the tolerance. Raises if the program does not run in
    float64."""
    arguments = _arguments(program, call)
    exact = _run(function, [t.double() if t.is_floating_point() else t for t in arguments])
    arguments = _arguments(program, call)
    moved = [t * (1 + 2 * torch.finfo(t.dtype).eps) if t.is_floating_point() else t for t in arguments]
    moved = _run(function, moved) if torch.is_grad_enabled() else expected
    return list(zip(_distances(exact, expected), _distances(moved, expected), strict=True))


def _distances(some: Tensors, others: Tensors) -> list[float]:
    """The largest finite distance of elements for each pair of tensors."""
    distances = [(a.double() - b.double()).abs() for a, b in zip(some, others, strict=True)]
    return [d[d.isfinite()].max().item() if d.isfinite().any() else 0.0 for d in distances]


def _compare(
    program: Program,
    eager: tuple[Tensors, Tensors],
    ours: tuple[Tensors, Tensors],
    errors: Sequence[tuple[float, float]] = (),
) -> None:
    """Compares the arguments and the results of two calls. ``errors`` are those of the results of eager."""
    (expected_args, expected), (args, found) = eager, ours
    assert len(found) == len(expected)
    for index, (a, b) in enumerate(zip(expected, found, strict=True)):
        assert (b.dtype, b.shape) == (a.dtype, a.shape), f"type of output {index}: {_type(b)}, eager {_type(a)}"
        assert _strides(b) == _strides(a), f"strides of output {index}: {_type(b)}, eager {_type(a)}"
        error = errors[index] if errors else (0.0, 0.0)
        _compare_values(a, b, program.rounding, f"output {index}", error)
    for index, (a, b) in enumerate(zip(expected_args, args, strict=True)):
        memory = f"memory of argument {index} after the call"
        _compare_values(_whole_storage(a), _whole_storage(b), program.rounding, memory)
    _compare_aliases([*expected_args, *expected], [*args, *found])


def _run(function: Function, arguments: Tensors) -> Tensors:
    """Returns the results of a call and, with gradients on, the gradients of its arguments."""
    if not torch.is_grad_enabled():
        return function(*arguments)
    trained = [t.requires_grad_() for t in arguments if t.is_floating_point()]
    results = function(*arguments)
    losses = [(t * _weights(t)).sum() for t in results if t.requires_grad]
    gradients = torch.autograd.grad(sum(losses), trained, materialize_grads=True) if losses else []
    return [t.detach() for t in (*results, *gradients)]


def _weights(t: torch.Tensor) -> torch.Tensor:
    return (torch.arange(t.numel()) % 5 - 1.5).reshape(t.shape).to(t.dtype)


def _arguments(program: Program, call: Call) -> Tensors:
    arguments = program.arguments(call.n, call.seed)
    return [copy.deepcopy(t) for t in arguments] if call.separate else arguments


def _type(t: torch.Tensor) -> str:
    return f"{t.dtype}{list(t.shape)}{t.stride()}"


def _strides(t: torch.Tensor) -> list[int]:
    """Returns the strides of the dimensions in which they matter. In dimensions of size 0 and 1, torch's fake tensors,
    which decide, have other strides than real tensors."""
    return [stride for size, stride in zip(t.shape, t.stride(), strict=True) if size > 1 and t.numel()]


def _whole_storage(t: torch.Tensor) -> torch.Tensor:
    storage = t.untyped_storage()
    return torch.empty(0, dtype=t.dtype).set_(storage, 0, (storage.nbytes() // t.element_size(),), (1,))


def _compare_values(
    expected: torch.Tensor,
    found: torch.Tensor,
    rounding: torch.dtype | None,
    where: str,
    errors: tuple[float, float] = (0.0, 0.0),
) -> None:
    """Compares bits if ``rounding`` is None. Otherwise values may differ by the tolerance and three times the error in
    float64, so that ours may be off by twice as much as those of eager. An error counts up to 30 tolerances, or as far
    as moved arguments move results: with a larger one, the program took another way in float64."""
    if rounding is None or expected.dtype not in TOLERANCE:
        equal = torch.equal(expected, found) or torch.equal(_with_nan_marked(expected), _with_nan_marked(found))
    else:
        a, b = expected.double(), found.double()
        largest = max([1.0, *a[a.isfinite()].abs().tolist()])
        share = max(TOLERANCE[expected.dtype], TOLERANCE[rounding])
        tolerance = share * largest
        error, moved = errors
        slack = 3 * error if error <= max(30 * tolerance, 3 * moved) else 0.0
        equal = torch.allclose(a, b, rtol=0, atol=tolerance + slack, equal_nan=True)
    assert equal, f"{where}: {found}\neager: {expected}"


def _with_nan_marked(t: torch.Tensor) -> torch.Tensor:
    """Returns a tensor with the places of NaN, and with the other values."""
    return torch.stack([t.isnan().to(t.dtype), t.masked_fill(t.isnan(), 0)])


def _compare_aliases(expected: Tensors, found: Tensors) -> None:
    """Checks that arguments and outputs share memory with each other as in eager mode, at the same distances."""
    assert _shared(found) == _shared(expected), f"who shares memory: {_shared(found)}, eager: {_shared(expected)}"


def _shared(tensors: Tensors) -> list[tuple[int, int] | None]:
    """Returns for each tensor the number of the first tensor with its storage, and the distance from that one's start.
    A tensor without elements has None."""
    firsts: dict[int, int] = {}
    found: list[tuple[int, int] | None] = []
    for number, t in enumerate(tensors):
        if t.numel() == 0:
            found.append(None)
            continue
        first = firsts.setdefault(storage_key(t), number)
        found.append((first, t.storage_offset() - tensors[first].storage_offset()))
    return found
