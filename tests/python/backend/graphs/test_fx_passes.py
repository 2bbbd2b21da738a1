# SPDX-License-Identifier: Apache-2.0
"""The passes over FX graphs and their order, custom passes of users, and other entry points such as ``compile_fx``."""

from __future__ import annotations

import logging

import pytest
import torch
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func
from torch.fx.experimental.proxy_tensor import make_fx

import npugraph
import npugraph_ex
from npugraph.fx.passes.pipeline import PASSES
from tests.python.backend.checks import assert_same, compile_ex, task_names

aten = torch.ops.aten


def targets(gm):
    return [node.target for node in gm.graph.nodes if node.op == "call_function"]


class Look:
    """A pass that changes nothing and remembers what it saw."""

    def __init__(self) -> None:
        self.targets, self.values, self.config = [], None, None

    def __call__(self, gm, example_inputs, config) -> None:
        self.targets, self.values, self.config = targets(gm), list(example_inputs), config


def run(fn, *inputs, **options):
    """Checks the results against eager. Returns what a custom post pass saw of the graph, and the artifact."""
    look = Look()
    compiled = compile_ex(fn, options={"post_grad_custom_post_pass": look, **options})
    with torch.no_grad():
        assert_same(compiled(*[x.clone() for x in inputs]), fn(*[x.clone() for x in inputs]), exact=False)
    return look, npugraph.artifacts()[-1]


X = torch.randn(4, 6)
I = torch.arange(6).reshape(2, 3)

# Nodes that return an input unchanged, each between two operators.
NOOPS = {
    "slice": (lambda x: aten.slice(x.sin(), 0, 0, 4).cos(), X),
    "slice_scatter": (lambda x: aten.slice_scatter(x.sin(), x.cos(), 0, 0, 4).exp(), X),
    "repeat": (lambda x: x.sin().repeat(1, 1).cos(), X),
    "constant_pad_nd": (lambda x: torch.constant_pad_nd(x.sin(), [0, 0]).cos(), X),
    "convert_element_type": (lambda x: torch.ops.prims.convert_element_type(x.sin(), torch.float32).cos(), X),
    "ceil": (lambda x: (x + 1).ceil() * 2, I),
    "floor": (lambda x: (x + 1).floor() * 2, I),
    "round": (lambda x: (x + 1).round() * 2, I),
    "trunc": (lambda x: (x + 1).trunc() * 2, I),
    "pow": (lambda x: x.sin().pow(1).cos(), X),
    "cat": (lambda x: torch.cat([x.sin()]).cos(), X),
    "view": (lambda x: x.sin().view(4, 6).cos(), X),
    "clone": (lambda x: x.sin().clone().cos(), X),
    "copy": (lambda x: aten.copy(x.cos(), x.sin()).exp(), X),
}


@pytest.mark.feature("2.03", "1.11", "12e.2")
@pytest.mark.parametrize("name", NOOPS)
def test_noops_go(name) -> None:
    fn, x = NOOPS[name]
    kept, _ = run(fn, x, remove_noop_ops=False)
    torch._dynamo.reset()
    removed, _ = run(fn, x)
    assert len(removed.targets) < len(kept.targets)
    assert name in [t.__name__.split(".")[0] for t in kept.targets] or name == "view"
    assert name not in [t.__name__.split(".")[0] for t in removed.targets]


@pytest.mark.feature("2.03")
@pytest.mark.parametrize(
    ("fn", "kept"),
    [
        (lambda x: (x.clone(), x.sin()), aten.clone.default),  # a result in the memory of an input
        (lambda x: (lambda y: (y, y.clone()))(x.sin()), aten.clone.default),  # two results in one memory
        (lambda x: (x.sin().view(6, 4).cos(),), aten.reshape.default),
        (lambda x: (x.sin()[1:].cos(),), aten.slice.Tensor),
        (lambda x: (x.sin().pow(2),), aten.pow.Tensor_Scalar),
        (lambda x: (x.sin().repeat(2, 1),), aten.repeat.default),
    ],
)
def test_other_operators_stay(fn, kept) -> None:
    assert kept in run(fn, X)[0].targets


@pytest.mark.feature("2.03")
@pytest.mark.parametrize(
    ("noop", "fn"),
    [
        (aten.alias.default, lambda x: aten.alias(x.sin()).cos()),
        (torch.ops.prims.device_put.default, lambda x: torch.ops.prims.device_put(x.sin(), X.device).cos()),
    ],
    ids=["alias", "device_put"],
)
def test_noops_of_graphs_that_others_made_go(noop, fn) -> None:
    """Graphs from torch.compile have no such nodes: eager mode refuses to put a tensor on the device that it is on."""
    look = Look()
    gm = make_fx(fn, tracing_mode="fake")(X)
    assert noop in targets(gm)
    compiled = npugraph_ex.compile_fx(gm, options={"post_grad_custom_post_pass": look})
    assert look.targets == [aten.sin.default, aten.cos.default]
    assert_same(compiled(X), X.sin().cos(), exact=False)


@pytest.mark.feature("1.11")
def test_remove_noop_ops_saves_tasks() -> None:
    tasks = []
    for on in (False, True):
        run(lambda x: x.sin().clone().cos(), X, remove_noop_ops=on, generate_code=False)
        tasks.append(task_names(npugraph.artifacts()[-1]))
        torch._dynamo.reset()
    assert tasks == [["aten.sin.out", "aten.clone", "aten.cos_"], ["aten.sin.out", "aten.cos_"]]


def test_plain_graphs_need_no_fx_passes() -> None:
    """If nothing needs the FX passes, they do not run."""
    compile_ex(lambda x: x.sin().clone().cos())(X)
    (artifact,) = npugraph.artifacts()
    assert artifact.stages[0] == "import"
    assert not artifact.replacements
    assert not artifact.near_misses


@pytest.mark.feature("1.15", "2.02", "2.10", "2.11")
def test_custom_passes_in_their_places() -> None:
    order = []

    def pre(gm, example_inputs, config):
        order.append("pre")
        assert aten.clone.default in targets(gm)
        assert [tuple(value.shape) for value in example_inputs] == [(4, 6)]
        (sin,) = gm.graph.find_nodes(op="call_function", target=aten.sin.default)
        sin.target = aten.cos.default

    def post(gm, example_inputs, config):
        order.append("post")
        assert targets(gm) == [aten.cos.default, aten.reshape.default, aten.exp.default]
        assert config.post_grad_custom_pre_pass.value is pre

    options = {"post_grad_custom_pre_pass": pre, "post_grad_custom_post_pass": post}
    compiled = compile_ex(lambda x: x.sin().clone().view(6, 4).exp(), options=options)
    assert_same(compiled(X), X.cos().view(6, 4).exp(), exact=False)
    assert order == ["pre", "post"]
    (artifact,) = npugraph.artifacts()
    names = [name for name, _ in PASSES]
    changed = artifact.stages[: artifact.stages.index("import")]
    assert changed == ["post_grad_custom_pre_pass", "remove_noop_ops", "view_to_reshape"]
    assert [name for name in names if name in changed] == changed
    assert aten.cos.default in targets(artifact.to_fx("post_grad_custom_pre_pass"))
    assert "torch.ops.aten.clone" in artifact.graph("post_grad_custom_pre_pass")
    assert "torch.ops.aten.clone" not in artifact.graph("remove_noop_ops")
    assert_same(artifact.to_fx("view_to_reshape")(X)[0], X.cos().view(6, 4).exp(), exact=False)


@pytest.mark.feature("2.10", "2.12")
def test_a_custom_pass_that_makes_an_operand_of_a_view_strided() -> None:
    """view_to_reshape turns views into reshapes, which also work on strided operands."""

    def pre(gm, example_inputs, config):
        (sin,) = gm.graph.find_nodes(op="call_function", target=aten.sin.default)
        with gm.graph.inserting_before(sin):
            turned = gm.graph.call_function(aten.permute.default, (sin.args[0], [1, 0]))
            copied = gm.graph.call_function(aten.clone.default, (turned,), {"memory_format": torch.contiguous_format})
            back = gm.graph.call_function(aten.permute.default, (copied, [1, 0]))
        sin.args = (back,)

    compiled = compile_ex(lambda x: x.sin().view(24) * 2, options={"post_grad_custom_pre_pass": pre})
    assert_same(compiled(X), X.sin().view(24) * 2, exact=False)


@pytest.mark.feature("1.15")
def test_custom_passes_that_fail() -> None:
    def breaks(gm, example_inputs, config):
        raise KeyError("mine")

    def leaves_a_broken_graph(gm, example_inputs, config):
        sin, cos = targets_nodes(gm)
        sin.args = (cos,)

    def targets_nodes(gm):
        return [node for node in gm.graph.nodes if node.op == "call_function"]

    for bad, message in ((breaks, "KeyError: 'mine'"), (leaves_a_broken_graph, "before it has been defined")):
        for option in ("post_grad_custom_pre_pass", "post_grad_custom_post_pass"):
            with pytest.raises(Exception, match=f"{option} <function .*{bad.__name__}") as caught:
                compile_ex(lambda x: x.sin().cos(), options={option: bad})(X)
            assert message in str(caught.value)
            torch._dynamo.reset()
    assert_same(compile_ex(lambda x: x.sin().cos())(X), X.sin().cos(), exact=False)


def test_passes_see_both_graphs_of_a_training_step() -> None:
    seen = []

    def look(gm, example_inputs, config):
        seen.append(targets(gm))

    x = X.clone().requires_grad_()
    compile_ex(lambda x: x.sin().sum(), options={"post_grad_custom_pre_pass": look})(x).backward()
    assert_same(x.grad, X.cos(), exact=False)
    assert aten.sin.default in seen[0]
    assert aten.cos.default in seen[1]


@pytest.mark.feature("1.23")
def test_get_npu_backend() -> None:
    config = npugraph_ex.CompilerConfig()
    config.force_eager = True
    config.name = "configured"
    compiled = torch.compile(lambda x: x.sin() * 2, backend=npugraph_ex.get_npu_backend(compiler_config=config))
    assert_same(compiled(X), X.sin() * 2, exact=False)
    (artifact,) = npugraph.artifacts()
    assert artifact.name == "configured"
    assert not artifact.instances
    with pytest.raises(TypeError, match=r"compiler_config is a CompilerConfig, got \{'force_eager': True\} \(dict\)"):
        npugraph_ex.get_npu_backend(compiler_config={"force_eager": True})


@pytest.mark.feature("10.01", "1.23")
def test_custom_decompositions() -> None:
    backend = npugraph_ex.get_npu_backend(
        custom_decompositions={aten.sinh.default: lambda x: (x.exp() - (-x).exp()) / 2}
    )
    compiled = torch.compile(lambda x: x.sinh() + 1, backend=backend)
    assert_same(compiled(X), X.sinh() + 1, exact=False)
    (artifact,) = npugraph.artifacts()
    assert "aten.sinh" not in artifact.graph("import")
    assert "aten.exp" in artifact.graph("import")


@pytest.mark.feature("10.01")
def test_operators_arrive_as_autograd_makes_them() -> None:
    """No table of decompositions is applied, neither that of Inductor nor that of core ATen."""

    def fn(x):
        y = torch.nn.functional.layer_norm(x, (6,)).softmax(-1)
        y = torch.nn.functional.gelu(y) + torch.nn.functional.silu(y) + torch.nn.functional.hardswish(y)
        return torch.addmm(y, y[:, :4], y).clamp(0, 1).var(-1)

    traced = []

    def collect(gm, inputs):
        traced.extend(targets(gm))
        return make_boxed_func(gm.forward)

    look = Look()
    with torch.no_grad():
        torch.compile(fn, backend=lambda gm, xs: aot_module_simplified(gm, xs, fw_compiler=collect))(X)
        compile_ex(fn, options={"post_grad_custom_pre_pass": look})(X)
    whole = {"native_layer_norm", "_softmax", "gelu", "silu", "hardswish", "addmm", "clamp"}
    assert whole <= {target.__name__.split(".")[0] for target in look.targets}
    assert look.targets == traced


@pytest.mark.feature("1.23")
@pytest.mark.parametrize("with_config", [True, False])
def test_a_backend_of_ones_own(with_config) -> None:
    compiler = npugraph_ex.get_compiler() if with_config else npugraph_ex.compile_fx

    def backend(gm, example_inputs):
        return aot_module_simplified(gm, example_inputs, fw_compiler=compiler, keep_inference_input_mutations=True)

    def fn(x, cache):
        cache.add_(1)
        return x.sin() * 2 + cache

    compiled = torch.compile(fn, backend=backend)
    cache, own = torch.zeros(4, 6), torch.zeros(4, 6)
    with torch.no_grad():
        for _ in range(2):
            assert_same(compiled(X, cache), fn(X, own), exact=False)
    assert_same(cache, own)
    (artifact,) = npugraph.artifacts()
    assert artifact.counters["captures"] == 1
    assert "aten.copy_" not in task_names(artifact)


@pytest.mark.feature("1.23")
def test_compile_fx_of_a_traced_graph() -> None:
    gm = make_fx(lambda x: (x.sin() + x.clone().cos(),), tracing_mode="fake")(X)
    before = gm.code
    compiled = npugraph_ex.compile_fx(gm, [X], {"name": "traced"})
    assert_same(compiled(X), (X.sin() + X.cos(),), exact=False)
    assert gm.code == before
    assert [artifact.name for artifact in npugraph.artifacts()] == ["traced"]
    with pytest.raises(ValueError, match="unknown option 'nope'"):
        npugraph_ex.compile_fx(gm, [X], {"nope": 1})


@pytest.mark.feature("2.08c", "11.19")
def test_built_in_rules_are_for_operators_of_torch_npu() -> None:
    """Without that package no rule is listed or tried, not even for batched products of torch."""
    x, w = torch.randn(3, 5, 128), torch.randn(3, 128, 128)
    _, artifact = run(lambda x, w: torch.bmm(x, w).transpose(0, 1), x, w)
    assert not artifact.replacements
    assert not artifact.near_misses
    assert npugraph_ex.replacements() == []


@pytest.mark.feature("9.03")
def test_the_loggers_are_one() -> None:
    import torchair
    from npugraph_ex.core.utils import logger
    from torchair.core.utils import logger as of_torchair

    assert logger is of_torchair is npugraph_ex.logger is torchair.logger
    assert isinstance(logger, logging.Logger)


def test_unknown_names() -> None:
    for module in (npugraph_ex, pytest.importorskip("torchair")):
        with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'nope'"):
            module.nope  # noqa: B018
        assert set(module.__all__) == set(dir(module))
        for name in module.__all__:
            assert getattr(module, name) is not None


def test_boxed_backends_work() -> None:
    """``fw_compiler`` may box the function that ``compile_fx`` returns."""

    def backend(gm, example_inputs):
        def compiler(gm, inputs):
            return make_boxed_func(npugraph_ex.compile_fx(gm, inputs))

        return aot_module_simplified(gm, example_inputs, fw_compiler=compiler)

    assert_same(torch.compile(lambda x: x.sin() + 1, backend=backend)(X), X.sin() + 1, exact=False)


@pytest.mark.feature("2.12")
@pytest.mark.filterwarnings("ignore::npugraph.NpugraphWarning")
def test_values_beside_graphs_inside_of_graphs() -> None:
    def fn(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin().clone(), lambda x: x.cos(), (x,)).clone() * 2

    run(fn, X)
