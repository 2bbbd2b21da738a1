# SPDX-License-Identifier: Apache-2.0
"""``torchair.scope`` and ``torchair.ops`` in GE mode: attributes and order in the graph, streams, limits and super
kernels of the tasks, and the values of eager mode."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import npugraph
import npugraph_ex
import torchair
from npugraph.warning_kinds import NpugraphWarning
from tests.python.ge.air_runner import BareRoot
from tests.python.ge.converted import random_tensor
from torchair import ops, scope

X, W = random_tensor(32, 32), random_tensor(32, 32) / 8
STREAM = ("_user_stream_label", "_user_stream_priority", "_enable_inner_parallel")
KEYS = (
    *STREAM,
    *("_op_aicore_num", "_op_vectorcore_num", "_super_kernel_scope", "_super_kernel_options"),
    *("_op_exec_never_timeout", "torchair_enable_data_dump"),
)


@pytest.fixture(autouse=True)
def fresh() -> Any:
    npugraph.reset()
    with torch.no_grad():
        yield


def compiled(function: Callable[..., Any], config: Any = None, **how: Any) -> Callable[..., Any]:
    """The function in GE mode, in which an operator without a converter is an error."""
    config = torchair.CompilerConfig() if config is None else config
    config.debug.missing_converters.value = "error"
    torch._dynamo.reset()
    return torch.compile(function, backend=torchair.get_npu_backend(compiler_config=config), fullgraph=True, **how)


def attributes(graph: Any) -> dict[str, dict[str, Any]]:
    """Those of scopes, by name of operator; of constants there are none."""
    found = {}
    for op in graph.graph.op:
        values = {key: op.attr[key] for key in KEYS if key in op.attr}
        read = {key: v.b if v.WhichOneof("value") == "b" else v.s.decode() for key, v in values.items()}
        if op.type not in ("Data", "Const", "NetOutput"):
            found[op.name] = read
        else:
            assert not read
    return found


def inputs(graph: Any, name: str) -> list[str]:
    return next(list(op.input) for op in graph.graph.op if op.name == name)


def tasks() -> list[Any]:
    (artifact,) = npugraph.artifacts()
    return list(artifact.tasks)


def on_two_streams(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    with scope.npu_stream_switch("side", 3):
        y = torch.relu(x @ w)
    z = torch.tanh(x @ w)
    with scope.npu_stream_switch("side", enable_inner_parallel=False):
        return y @ z


@pytest.mark.feature("4.05", "12e.10")
def test_operators_of_a_block_are_on_its_stream(graphs: list[Any]) -> None:
    torch.testing.assert_close(compiled(on_two_streams)(X, W), torch.relu(X @ W) @ torch.tanh(X @ W))
    side = dict(zip(STREAM, ("side", "3", True), strict=True))
    assert attributes(graphs[-1]) == {
        "MatMul": side,
        "Relu": side,
        "MatMul_1": {},
        "Tanh": {},
        "MatMul_2": dict(zip(STREAM, ("side", "0", False), strict=True)),
    }
    first, second, third = tasks()
    assert [task.stream for task in (first, second, third)] == [1, 0, 1]
    assert [list(task.waits) for task in (first, second, third)] == [[], [], [1]]


@pytest.mark.feature("4.05")
def test_data_orders_streams_in_every_call() -> None:
    """No event is needed between a stream and one that reads what it computes, also in memory that is written."""

    def step(x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        with scope.npu_stream_switch("a"):
            y = x.sin()
            with scope.npu_stream_switch("b"):
                z = y.cos() + total
        total.add_(y)
        with scope.npu_stream_switch("a"):
            return z.tanh() * total

    fast = compiled(step)
    ours, theirs = torch.zeros(64, 64), torch.zeros(64, 64)
    for seed in range(200):
        x = torch.randn(64, 64, generator=torch.Generator().manual_seed(seed))
        y = x.sin()
        z = y.cos() + theirs
        theirs.add_(y)
        torch.testing.assert_close(fast(x, ours), z.tanh() * theirs)
        torch.testing.assert_close(ours, theirs)
    assert len({task.stream for task in tasks()}) == 3


@pytest.mark.feature("4.05", "6.16")
def test_scopes_of_streams_contradict_a_single_stream() -> None:
    config = torchair.CompilerConfig()
    config.ge_config.enable_single_stream = True
    text = r"a scope of a stream begins at .*test_scopes.*, and ge_config.enable_single_stream puts all on one"
    with pytest.raises(ValueError, match=text):
        compiled(on_two_streams, config)(X, W)


@pytest.mark.feature("4.05")
def test_a_part_of_a_cut_graph_keeps_its_scopes(order_is_missing: None, graphs: list[Any]) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        with scope.npu_stream_switch("side"):
            y = x.sin()
        z = y.sort().values
        with scope.npu_stream_switch("side"):
            return z.cos() + y

    torch._dynamo.reset()
    fast = torch.compile(step, backend=torchair.get_npu_backend())
    torch.testing.assert_close(fast(X), X.sin().sort().values.cos() + X.sin())
    labels = [part["_user_stream_label"] for graph in graphs for part in attributes(graph).values()]
    assert labels == ["side"] * 3


@pytest.mark.feature("4.06")
def test_a_tensor_waits_for_another_one(graphs: list[Any]) -> None:
    def step(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with scope.npu_stream_switch("side"):
            y = torch.relu(x @ w)
        x = scope.npu_wait_tensor(x, y)
        return x.tanh(), y

    found = compiled(step)(X, W)
    torch.testing.assert_close(found, (X.tanh(), torch.relu(X @ W)))
    assert inputs(graphs[-1], "Identity") == ["Relu:-1", "l_x_:0"]
    product, tanh = tasks()
    assert (product.stream, tanh.stream, list(tanh.waits)) == (1, 0, [0])


@pytest.mark.feature("4.06")
def test_a_tensor_waits_in_ge_mode_alone() -> None:
    with pytest.raises(NotImplementedError, match=r"npu_wait_tensor\) orders operators of a graph in GE mode"):
        scope.npu_wait_tensor(X, W)
    torch._dynamo.reset()
    other = torch.compile(lambda x, w: scope.npu_wait_tensor(x * 2, w) + 1, backend="npugraph_ex")
    with pytest.raises(NotImplementedError, match="in GE mode"):
        other(X, W)
    assert ops.npu_wait_tensor is scope.npu_wait_tensor


@pytest.mark.feature("4.06")
def test_gradients_go_through_a_wait() -> None:
    fast = compiled(lambda x, w: scope.npu_wait_tensor(x * 2, w).sum())
    x = X.clone().requires_grad_()
    with torch.enable_grad():
        fast(x, W).backward()
    assert torch.equal(x.grad, torch.full_like(X, 2))


def with_a_record(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    with ops.NpuStreamSwitch("side"):
        y = x.sin()
        point = ops.record()
        z = y.cos()
    ops.wait([point])
    return w.tanh(), z


@pytest.mark.feature("4.07")
def test_a_wait_follows_a_record(graphs: list[Any]) -> None:
    torch.testing.assert_close(compiled(with_a_record)(X, W), (W.tanh(), X.sin().cos()))
    assert inputs(graphs[-1], "Tanh") == ["Sin:-1", "l_w_:0"]
    found = tasks()
    names = [task.name.removeprefix("loop.") for task in found]
    places = {name: (task.stream, list(task.waits)) for name, task in zip(names, found, strict=True)}
    assert places == {"sin": (1, []), "cos": (1, []), "tanh": (0, [names.index("sin")])}


@pytest.mark.feature("4.07")
def test_a_wait_names_results(graphs: list[Any]) -> None:
    def step(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with scope.npu_stream_switch("side"):
            y = x.sin()
        ops.wait([y])
        return y, w.tanh()

    torch.testing.assert_close(compiled(step)(X, W), (X.sin(), W.tanh()))
    assert inputs(graphs[-1], "Tanh") == ["Sin:-1", "l_w_:0"]


EVENT = ops.npu_create_tagged_event("test_scopes")


def with_an_event(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    with scope.npu_stream_switch("side"):
        y = x.sin()
        ops.npu_tagged_event_record(EVENT)
    ops.npu_tagged_event_wait(EVENT)
    ops.npu_record_tagged_stream(y, "side")
    return y, w.tanh()


@pytest.mark.feature("4.08")
@pytest.mark.parametrize("mode", ["max-autotune", "npugraph_ex", "reduce-overhead"])
def test_events_with_tags_order_streams_in_each_mode(mode: str, graphs: list[Any]) -> None:
    config = torchair.CompilerConfig()
    config.mode = mode
    torch._dynamo.reset()
    fast = torch.compile(with_an_event, backend=torchair.get_npu_backend(compiler_config=config), fullgraph=True)
    torch.testing.assert_close(fast(X, W), (X.sin(), W.tanh()))
    sin, tanh = tasks()
    assert (sin.stream, tanh.stream, list(tanh.waits)) == (1, 0, [0])
    assert mode != "max-autotune" or inputs(graphs[-1], "Tanh") == ["Sin:-1", "l_w_:0"]


@pytest.mark.feature("4.08", "11.23")
def test_wrong_uses_of_records_waits_and_events() -> None:
    for tensors in ([], None, [1], X):
        with pytest.raises(ValueError, match="wait takes a list of tensors that is not empty, got"):
            ops.wait(tensors)
    with pytest.raises(ValueError, match="another event has the tag 'test_scopes'; tags are unique in a process"):
        ops.npu_create_tagged_event("test_scopes")
    with pytest.raises(TypeError, match="npu_create_tagged_event: tag is a int; it has to be a str"):
        ops.npu_create_tagged_event(3)
    for call in (ops.npu_tagged_event_record, ops.npu_tagged_event_wait):
        with pytest.raises(AssertionError, match="an event with a tag is made by npu_create_tagged_event, got 'x'"):
            call("x")

    def unrecorded(x: torch.Tensor) -> torch.Tensor:
        ops.npu_tagged_event_wait(EVENT)
        return x + 1

    text = r"air.tagged_event_wait: nothing records the event 'test_scopes' before the wait at .*; recorded are none"
    with pytest.raises(ValueError, match=text):
        compiled(unrecorded)(X)


@pytest.mark.feature("4.09")
def test_limits_hold_for_the_operators_of_a_block(graphs: list[Any]) -> None:
    def step(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        with scope.limit_core_num(2, 1):
            y = torch.softmax(x @ w, -1)
            with scope.limit_core_num(1, 1):
                y = y @ w
        return y @ w

    fast = compiled(step)
    torch.testing.assert_close(fast(X, W), torch.softmax(X @ W, -1) @ W @ W)
    outer, inner = ({"_op_aicore_num": cube, "_op_vectorcore_num": "1"} for cube in "21")
    assert list(attributes(graphs[-1]).values()) == [outer, outer, inner, {}]
    wide, narrow = ({"cube_core_num": cube, "vector_core_num": 1} for cube in (2, 1))
    assert [dict(task.limits) for task in tasks()] == [wide, wide, narrow, {}]


def block(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    with scope.super_kernel("block", "stream-fusion=1:feed-sync-all=0"):
        return torch.softmax(torch.relu(x @ w), -1) @ w


@pytest.mark.feature("4.11")
def test_a_super_kernel_is_one_task(graphs: list[Any]) -> None:
    found = compiled(block)(X, W)
    torch.testing.assert_close(found, torch.softmax(torch.relu(X @ W), -1) @ W)
    given = {"_super_kernel_scope": "block", "_super_kernel_options": "stream-fusion=1:feed-sync-all=0"}
    assert list(attributes(graphs[-1]).values()) == [given] * 4
    (task,) = tasks()
    assert task.kind == "super_kernel"


@pytest.mark.feature("4.11")
def test_a_scope_without_a_name_keeps_operators_out(graphs: list[Any]) -> None:
    def step(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        with scope.super_kernel("block"):
            y = torch.softmax(x @ w, -1)
            with scope.super_kernel(None):
                y = torch.softmax(y @ w, -1)
            y = torch.softmax(y @ w, -1)
        return torch.softmax(y @ w, -1)

    fast = compiled(step)
    y = X
    for _ in range(4):
        y = torch.softmax(y @ W, -1)
    torch.testing.assert_close(fast(X, W), y)
    named = {"_super_kernel_scope": "block"}
    assert list(attributes(graphs[-1]).values()) == [named, named, {}, {}, named, named, {}, {}]
    kinds = [task.kind for task in tasks()]
    assert kinds == ["super_kernel", "matmul", "loop", "super_kernel", "matmul", "loop"]


@pytest.mark.feature("4.11", "4.15")
def test_a_strict_scope_that_is_cut_is_an_error() -> None:
    @torch.library.custom_op("test_scopes::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)

    def step(x: torch.Tensor, options: str) -> torch.Tensor:
        with scope.super_kernel("block", options):
            return twice(torch.softmax(x, -1)) + 1

    @torchair.register_fx_node_ge_converter(torch.ops.test_scopes.twice.default)
    def convert(x: Any) -> Any:
        return torchair.ge.custom_op("TwiceOfScopes", inputs={"x": x}, outputs=["y"])

    for options in ("", "strict-scope-check=bypass"):
        torch.testing.assert_close(compiled(step)(X, options), torch.softmax(X, -1) * 2 + 1)
    strict = compiled(step)
    for _ in range(2):
        with pytest.raises(Exception, match=r"super kernel scope 'block' has strict-scope-check=abort, and 1 of its 3"):
            strict(X, "feed-sync-all=1:strict-scope-check=abort")


@pytest.mark.feature("4.11")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("fast=1", "there is no option 'fast=1'; options are feed-sync-all, stream-fusion, strict-scope-check"),
        ("stream-fusion=2", "option 'stream-fusion' takes 0 or 1, got '2'"),
        ("stream-fusion", "option 'stream-fusion' takes 0 or 1, got ''"),
        ("strict-scope-check=yes", "option 'strict-scope-check' takes bypass or abort, got 'yes'"),
        ("dcci-disable-on-kernel=", "option 'dcci-disable-on-kernel' takes a value"),
        ("debug-aic-num=3:debug-aiv-num=4", "one of the ratios 1:0, 0:1, 1:1 and 1:2, got 3:4"),
        ("debug-aic-num=x", "debug-aic-num and debug-aiv-num are numbers, got x and 0"),
    ],
)
def test_options_of_super_kernels_that_are_refused(options: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        scope.super_kernel("block", options)


@pytest.mark.feature("4.11")
def test_options_of_super_kernels() -> None:
    for options in ("", "debug-aic-num=24:debug-aiv-num=48", "debug-aiv-num=1", "dcci-before-kernel-start=a,b"):
        scope.super_kernel("block", options)


def test_further_scopes_are_attributes(graphs: list[Any]) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        with scope.op_never_timeout(), scope.data_dump():
            y = x.sin()
            with scope.op_never_timeout(False):
                y = y.cos()
        return y.tanh()

    torch.testing.assert_close(compiled(step)(X), X.sin().cos().tanh())
    assert attributes(graphs[-1]) == {
        "Sin": {"_op_exec_never_timeout": True, "torchair_enable_data_dump": True},
        "Cos": {"_op_exec_never_timeout": False, "torchair_enable_data_dump": True},
        "Tanh": {},
    }


@pytest.mark.feature("4.05", "4.09", "4.11")
@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: scope.op_never_timeout(1), TypeError, "op_never_timeout: enable is a int; it has to be a bool"),
        (lambda: scope.npu_stream_switch(3), TypeError, "npu_stream_switch: stream_tag is a int; it has to be a str"),
        (lambda: scope.npu_stream_switch("a", "b"), TypeError, "stream_priority is a str; it has to be a int"),
        (lambda: scope.npu_stream_switch("a", 0, 1), TypeError, "enable_inner_parallel is a int"),
        (lambda: scope.npu_stream_switch(""), ValueError, "npu_stream_switch: stream_tag is empty"),
        (lambda: scope.super_kernel(3), TypeError, "super_kernel: scope is a int; it has to be a str"),
        (lambda: scope.super_kernel("a", None), TypeError, "super_kernel: options is a NoneType"),
        (lambda: scope.limit_core_num(1.0, 1), TypeError, "op_aicore_num is a float; it has to be an integer"),
        (lambda: scope.limit_core_num(1, 0), ValueError, "op_vectorcore_num is 0; it has to be"),
    ],
)
def test_arguments_of_scopes_that_are_refused(make: Callable[[], Any], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.feature("4.05", "4.09", "4.11")
def test_scopes_do_nothing_in_eager_code() -> None:
    for function in (on_two_streams, block, with_a_record, with_an_event):
        function(X, W)


@pytest.mark.feature("4.15")
def test_a_graph_break_in_a_scope_is_an_error_that_names_it() -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        with scope.npu_stream_switch("side"):
            y = x.sin()
            torch._dynamo.graph_break()
            return y.cos()

    torch._dynamo.reset()
    with pytest.raises(Exception, match="a scope of torchair begins, and does not end in this graph; its block at "):
        torch.compile(step, backend=torchair.get_npu_backend())(X)


@pytest.mark.feature("4.02", "4.05")
def test_marks_of_npugraph_ex_mean_the_same(graphs: list[Any]) -> None:
    def step(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        marks = torch.ops.npugraph_ex
        marks.scope_enter(["_user_stream_label"], ["side"])
        with npugraph_ex.scope.super_kernel("block"):
            y = torch.softmax(x @ w, -1)
        marks.tagged_event_record("ready")
        marks.scope_exit()
        marks.tagged_event_wait("ready")
        return y, w.tanh()

    torch.testing.assert_close(compiled(step)(X, W), (torch.softmax(X @ W, -1), W.tanh()))
    side = {"_user_stream_label": "side", "_super_kernel_scope": "block"}
    assert attributes(graphs[-1]) == {"MatMul": side, "SoftmaxV2": side, "Tanh": {}}
    assert inputs(graphs[-1], "Tanh")[0] == "SoftmaxV2:-1"


@pytest.mark.feature("4.05", "4.11")
def test_scopes_of_torchair_in_npugraph_ex() -> None:
    torch._dynamo.reset()
    fast = torch.compile(on_two_streams, backend="npugraph_ex", fullgraph=True)
    with pytest.warns(NpugraphWarning) as warned:
        torch.compile(lambda x: _in_a_dump(x), backend="npugraph_ex")(X)
    assert "air.scope_enter at " in str(warned[0].message)
    assert "nothing reads the key 'torchair_enable_data_dump'" in str(warned[0].message)
    npugraph.reset()
    fast(X, W)
    assert [task.stream for task in tasks()] == [1, 0, 1]


def _in_a_dump(x: torch.Tensor) -> torch.Tensor:
    with scope.data_dump():
        return x.sin()


@pytest.mark.feature("4.05", "4.09", "4.11", "12e.8")
def test_an_exported_graph_has_its_scopes(tmp_path: Path) -> None:
    def step(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        with scope.npu_stream_switch("side"), scope.limit_core_num(1, 1):
            y = torch.softmax(x @ w, -1)
        with scope.super_kernel("block"):
            return torch.softmax(x @ w, -1) @ y

    root = BareRoot(tmp_path)
    torchair.dynamo_export(X, W, model=step, export_path=str(root.files), export_name="scopes")
    (found,) = root.run("scopes.air", [X, W])
    torch.testing.assert_close(torch.from_numpy(found), torch.softmax(X @ W, -1) @ torch.softmax(X @ W, -1))


def printed(capfd: pytest.CaptureFixture[str], function: Callable[..., Any], *args: Any) -> str:
    capfd.readouterr()
    function(*args)
    return capfd.readouterr().out


PRINTS = [
    (lambda x: ops.npu_print("x is", x), "x is [[0 1 2 ... 5 6 7] [8 9 10 ... 13 14 15]]\n"),
    (lambda x: ops.npu_print(x, summarize_size=-1), "[[0 1 2 3 4 5 6 7] [8 9 10 11 12 13 14 15]]\n"),
    (lambda x: ops.npu_print(x / 3, summarize_size=1), "[[0 ... 2.33333325] [2.66666675 ... 5]]\n"),
    (lambda x: ops.npu_print(1, True, 2.5, x[0, :2] > 0, "end"), "1 True 2.5 [False True] end\n"),
    (lambda x: ops.npu_print(x[0, 3].to(torch.int32), x[:0]), "3 []\n"),
    (lambda x: ops.npu_print("{}", x[0, :2].bfloat16(), "{}.shape"), "{} [0 1] {}.shape\n"),
    (
        lambda x: ops.npu_print("x:", x, summarize_size=1, tensor_detail=True),
        "x: tensor([[0 ... 7] [8 ... 15]], shape=[2 8], dtype=torch.float32)\n",
    ),
]


@pytest.mark.feature("9.04")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("call", "expected"), PRINTS)
def test_tensors_are_printed(
    call: Callable[..., Any], expected: str, dynamic: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        call(x + 0)
        return x * 2

    x = torch.arange(16.0).reshape(2, 8)
    fast = compiled(step, dynamic=dynamic)
    assert printed(capfd, step, x) == expected
    for _ in range(2):
        assert printed(capfd, fast, x) == expected


@pytest.mark.feature("9.04")
def test_prints_keep_their_order(graphs: list[Any], capfd: pytest.CaptureFixture[str]) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        with scope.npu_stream_switch("side"):
            y = x @ x
            ops.npu_print("first", y[0, 0])
        ops.npu_print("second", x[0, 0])
        with scope.npu_stream_switch("side"):
            ops.npu_print("third", x[0, 0])
        return y

    fast = compiled(step)
    for _ in range(20):
        assert printed(capfd, fast, torch.ones(4, 4)) == "first 4\nsecond 1\nthird 1\n"
    assert inputs(graphs[-1], "PrintV2_1")[0] == "PrintV2:-1"
    assert inputs(graphs[-1], "PrintV2_2")[0] == "PrintV2_1:-1"


@pytest.mark.feature("9.04")
@pytest.mark.parametrize(
    ("args", "how", "error", "message"),
    [
        ((X, None), {}, TypeError, "npu_print takes tensors, str, bool, int and float, got a NoneType"),
        (("text", 1), {}, ValueError, "npu_print takes at least one tensor, got none"),
        ((X.to(torch.complex64),), {}, ValueError, "npu_print does not print complex numbers"),
        ((X,), {"summarize_size": 0}, ValueError, "summarize_size is -1, for all elements, or at least 1, got 0"),
        ((X,), {"summarize_size": -2}, ValueError, "summarize_size is -1, for all elements, or at least 1, got -2"),
    ],
)
def test_prints_that_are_refused(args: Any, how: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        ops.npu_print(*args, **how)
