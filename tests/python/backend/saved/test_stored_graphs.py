# SPDX-License-Identifier: Apache-2.0
"""Compiled graphs that other processes use as text, as vLLM for Ascend keeps them, or from the cache of AOTAutograd."""

from __future__ import annotations

import base64
import json
import os
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch

import npugraph
from npugraph import _C
from npugraph.stored import container, fx_graphs
from npugraph.stored.key import MADE_WITH, build_id
from npugraph_ex.npu_fx_compiler import _CompiledFxArtifacts, _CompiledFxGraph
from tests.python.forks import OWN_HASHES, run_python

START = """
import json, sys, torch
from torch._functorch import config as functorch_config
from npugraph import _C

def scores(x, w):
    return torch.nn.functional.gelu(x @ w).softmax(-1), x.sum()

def tensors(rows):
    generator = torch.Generator().manual_seed(rows)
    return [torch.randn(*size, generator=generator) for size in ((rows, 16), (16, 16))]

def tell(results, expected, **facts):
    close = all(torch.allclose(a, b, atol=1e-5) for a, b in zip(results, expected, strict=True))
    print(json.dumps({"close": close, **facts, **_C.process_counters()}))
"""

# Takes the text as vLLM takes it: from a method in the place of the compiler's own.
COMPILE = (
    START
    + """
import npugraph_ex
import npugraph_ex.npu_fx_compiler as home
from npugraph_ex.configs.compiler_config import _process_kwargs_options

config = npugraph_ex.CompilerConfig()
options = {
    "force_eager": True, "inplace_pass": False, "clone_input": False, "clone_output": False,
    "static_kernel_compile": True, "_vllm_aclnn_static_kernel_sym_range": [1, 2], "super_kernel_optimize": True,
    "super_kernel_optimize_options": {"dcci_after_kernel_end": [".*"]},
}
_process_kwargs_options(config, {"options": options})
original = home._NpuFxCompiler._get_compiled_gm

def kept(self, graph, example_inputs):
    compiled = original(self, graph, example_inputs)
    open("graph.txt", "w").write(compiled.get_code())
    return compiled

home._NpuFxCompiler._get_compiled_gm = kept
backend = npugraph_ex.get_npu_backend(compiler_config=config)
with torch.no_grad(), functorch_config.patch(bundled_autograd_cache=sys.argv[1] == "bundled"):
    results = torch.compile(scores, backend=backend, dynamic=True)(*tensors(4))
tell(results, scores(*tensors(4)))
"""
)

LOAD = (
    START
    + """
from npugraph_ex.npu_fx_compiler import _CompiledFxArtifacts, _CompiledFxGraph

artifacts = _CompiledFxArtifacts()
artifacts.py_code = open("graph.txt").read()
function = _CompiledFxGraph.load_artifacts(artifacts)
x, w = tensors(7)
with torch.no_grad():
    tell(function(7, 16, x, w), scores(x, w))
"""
)

# What the process says about a graph that it has not compiled.
LOOK = (
    LOAD
    + """
import npugraph

(artifact,) = npugraph.artifacts()
assert artifact.stages == ["plan"] and artifact.graph() == artifact.program() == artifact.graph("plan")
assert "matmul" in artifact.program() and [task.kind for task in artifact.tasks]
assert artifact.counters["compiles"] == 0 and artifact.counters["eager_runs"] == 1
assert "run 1 time" in artifact.explain() and list(artifact.changes()) == []
assert artifact.buffers and artifact.memory["arena_bytes"] >= 0
for stage in ("import", "lower"):
    try:
        artifact.graph(stage)
    except ValueError as error:
        assert artifact.name in str(error)
    else:
        raise AssertionError(stage)
del artifact, function
assert npugraph.artifacts() == []
"""
)

LEGACY = (
    START
    + """
import warnings
import torchair

config = torchair.CompilerConfig()
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    config.mode = "reduce-overhead"
config.debug.run_eagerly = True
config.debug.aclgraph.disable_reinplace_inplaceable_ops_pass = True
config.experimental_config.aclgraph._aclnn_static_shape_kernel = True
config.experimental_config.aclgraph._aclnn_static_shape_kernel_sym_value_range = [1, 2]
compile = torchair.get_npu_backend(compiler_config=config)

def backend(graph, example_inputs):
    return compile(graph, example_inputs)

with torch.no_grad(), functorch_config.patch(bundled_autograd_cache=True):
    results = torch.compile(scores, backend=backend, dynamic=True)(*tensors(4))
tell(results, scores(*tensors(4)))
"""
)

# Inference with two sizes, and training.
CACHED = (
    START
    + """
options = {"inplace_pass": sys.argv[1] == "inplace"}
compiled = torch.compile(scores, backend="npugraph_ex", dynamic=True, options=options)
functorch_config.bundled_autograd_cache = True
results, expected = [], []
with torch.no_grad():
    for rows in (4, 2):
        results += compiled(*tensors(rows))
        expected += scores(*tensors(rows))
for function, into in ((compiled, results), (scores, expected)):
    inputs = [tensor.requires_grad_() for tensor in tensors(5)]
    values, total = function(*inputs)
    (values.square().sum() + total).backward()
    into += [tensor.grad for tensor in inputs]
tell(results, expected, hits=torch._dynamo.utils.counters["aot_autograd"]["autograd_cache_hit"])
"""
)

# The entry of one graph as a file of bytes, as vLLM bundles it.
BUNDLE = (
    START
    + """
from pathlib import Path
from torch._inductor.standalone_compile import AOTCompiledArtifact
import npugraph_ex

x, w = tensors(4)
if sys.argv[1] == "save":
    def backend(graph, example_inputs):
        function = npugraph_ex.get_npu_backend()(graph, example_inputs)
        Path("entry").write_bytes(function.serialize())
        return function

    with torch.no_grad(), functorch_config.patch(bundled_autograd_cache=True):
        results = torch.compile(scores, backend=backend, dynamic=False)(x, w)
else:
    results = AOTCompiledArtifact.deserialize(Path("entry").read_bytes())(x, w)
tell(results, scores(x, w))
"""
)

PRECOMPILED = (
    START
    + """
example = (tuple(tensors(4)), {})
with torch.no_grad():
    if sys.argv[1] == "save":
        compiled = torch.compile(scores, backend="npugraph_ex", fullgraph=True).aot_compile(example)
        compiled.save_compiled_function("function")
    else:
        compiled = torch.compiler.load_compiled_function(open("function", "rb"))
    tell(compiled(*tensors(4)), scores(*tensors(4)))
"""
)


def process(folder: Path, script: str, *arguments: str, **variables: str) -> dict[str, Any]:
    caches = {"NPUGRAPH_CACHE": str(folder / "code"), "TORCHINDUCTOR_CACHE_DIR": str(folder / "torch")}
    done = run_python("-c", script, *arguments, env=os.environ | caches | variables, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def compiles(result: dict[str, Any]) -> int:
    assert result["close"]
    return result.get("compiles", 0)


@pytest.mark.parametrize("way", ["alone", "bundled"])
def test_text_of_a_compiled_graph(tmp_path, way) -> None:
    assert compiles(process(tmp_path, COMPILE, way)) == 1
    loaded = process(tmp_path, LOAD, **OWN_HASHES)
    assert compiles(loaded) == 0
    assert "kernel_builds" not in loaded


def test_a_graph_from_a_text_is_an_artifact(tmp_path) -> None:
    process(tmp_path, COMPILE, "alone")
    assert compiles(process(tmp_path, LOOK)) == 0


def test_text_of_another_build_says_what_to_do(tmp_path) -> None:
    process(tmp_path, COMPILE, "alone")
    content = container.unpack(base64.b64decode((tmp_path / "graph.txt").read_text()))
    artifacts = _CompiledFxArtifacts()
    artifacts.py_code = base64.b64encode(container.pack(content.meta | {"build": "00"}, content.entries)).decode()
    with pytest.raises(ValueError, match=r"made with build 00, and this is .*; delete the cache that holds it"):
        _CompiledFxGraph.load_artifacts(artifacts)
    for text in ("def forward(x): return x", base64.b64encode(b"def forward(x): return x").decode()):
        artifacts.py_code = text
        with pytest.raises(ValueError, match=r"cannot be used: .*; delete the cache that holds it"):
            _CompiledFxGraph.load_artifacts(artifacts)


def test_builds_of_all_modules_count() -> None:
    """Those of core and _C are what the process finds in memory."""
    core_and_c, module = _C.build_id(), Path(_C.__file__)
    assert build_id(module) == core_and_c[-20:]
    (ascend,) = module.parent.glob("_ascend.*")
    assert MADE_WITH["build"] == (core_and_c + build_id(ascend)).hex()
    assert len(MADE_WITH["build"]) == 2 * 60


def test_text_without_its_machine_code_generates_it_again(tmp_path) -> None:
    process(tmp_path, COMPILE, "alone")
    for file in (tmp_path / "code").rglob("*"):
        if file.is_file():
            file.unlink()
    loaded = process(tmp_path, LOAD)
    assert compiles(loaded) == 0
    assert loaded["kernel_builds"] > 0


def test_values_of_a_stored_graph_die_with_their_last_reader() -> None:
    values: list[weakref.ref] = []
    alive: list[list[bool]] = []

    def double(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        alive.append([value() is not None for value in values])
        result = x * 2
        values.append(weakref.ref(result))
        return result, x

    def step(i: int, name: str) -> list[dict[str, Any]]:
        call = {"name": f"call{i}", "piece": "double", "args": [{"value": name}], "kwargs": {}}
        part = {"name": f"part{i}", "function": "operator.getitem", "args": [{"value": f"call{i}"}, 0], "kwargs": {}}
        return [call, part]

    steps = [*step(0, "x"), *step(1, "part0"), *step(2, "part1"), *step(3, "part1")]
    output = {"tuple": [{"value": "part2"}, {"value": "part3"}]}
    run = fx_graphs.function_of({"inputs": ["x"], "steps": steps, "output": output}, {"double": double})
    results = run(torch.ones(1))
    assert [result.item() for result in results] == [8, 8]
    assert alive == [[], [True], [False, True], [False, True, True]]


def test_cache_of_aot_autograd(tmp_path) -> None:
    first = process(tmp_path, CACHED, "inplace")
    assert (compiles(first), first["hits"]) == (3, 0)
    second = process(tmp_path, CACHED, "inplace", **OWN_HASHES)
    assert (compiles(second), second["hits"]) == (0, 2)
    assert "kernel_builds" not in second
    # Other options are another graph.
    assert compiles(process(tmp_path, CACHED, "functional")) == 3


def test_cache_of_aot_autograd_with_the_legacy_configuration(tmp_path) -> None:
    assert [compiles(process(tmp_path, LEGACY)) for _ in range(2)] == [1, 0]


@pytest.mark.parametrize("script", [BUNDLE, PRECOMPILED], ids=["bundle", "precompiled"])
def test_bytes_of_a_compiled_graph(tmp_path, script) -> None:
    assert compiles(process(tmp_path, script, "save")) == 1
    assert compiles(process(tmp_path, script, "load")) == 0


def test_what_cannot_be_stored_runs(tmp_path, monkeypatch) -> None:
    """A Python task is bound to its process."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))

    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.cond((x.sum() > 0).float(), lambda t: t.sin(), lambda t: t.cos(), (x,)) + 1

    counters = torch._dynamo.utils.counters["aot_autograd"]
    saved = counters["autograd_cache_saved"]
    x = torch.ones(4)
    bundled = torch._functorch.config.patch(bundled_autograd_cache=True)
    with torch.no_grad(), bundled, pytest.warns(npugraph.NpugraphWarning, match="cond"):
        result = torch.compile(model, backend="npugraph_ex")(x)
    torch.testing.assert_close(result, model(x))
    assert counters["autograd_cache_saved"] == saved
