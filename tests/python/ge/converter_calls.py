# SPDX-License-Identifier: Apache-2.0
"""Calls of the operators that have converters, and what becomes of one call: the operators of Ascend IR, who computes
them, and the results. Calls of ATen are those that samples of PyTorch's operator database make, with their gradients,
and those of ``operator_calls``."""

from __future__ import annotations

import itertools
import logging
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from npugraph.fx.corrections import correct_values
from npugraph.ge.converters import registry
from npugraph.ge.converters.user_operators import OPERATOR
from npugraph.ge.fx.graph import Built
from npugraph.ge.fx.operator_parts import PARTS
from tests.python.ge.converted import built, random_tensor, run
from tests.python.op_samples import OPERATORS, UNCOMPARED, samples

aten = torch.ops.aten
# Results with values that are not the same at each call, or of which several are right.
ARBITRARY = {
    *(("aten.empty.memory_format", 0), ("aten.empty_like.default", 0), ("aten.new_empty.default", 0)),
    *(("aten.new_empty_strided.default", 0), ("aten.sort.default", 1), ("aten.topk.default", 1)),
}
_OF_GRAPHS = {"Data", "RefData", "NetOutput"}
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool)

# Results that converters leave out, which graphs for inference do not use.
UNCOMPUTED = {"aten._native_batch_norm_legit_no_training.default": (1, 2)}

# Calls of which torch cannot trace the parts for symbols.
FIXED_SIZES = {f"aten._foreach_{name}.{kind}" for name in ("maximum", "minimum") for kind in ("Scalar", "ScalarList")}
FIXED_SIZES |= {"aten.linalg_solve_triangular.default"}


class Call(NamedTuple):
    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def tensors(self) -> list[torch.Tensor]:
        leaves = pytree.tree_leaves((self.args, self.kwargs))
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


class Recorder(TorchDispatchMode):
    """Collects the calls of overloads that ``wanted`` names, with copies of their tensors."""

    def __init__(self, wanted: set[str]) -> None:
        super().__init__()
        self.wanted = wanted
        self.calls: list[Call] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        if str(func) in self.wanted and all(x.layout is torch.strided and not x.is_complex() for x in tensors):
            self.calls.append(Call(func, *pytree.tree_map_only(torch.Tensor, _copied, (args, kwargs))))
        return func(*args, **kwargs)


def _copied(x: torch.Tensor) -> torch.Tensor:
    """A copy that lies in memory as ``x`` does, in a storage of its own."""
    whole = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
    return x.detach().clone() if x.is_contiguous() else whole.copy_(x.detach())


def recorded(function: Callable[..., Any], wanted: set[str]) -> list[Call]:
    """The calls that ``function`` makes up to its first error."""
    logging.disable(logging.ERROR)
    recorder = Recorder(wanted)
    try:
        with recorder:
            function()
    except Exception:  # some samples are errors, and some need what is missing; earlier calls count
        pass
    finally:
        logging.disable(logging.NOTSET)
    return recorder.calls


def calls_of_samples(name: str, wanted: set[str], limit: int, dtypes: Iterable[torch.dtype] = DTYPES) -> Iterator[Call]:
    """Those of the first samples of an entry of the database: of the function with its gradient, and of the function
    whole, as graphs for inference have it."""
    entry = OPERATORS[name]
    for dtype in dtypes:
        if dtype not in entry.supported_dtypes("cpu"):
            continue
        is_differentiable = entry.supports_autograd and dtype in entry.supported_backward_dtypes("cpu")
        for sample in itertools.islice(samples(name, dtype, requires_grad=is_differentiable), limit):
            yield from recorded(lambda sample=sample: _with_gradient(entry, sample), wanted)
        for sample in itertools.islice(samples(name, dtype, requires_grad=False), limit):
            yield from recorded(lambda sample=sample: _whole(entry, sample), wanted)


def _with_gradient(entry: Any, sample: Any) -> None:
    made = entry.op(sample.input, *sample.args, **sample.kwargs)
    leaves = [x for x in pytree.tree_leaves(made) if isinstance(x, torch.Tensor) and x.requires_grad]
    if leaves:
        torch.autograd.backward(leaves, [torch.randn_like(leaf) for leaf in leaves])


def _whole(entry: Any, sample: Any) -> None:
    with torch.inference_mode():
        entry.op(sample.input, *sample.args, **sample.kwargs)


def other_calls() -> Iterator[Call]:
    """Calls of operators that the samples do not reach."""
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        yield from _calls_of_floats(dtype)
    ones = {"upper": True, "unitriangular": True}
    yield from _named(("linalg_solve_triangular", random_tensor(3, 3), random_tensor(3, 4), ones))
    yield from _calls_of_integers()
    yield from _calls_of_lists()


def _calls_of_floats(dtype: torch.dtype) -> Iterator[Call]:
    def x(*size: int) -> torch.Tensor:
        return random_tensor(*size, dtype=dtype)

    rows, images, volumes = x(3, 4), x(2, 4, 5, 6), x(2, 3, 4, 5, 6)
    places, probabilities = torch.tensor([2, 0, 1]), rows.sigmoid()
    yield from _named(
        ("_embedding_bag_forward_only", rows, places, torch.tensor([0, 2]), False, 1),
        ("_native_batch_norm_legit.no_stats", images, x(4), x(4), True, 0.1, 1e-5),
        ("_native_batch_norm_legit_functional", images, x(4), x(4), x(4), x(4).abs(), True, 0.1, 1e-5),
        ("_native_batch_norm_legit_no_training", images, x(4), x(4), x(4), x(4).abs() + 1, 0.1, 1e-5),
        ("_unsafe_index.Tensor", rows, [places]),
        ("bernoulli", probabilities),
        ("bernoulli.Tensor", rows, probabilities),
        ("bernoulli.p", rows, 0.25),
        ("clamp_max", rows, 0.5),
        ("copy", rows, x(4)),
        ("div.Scalar_mode", rows, 0.75, {"rounding_mode": "floor"}),
        ("fill.Tensor", rows, torch.tensor(2.5, dtype=dtype)),
        ("floor_divide.Scalar", rows, 0.75),
        ("lerp.Tensor", rows, x(3, 1), probabilities),
        ("less.Tensor", rows, x(4)),
        ("lift", rows),
        ("lift_fresh_copy", rows),
        ("linalg_vector_norm", rows, 3),
        ("matmul", images, x(6, 3)),
        ("matmul", rows, x(4, 2)),
        ("max_pool3d_with_indices", volumes, [2, 2, 2]),
        ("native_dropout", rows, 0.5, True),
        ("rand.generator", [3, 4], {"generator": None, "dtype": dtype}),
        ("randn.generator", [3, 4], {"generator": None, "dtype": dtype}),
        ("rand_like", rows),
        ("reflection_pad2d", images, [1, 2, 3, 0]),
        ("reflection_pad2d_backward", x(2, 4, 8, 9), images, [1, 2, 3, 0]),
        ("reflection_pad3d", volumes, [1, 2, 3, 0, 1, 1]),
        ("remainder.Scalar_Tensor", 2.5, rows + 4),
        ("replication_pad2d", images, [1, 2, 3, 0]),
        ("replication_pad3d", volumes, [1, 2, 3, 0, 1, 1]),
        ("uniform", rows, 0.5, 2.0),
        ("unsafe_split_with_sizes", rows, [1, 2]),
        ("upsample_nearest2d", images, [10, 12]),
        ("upsample_nearest2d_backward", x(2, 4, 10, 12), [10, 12], [2, 4, 5, 6]),
        ("view.dtype", rows, torch.int32 if dtype is torch.float32 else torch.int16),
        ("zero", rows),
    )
    condition, query, grads = rows > 0, x(1, 2, 4, 8), x(1, 2, 4, 8) * 0.5
    yield from _named(
        ("where.Scalar", condition, 1.5, 2.5),
        ("where.ScalarOther", condition, rows, 2.5),
        ("where.ScalarSelf", condition, 1.5, rows),
        ("_scaled_dot_product_flash_attention_for_cpu", query, query * 2, query + 1),
    )
    attended, sums = aten._scaled_dot_product_flash_attention_for_cpu.default(query, query * 2, query + 1)
    known = (grads, query, query * 2, query + 1, attended, sums, 0.0, False)
    yield from _named(("_scaled_dot_product_flash_attention_for_cpu_backward", *known))
    if dtype is not torch.float16:  # for which fake tensors have norms of another type than the host
        yield from _named(("_weight_norm_interface", rows, x(3, 1)))
    for name, operands in _PRIMS.items():
        yield Call(getattr(torch.ops.prims, name).default, tuple(x(*size) for size in operands), {})
    yield Call(torch.ops.prims.convert_element_type.default, (rows, torch.int32), {})


_PRIMS = dict.fromkeys(("add", "le", "lt", "maximum", "minimum", "mul"), ((3, 4), (3, 4)))


def _calls_of_integers() -> Iterator[Call]:
    x, bytes = random_tensor(3, 4, dtype=torch.int64), random_tensor(16, 32, dtype=torch.int8)
    experts, ends = random_tensor(2, 8, 16, dtype=torch.bfloat16), torch.tensor([16, 32], dtype=torch.int32)
    yield from _named(
        ("_grouped_mm", random_tensor(32, 8, dtype=torch.bfloat16), experts, ends),
        ("_int_mm", random_tensor(24, 16, dtype=torch.int8), bytes),
        ("all.dim", x > 1, 0, True),
        ("bitwise_and.Scalar", x, 3),
        ("bitwise_or.Scalar", x, 4),
        ("bitwise_xor.Scalar", x, 1),
        ("randint.generator", 7, [3, 4], {"generator": None}),
        ("randint.low_generator", -3, 7, [3, 4], {"generator": None}),
        ("randperm", 8),
    )


def _calls_of_lists() -> Iterator[Call]:
    """Those of operators on lists of tensors, by their schemas."""
    for name in filter(lambda name: name.startswith("aten._foreach_"), registry.registered()):
        target = target_of(name)
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            arguments = [one for one in target._schema.arguments if not one.has_default_value()]
            yield Call(target, tuple(_of_schema(argument, dtype) for argument in arguments), {})


def _of_schema(argument: Any, dtype: torch.dtype) -> Any:
    if "Tensor" in str(argument.type):
        return [random_tensor(*size, dtype=dtype).sigmoid() for size in ((3, 4), (5,))]
    if "List" in str(argument.type):
        return [1.5, 0.5]
    return 1.5


def _named(*calls: tuple[Any, ...]) -> Iterator[Call]:
    """Calls of operators of ATen: the name, the arguments by place, and perhaps those by name."""
    for name, *args in calls:
        kwargs = args.pop() if isinstance(args[-1], dict) else {}
        yield Call(target_of(f"aten.{name}" if "." in name else f"aten.{name}.default"), tuple(args), kwargs)


def target_of(name: str) -> Any:
    namespace, packet, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)


def all_calls(wanted: set[str], limit: int) -> Iterator[Call]:
    """Those of ``other_calls`` are the first, because the page takes one call of each kind."""
    yield from other_calls()
    for name in filter(lambda name: name not in UNCOMPARED, OPERATORS):
        yield from calls_of_samples(name, wanted, limit)


class Guarded(Exception):
    """The call holds for some sizes alone, so that a graph for all sizes does not have it."""


class Outcome(NamedTuple):
    """``types`` are the operators of Ascend IR that the call became, ``hosts`` those operators of torch that the host
    computes among them."""

    gm: fx.GraphModule
    built: Built
    types: frozenset[str]
    hosts: frozenset[str]


def graph_of(call: Call, *, dynamic: bool) -> fx.GraphModule:
    """A graph of the call. Results that are views are operands of another operator, because the host makes views of
    inputs."""
    if dynamic and str(call.target) in FIXED_SIZES:
        raise Guarded
    shape_env = ShapeEnv()
    mode = FakeTensorMode(shape_env=shape_env, allow_non_fake_inputs=True)
    graph = fx.Graph()
    nodes: dict[int, fx.Node] = {}
    for x in call.tensors:
        if id(x) not in nodes:
            nodes[id(x)] = graph.placeholder(f"x{len(nodes)}")
            nodes[id(x)].meta["val"] = _symbolic(mode, x) if dynamic else mode.from_tensor(x, static_shapes=True)
    for symbol in _symbols(nodes.values()):
        node = graph.placeholder(str(symbol))
        node.meta["val"] = shape_env.create_symintnode(symbol, hint=int(shape_env.backed_var_to_val[symbol]))
    args, kwargs = pytree.tree_map_only(torch.Tensor, lambda x: nodes[id(x)], (call.args, call.kwargs))
    fakes = fx.map_arg((args, kwargs), lambda node: node.meta["val"])
    with torch.no_grad(), mode, enable_python_dispatcher():
        try:
            made = call.target(*fakes[0], **fakes[1])
        except RuntimeError:
            if dynamic:  # the meta function of torch takes no symbols
                raise Guarded from None
            raise
        if shape_env.guards:
            raise Guarded
        node = graph.call_function(call.target, args, kwargs)
        node.meta["val"] = made
        results = _results(graph, node)
        if any(returned.alias_info for returned in call.target._schema.returns):
            results = [_used(graph, result) for result in results]
    graph.output(tuple(results))
    gm = fx.GraphModule(torch.nn.Module(), graph)
    correct_values(gm.graph)
    return gm


def _results(graph: fx.Graph, call: fx.Node) -> list[fx.Node]:
    made = call.meta["val"]
    if not isinstance(made, (list, tuple)):
        return [call]
    left_out = UNCOMPUTED.get(str(call.target), ())
    items = [(i, value) for i, value in enumerate(made) if isinstance(value, torch.Tensor) and i not in left_out]
    nodes = []
    for index, value in items:
        nodes.append(graph.call_function(operator.getitem, (call, index)))
        nodes[-1].meta["val"] = value
    return nodes


def _symbolic(mode: FakeTensorMode, x: torch.Tensor) -> torch.Tensor:
    """Sizes that are equal are one symbol, as in a compiled function."""
    context = StatelessSymbolicContext([DimDynamic.DUCK] * x.dim(), constraint_sizes=[None] * x.dim())
    return mode.from_tensor(x, symbolic_context=context)


def _symbols(nodes: Iterable[fx.Node]) -> list[Any]:
    numbers = [number for node in nodes for number in (*node.meta["val"].shape, *node.meta["val"].stride())]
    free = [number.node.expr.free_symbols for number in numbers if isinstance(number, torch.SymInt)]
    return sorted(set().union(*free), key=str)


def _used(graph: fx.Graph, result: fx.Node) -> fx.Node:
    value = result.meta["val"]
    target = aten.logical_not.default if value.dtype == torch.bool else aten.neg.default
    node = graph.call_function(target, (result,))
    node.meta["val"] = target(value)
    return node


def converted(call: Call, *, dynamic: bool) -> Outcome:
    """Raises ``MissingConverters`` if the call is not converted."""
    gm = graph_of(call, dynamic=dynamic)
    made = built(gm)
    origin = next(node for node in gm.graph.nodes if node.target is call.target)
    ops = [op for op in made.graph.op if op.type not in _OF_GRAPHS and made.origins.get(op.name, origin) is origin]
    return Outcome(gm, made, frozenset(op.type for op in ops), frozenset(_hosts(ops)))


def _hosts(ops: Iterable[Any]) -> Iterator[str]:
    for op in ops:
        if OPERATOR in op.attr:
            yield op.attr[OPERATOR].s.decode()
        elif PARTS in op.attr:
            yield from _hosts(op.attr[PARTS].g.op)


def check(call: Call, outcome: Outcome) -> None:
    """Compares what the engine computes with eager mode, values and strides."""
    torch.manual_seed(7)
    want = call.target(*call.args, **call.kwargs)
    if any(returned.alias_info for returned in call.target._schema.returns):
        want = pytree.tree_map_only(torch.Tensor, lambda x: ~x if x.dtype == torch.bool else -x, want)
    left_out = UNCOMPUTED.get(str(call.target), ())
    listed = want if isinstance(want, (list, tuple)) else [want]
    theirs = [x for i, x in enumerate(listed) if x is not None and i not in left_out]
    torch.manual_seed(7)
    values = [node.meta["val"] for node in outcome.gm.graph.find_nodes(op="placeholder")]
    tensors = iter({id(x): x for x in call.tensors}.values())
    ours = run(outcome.built, [next(tensors) if isinstance(v, torch.Tensor) else v.node.hint for v in values])
    assert len(ours) == len(theirs)
    scale = max([largest(x) for x in (*call.tensors, *theirs) if isinstance(x, torch.Tensor)], default=0.0)
    for place, (got, wanted) in enumerate(zip(ours, theirs, strict=True)):
        if not isinstance(wanted, torch.Tensor):
            assert got == wanted
            continue
        assert (got.dtype, got.shape, strides(got)) == (wanted.dtype, wanted.shape, strides(wanted))
        if (str(call.target), place) not in ARBITRARY:
            check_close(got, wanted, scale)


def check_close(got: torch.Tensor, want: torch.Tensor, scale: float) -> None:
    """``scale`` is the largest number from which the results may have been subtracted."""
    if not want.is_floating_point():
        assert torch.equal(got, want)
        return
    error = 4 * max(torch.finfo(want.dtype).eps, 1e-6)
    torch.testing.assert_close(got.double(), want.double(), rtol=error, atol=error * scale, equal_nan=True)


def largest(x: torch.Tensor) -> float:
    """The largest size of a finite element of floating point."""
    return x.double().nan_to_num(0, 0, 0).abs().max().item() if x.is_floating_point() and x.numel() else 0.0


def strides(x: torch.Tensor) -> list[int]:
    """Those that say where an element lies."""
    return [stride for size, stride in zip(x.shape, x.stride(), strict=True) if size > 1 and x.numel()]
