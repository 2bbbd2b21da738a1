# SPDX-License-Identifier: Apache-2.0
"""The entry point, its options, and the arguments of torch.compile."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.backends.registry import list_backends, lookup_backend

import npugraph
from npugraph.backend import npugraph_ex
from npugraph.options import OPTIONS, pass_names
from tests.python.backend.checks import assert_same, compile_ex, task_names

NAMES = (
    "name, force_eager, inplace_pass, input_inplace_pass, disable_passes, generate_code, "
    "release_original_weights, verify, max_instances, max_concurrent"
)


def update(x):
    y = x.sin() * 2
    x.add_(1)
    return y.cos() + x


def fill(x):
    return x.sin().scatter(0, torch.arange(2), 0.5)


def run(fn=update, **options):
    """The only artifact of the function, compiled with these options and right."""
    compiled = compile_ex(fn, options=options)
    own = torch.randn(4)
    given = own.clone()
    with torch.no_grad():
        assert_same((compiled(own), own), (fn(given), given), exact=False)
    (artifact,) = npugraph.artifacts()
    return artifact


def test_the_backend_is_found_by_name() -> None:
    assert "npugraph_ex" in list_backends()
    assert lookup_backend("npugraph_ex") is npugraph_ex


def test_defaults() -> None:
    assert ", ".join(option.name for option in OPTIONS) == NAMES
    assert run().options == {
        "name": "",
        "force_eager": False,
        "inplace_pass": True,
        "input_inplace_pass": True,
        "disable_passes": (),
        "generate_code": True,
        "release_original_weights": False,
        "verify": False,
        "max_instances": 64,
        "max_concurrent": 4,
    }


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("name", 3, TypeError, "takes a str, got 3 (int)"),
        ("force_eager", 1, TypeError, "takes a bool, got 1 (int)"),
        ("inplace_pass", None, TypeError, "takes a bool, got None (NoneType)"),
        ("input_inplace_pass", "no", TypeError, "takes a bool, got 'no' (str)"),
        ("disable_passes", "cse", TypeError, "takes a list, got 'cse' (str)"),
        ("disable_passes", ["no such pass"], ValueError, "takes names of graph passes"),
        ("generate_code", "yes", TypeError, "takes a bool, got 'yes' (str)"),
        ("verify", 0, TypeError, "takes a bool, got 0 (int)"),
        ("max_instances", 0, ValueError, "takes an int from 1 to 2**31 - 1, got 0"),
        ("max_instances", True, TypeError, "takes an int, got True (bool)"),
        ("max_concurrent", -1, ValueError, "takes an int from 1 to 2**31 - 1, got -1"),
        ("max_instances", 2**31, ValueError, "takes an int from 1 to 2**31 - 1, got 2147483648"),
        ("max_concurrent", 1.0, TypeError, "takes an int, got 1.0 (float)"),
    ],
)
def test_rejected_values(name, value, error, message) -> None:
    with pytest.raises(error) as direct:
        npugraph_ex(None, [], options={name: value})
    assert str(direct.value).startswith(f"option {name!r} of backend 'npugraph_ex' {message}")
    with pytest.raises(error) as through_dynamo:
        compile_ex(lambda x: x + 1, options={name: value})(torch.ones(3))
    assert str(through_dynamo.value).startswith(str(direct.value))


def test_unknown_options() -> None:
    with pytest.raises(ValueError, match="unknown option") as caught:
        npugraph_ex(None, [], options={"nope": 1})
    assert str(caught.value) == f"unknown option 'nope' of backend 'npugraph_ex'; the options are: {NAMES}"
    with pytest.raises(ValueError, match=r"^unknown option 'nope' of backend 'npugraph_ex'; the options are: "):
        compile_ex(lambda x: x + 1, options={"nope": 1})(torch.ones(3))


def test_a_misspelt_option_is_recognised() -> None:
    with pytest.raises(ValueError, match="unknown option") as caught:
        compile_ex(lambda x: x + 1, options={"generate_cod": False})(torch.ones(3))
    assert str(caught.value).startswith(
        "unknown option 'generate_cod' of backend 'npugraph_ex'; did you mean 'generate_code'? "
        f"The options are: {NAMES}"
    )


def test_options_that_are_no_dict() -> None:
    with pytest.raises(TypeError) as caught:
        compile_ex(lambda x: x + 1, options=["verify"])(torch.ones(3))
    assert str(caught.value).startswith("options of backend 'npugraph_ex' takes a dict, got ['verify'] (list)")


def test_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="takes no mode, got mode='max-autotune'"):
        torch.compile(lambda x: x + 1, backend="npugraph_ex", mode="max-autotune")(torch.ones(3))
    assert torch.equal(
        torch.compile(lambda x: x + 1, backend="npugraph_ex", mode="default")(torch.ones(3)), torch.full((3,), 2.0)
    )


def test_name() -> None:
    assert run(name="mine").name == "mine"


def test_names_are_unique_and_say_what_was_compiled() -> None:
    class Block(torch.nn.Module):
        def forward(self, x):
            return x + 1

    def some_function(x):
        return x * 2

    for fn in (Block(), some_function):
        for n in (3, 4):
            compile_ex(fn, dynamic=False)(torch.ones(n))
    names = [artifact.name for artifact in npugraph.artifacts()]
    assert len(set(names)) == 4
    assert names[2].startswith("some_function")


def passes_that_changed(artifact):
    passes = artifact.stages[:-2]
    texts = [artifact.graph(stage) for stage in passes]
    stages = zip(passes[1:], texts, texts[1:], strict=False)
    return {stage.split(".")[0] for stage, before, after in stages if before != after}


def test_input_inplace_pass() -> None:
    artifact = run()
    assert "reinplace_inputs" in passes_that_changed(artifact)
    assert "aten.copy_" not in task_names(artifact)
    torch._dynamo.reset()
    artifact = run(input_inplace_pass=False)
    assert "reinplace_inputs" not in passes_that_changed(artifact)
    assert any("copy_" in name for name in task_names(artifact))


def test_inplace_pass() -> None:
    assert "reinplace_intermediates" in passes_that_changed(run(fill))
    torch._dynamo.reset()
    assert "reinplace_intermediates" not in passes_that_changed(run(fill, inplace_pass=False))


def test_generate_code() -> None:
    """Without it every operator is a task of torch's own, which is what generated code is compared with."""
    generated = run()
    assert [task.kind for task in generated.tasks if task.kind != "loop"] == ["kernel"]
    assert not any(task.reason for task in generated.tasks if task.kind == "loop")
    torch._dynamo.reset()
    plain = run(generate_code=False)
    assert {task.kind for task in plain.tasks} == {"aten", "kernel"}
    assert {"aten.sin.out", "aten.cos_"} <= set(task_names(plain))
    assert {task.reason for task in plain.tasks if task.kind == "aten"} == {"generate_code is off"}


def test_disable_passes() -> None:
    assert passes_that_changed(run(disable_passes=pass_names())) == set()
    torch._dynamo.reset()
    artifact = run(disable_passes=["reinplace_inputs", "reinplace_intermediates"])
    assert not passes_that_changed(artifact) & {"reinplace_inputs", "reinplace_intermediates"}


def test_verify() -> None:
    assert run(verify=True).options["verify"] is True


@pytest.mark.parametrize("option", ["max_instances", "max_concurrent"])
def test_bounds(option) -> None:
    assert run(**{option: 1}).options[option] == 1


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("fullgraph", [True, False])
def test_modes(mode, dynamic, fullgraph) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()).eval()
    compiled = compile_ex(model, dynamic=dynamic, fullgraph=fullgraph)
    with mode():
        for n in (2, 3):
            x = torch.randn(n, 4)
            got, want = compiled(x), model(x)
            assert_same(got, want, exact=False)
            assert got.requires_grad == want.requires_grad
            assert got.is_inference() == want.is_inference()


def test_graph_breaks() -> None:
    def fn(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y + 1

    x = torch.randn(3)
    assert_same(compile_ex(fn, fullgraph=False)(x), fn(x))
    assert len(npugraph.artifacts()) == 2
    torch._dynamo.reset()
    with pytest.raises(Exception, match="graph_break"):
        compile_ex(fn)(x)
