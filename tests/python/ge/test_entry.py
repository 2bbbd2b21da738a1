# SPDX-License-Identifier: Apache-2.0
"""The entries of torchair: what the modes of a configuration lead to, warnings and errors, import paths."""

from __future__ import annotations

import copy
import importlib
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd

import npugraph
import npugraph_ex
import torchair

X = torch.randn(4, 8)


def fn(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x.sin() * 2 + 1, -1)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    npugraph.reset()
    with torch.no_grad():
        yield
    npugraph.reset()


def configured(**options: Any) -> torchair.CompilerConfig:
    """A configuration with options by path, with ``__`` for dots."""
    config = torchair.CompilerConfig()
    for path, value in options.items():
        *branches, name = path.split("__")
        branch = config
        for part in branches:
            branch = getattr(branch, part)
        setattr(branch, name, value)
    return config


@pytest.mark.feature("6.01")
def test_the_default_mode_converts(graphs: list[Any]) -> None:
    for backend in (torchair.get_npu_backend(), torchair.get_npu_backend(torchair.CompilerConfig())):
        torch._dynamo.reset()
        torch.testing.assert_close(torch.compile(fn, backend=backend)(X), fn(X))
    assert [graph.is_compiled for graph in graphs] == [True, True]
    assert type(graphs[0]).__mro__[1] is torchair_class("_ge_concrete_graph.fx2ge_converter", "GeConcreteGraph")


def torchair_class(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"torchair.{module}"), name)


def test_an_artifact_of_ge_needs_python() -> None:
    torch.compile(fn, backend=torchair.get_npu_backend())(X)
    (artifact,) = npugraph.artifacts()
    assert artifact.needs_python


@pytest.mark.feature("6.01", "6.08")
@pytest.mark.parametrize("mode", ["reduce-overhead", "npugraph_ex"])
@pytest.mark.filterwarnings("ignore:.*reduce-overhead:DeprecationWarning")
def test_the_other_modes_capture(mode: str, graphs: list[Any]) -> None:
    config = configured(mode=mode)
    if mode == "npugraph_ex":
        config.npugraphex_config.inplace_pass = False
    else:
        config.debug.aclgraph.disable_reinplace_inplaceable_ops_pass = True
    torch.testing.assert_close(torch.compile(fn, backend=torchair.get_npu_backend(config))(X), fn(X))
    (artifact,) = npugraph.artifacts()
    assert not graphs and artifact.counters["captures"] == 1
    assert artifact.options["inplace_pass"] is False


@pytest.mark.feature("6.06")
@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead", "npugraph_ex"])
@pytest.mark.filterwarnings("ignore:.*reduce-overhead:DeprecationWarning")
def test_graphs_run_eagerly_on_request(mode: str, graphs: list[Any]) -> None:
    seen = []
    config = configured(mode=mode, debug__run_eagerly=True)
    config.post_grad_custom_post_pass = lambda gm, inputs, config: seen.append(gm)
    fast = torch.compile(fn, backend=torchair.get_npu_backend(config))
    with npugraph.task_log() as tasks:
        for _ in range(2):
            torch.testing.assert_close(fast(X), fn(X))
    assert len(seen) == 1 and graphs == []
    assert {task.mode for task in tasks} == {"eager"}


@pytest.mark.feature("6.02", "6.28")
def test_passes_of_the_user_run_before_the_conversion(graphs: list[Any]) -> None:
    def double(gm: Any, inputs: Any, config: Any) -> None:
        for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default):
            node.target = torch.ops.aten.cos.default

    for option in ("post_grad_custom_pre_pass", "post_grad_custom_post_pass"):
        torch._dynamo.reset()
        backend = torchair.get_npu_backend(configured(**{option: double}))
        torch.testing.assert_close(torch.compile(torch.sin, backend=backend)(X), X.cos())
    assert [[op.type for op in graph.graph.op][1] for graph in graphs] == ["Cos", "Cos"]


@pytest.mark.feature("6.28")
def test_fx_passes_run_in_their_order() -> None:
    """Noops go and views become reshapes between the two passes of the user."""
    seen = []

    def note(place: str) -> Callable[[Any, Any, Any], None]:
        def run(gm: Any, inputs: Any, config: Any) -> None:
            names = [str(node.target) for node in gm.graph.nodes if node.op == "call_function"]
            seen.append((place, names))

        return run

    config = configured(post_grad_custom_pre_pass=note("pre"), post_grad_custom_post_pass=note("post"))
    torch.compile(lambda x: x.sin().clone().view(8, 4).exp(), backend=torchair.get_npu_backend(config))(X)
    assert seen == [
        ("pre", ["aten.sin.default", "aten.clone.default", "aten.view.default", "aten.exp.default"]),
        ("post", ["aten.sin.default", "aten.reshape.default", "aten.exp.default"]),
    ]


@pytest.mark.feature("6.28")
def test_replacement_rules_act_before_the_conversion(graphs: list[Any]) -> None:
    def negated(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.neg(torch.sub(x, y))

    def swapped(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.sub(y, x)

    torchair.register_replacement(search_fn=negated, replace_fn=swapped, example_inputs=(torch.ones(2), torch.ones(2)))
    try:
        for is_on in (True, False):
            torch._dynamo.reset()
            config = configured(experimental_config__pattern_fusion_pass=is_on)
            fast = torch.compile(negated, backend=torchair.get_npu_backend(config))
            torch.testing.assert_close(fast(X, X + 1), torch.ones_like(X))
    finally:
        next(rule for rule in npugraph_ex.replacements() if rule.name == "negated").remove()
    assert [("Neg" in {op.type for op in graph.graph.op}) for graph in graphs] == [False, True]


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead", "npugraph_ex"])
@pytest.mark.filterwarnings("ignore:.*reduce-overhead:DeprecationWarning")
def test_a_backend_can_be_called_by_another_one(mode: str, graphs: list[Any]) -> None:
    def backend(gm: Any, inputs: Any) -> Callable[..., Any]:
        return torchair.get_npu_backend(compiler_config=configured(mode=mode))(gm, inputs)

    torch.testing.assert_close(torch.compile(fn, backend=backend)(X), fn(X))
    (artifact,) = npugraph.artifacts()
    assert len(graphs) == (mode == "max-autotune") and artifact.counters["captures"] == 1


def test_a_compiler_for_backends_with_aot_autograd(graphs: list[Any]) -> None:
    from torch._functorch.aot_autograd import make_boxed_compiler

    compiler = make_boxed_compiler(torchair.get_compiler())
    torch.testing.assert_close(torch.compile(fn, backend=aot_autograd(fw_compiler=compiler))(X), fn(X))
    assert len(graphs) == 1


def test_decompositions_act_before_the_conversion(graphs: list[Any]) -> None:
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x + x

    backend = torchair.get_npu_backend(custom_decompositions={torch.ops.aten.sin.default: doubled})
    torch.testing.assert_close(torch.compile(torch.sin, backend=backend)(X), X + X)
    assert "Sin" not in {op.type for op in graphs[0].graph.op}


def test_gradients_come_from_a_graph_of_their_own(graphs: list[Any]) -> None:
    with torch.enable_grad():
        x, own = (X.clone().requires_grad_() for _ in range(2))
        fast = torch.compile(lambda x: (x * x).sum(), backend=torchair.get_npu_backend())
        fast(x).backward()
        (own * own).sum().backward()
    torch.testing.assert_close(x.grad, own.grad)
    assert len(graphs) == 2


@pytest.mark.feature("11.04")
def test_one_warning_names_the_options_without_effect() -> None:
    config = configured(export__weight_name="weights", aclgraph_config__use_custom_pool=(0, 1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        backend = torchair.get_npu_backend(compiler_config=config)
        torch.compile(fn, backend=backend)(X)
    (warning,) = (w for w in caught if "torchair" in str(w.message))
    assert issubclass(warning.category, UserWarning) and warning.filename == __file__
    text = str(warning.message)
    assert "mode 'max-autotune' ignores aclgraph_config.use_custom_pool (of 'reduce-overhead')" in text
    assert "export.weight_name is recorded and has no effect: " in text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torchair.get_npu_backend(configured(debug__run_eagerly=True))


@pytest.mark.feature("6.23")
@pytest.mark.parametrize("frozen", [False, True])
def test_frozen_parameters_keep_the_memory_that_they_had_first(frozen: bool) -> None:
    model = torch.nn.Linear(2, 2, bias=False)
    config = torchair.CompilerConfig()
    config.experimental_config.frozen_parameter = frozen
    compiled = torch.compile(model, backend=torchair.get_npu_backend(compiler_config=config))
    x = torch.ones(2)
    with torch.no_grad():
        first = compiled(x).clone()
        old, model.weight.data = model.weight.data, torch.zeros(2, 2)
        assert torch.equal(compiled(x), first if frozen else torch.zeros(2))
        old.zero_()
        assert torch.equal(compiled(x), torch.zeros(2))


@pytest.mark.feature("6.03")
def test_the_older_mode_dumps_fx_graphs(tmp_path: Path) -> None:
    seen: list[str] = []

    def custom_pass(gm: torch.fx.GraphModule, inputs: Any, config: Any) -> None:
        seen.append(gm.code)
        (node,) = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default)
        node.target = torch.ops.aten.cos.default

    folder = tmp_path / "new"
    options = {"mode": "reduce-overhead", "debug__graph_dump__type": "py", "debug__graph_dump__path": str(folder)}
    with pytest.warns(DeprecationWarning, match="reduce-overhead"):
        config = configured(**options, post_grad_custom_post_pass=custom_pass)
    result = torch.compile(fn, backend=torchair.get_npu_backend(config))(X)
    torch.testing.assert_close(result, torch.softmax(X.cos() * 2 + 1, -1))
    assert len(seen) == 1
    names = [re.fullmatch(r"dynamo_(\w+)_graph_(\d+)_rank_0_pid_\d+_ts_\d+\.py", p.name) for p in folder.iterdir()]
    assert sorted(name[1] for name in names if name) == ["optimized", "original"]
    assert len({name[2] for name in names if name}) == 1
    texts = [path.read_text() for path in sorted(folder.iterdir())]
    assert ["aten.cos.default" in text for text in texts] == [True, False]
    assert ["aten.sin.default" in text for text in texts] == [False, True]
    for text in texts:
        compile(text, "graph.py", "exec")
    for kind in ("pbtxt", "txt"):
        config.debug.graph_dump.type = kind
        with pytest.raises(RuntimeError, match=f"in mode 'reduce-overhead' graphs are .* as 'py' alone, got '{kind}'"):
            torchair.get_npu_backend(config)


def test_a_backend_keeps_the_configuration_that_it_was_given(graphs: list[Any]) -> None:
    config = configured(debug__graph_dump__path="/")
    before = copy.copy(config)
    backend = torchair.get_npu_backend(config)
    config.debug.graph_dump.path = "./"
    torch.compile(fn, backend=backend)(X)
    assert graphs[0].config == before


@pytest.mark.feature("11.06")
@pytest.mark.usefixtures("order_is_missing")
def test_one_error_names_all_operators_without_a_converter() -> None:
    def three(x: torch.Tensor) -> torch.Tensor:
        y = torch.sort(x + 1)[0]
        z = torch.digamma(y)
        return torch.cummax(z, 0)[0] * 2

    config = configured(debug__missing_converters="error")
    with pytest.raises(NotImplementedError) as caught:
        torch.compile(three, backend=torchair.get_npu_backend(config))(X)
    lines = str(caught.value).splitlines()[:4]  # torch adds how to see more
    assert lines[0].startswith("3 operators of graph 'graph_")
    for number, (line, name) in enumerate(zip(lines[1:], ("sort", "digamma", "cummax"), strict=True), start=1):
        place = f"{__file__}:{three.__code__.co_firstlineno + number} in three"
        assert line == f"  torch.ops.aten.{name}.default ge_converter is not implemented! At {place}"


@pytest.mark.feature("6.31")
@pytest.mark.parametrize("missing_converters", ["run_eagerly", "error"])
def test_an_error_of_a_converter_of_the_user_is_raised(missing_converters: str) -> None:
    @torch.library.custom_op("npugraph_tests::wrongly_converted", mutates_args=())
    def wrongly_converted(x: torch.Tensor, kind: int) -> torch.Tensor:
        return x * 2

    wrongly_converted.register_fake(lambda x, kind: torch.empty_like(x))
    results = {0: lambda x: x.nope, 1: lambda x: [x, x], 2: lambda x: None, 3: lambda x: 7}

    def convert(x: Any, kind: int, *, meta_outputs: Any) -> Any:
        return results[kind](x)

    def outer(x: torch.Tensor, kind: int) -> torch.Tensor:
        return wrongly_converted(x, kind) + 1

    torchair.register_fx_node_ge_converter(torch.ops.npugraph_tests.wrongly_converted.default)(convert)
    backend = torchair.get_npu_backend(configured(debug__missing_converters=missing_converters))
    messages = (
        "AttributeError: 'Tensor' object has no attribute 'nope'",
        r"it returned \[Tensor\(.*\] for the results TensorSpec\(",
        "it returned None for the results",
        "it returned 7 for the results",
    )
    for kind, message in enumerate(messages):
        torch._dynamo.reset()
        name = r"npugraph_tests\.wrongly_converted\.default"
        with pytest.raises(RuntimeError, match=f"the converter of {name} failed: {message}") as caught:
            torch.compile(outer, backend=backend)(X, kind)
        line = f"{__file__}:{outer.__code__.co_firstlineno + 1} in outer"
        assert any(line in note for note in caught.value.__notes__)


def test_configurations_of_other_kinds() -> None:
    import npugraph_ex

    for other in (npugraph_ex.CompilerConfig(), {}, "max-autotune"):
        with pytest.raises(TypeError, match=r"compiler_config is a torchair\.CompilerConfig, got "):
            torchair.get_npu_backend(other)


def test_arguments_of_torch_compile_are_refused() -> None:
    with pytest.raises(ValueError, match="a backend of get_npu_backend takes no options, got options="):
        torch.compile(fn, backend=torchair.get_npu_backend(), options={"inplace_pass": False})(X)


def test_patch_for_hcom_changes_nothing() -> None:
    for _ in range(2):
        torchair.patch_for_hcom()
    torch.testing.assert_close(torch.compile(fn, backend=torchair.get_npu_backend())(X), fn(X))


PUBLIC = {
    "torchair": "CompilerConfig get_compiler get_npu_backend patch_for_hcom register_fx_node_ge_converter logger",
    "torchair.npu_fx_compiler": "get_compiler get_npu_backend",
    "torchair._ge_concrete_graph.fx2ge_converter": "GeConcreteGraph register_fx_node_ge_converter",
    "torchair.ge_concrete_graph.fx2ge_converter": "GeConcreteGraph register_fx_node_ge_converter",
    "torchair._acl_concrete_graph.fx2acl_converter": "AclConcreteGraph",
    "torchair.core._backend": "TorchNpuGraph initialize_graph_engine",
    "torchair.core.utils": "EVENT_LEVEL logger",
    "torchair.core._torchair": "TorchNpuGraphBase InitializeGraphEngine FinalizeGraphEngine check_cann_compat",
    "torchair._torchair": "TorchNpuGraphBase InitializeGraphEngine FinalizeGraphEngine get_registered_ir_def",
    "torchair.configs.compiler_config": "CompilerConfig",
}


@pytest.mark.parametrize("module", PUBLIC)
def test_modules_have_their_names(module: str) -> None:
    imported = importlib.import_module(module)
    for name in PUBLIC[module].split():
        assert getattr(imported, name) is not None, name


def test_what_is_not_here_says_why() -> None:
    captured = torchair_class("_acl_concrete_graph.fx2acl_converter", "AclConcreteGraph")
    with pytest.raises(torchair.NotHereError, match=r"captured by the compiler .* torchair\.get_npu_backend compiles"):
        captured(torchair.CompilerConfig())
    for module in ("torchair._torchair", "torchair.core._torchair"):
        with pytest.raises(torchair.NotHereError, match=r"_torchair\.as_torch_tensors is not here: results of the"):
            importlib.import_module(module).as_torch_tensors  # noqa: B018
