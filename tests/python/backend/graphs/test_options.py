# SPDX-License-Identifier: Apache-2.0
"""The entry point, its options, and the arguments of torch.compile."""

from __future__ import annotations

import copy
import runpy
import warnings
from pathlib import Path

import pytest
import torch
from torch._dynamo.backends.registry import list_backends, lookup_backend

import npugraph
import npugraph_ex as npugraph_ex_package
from npugraph.backend import npugraph_ex
from npugraph.options import ANY, COMBINATIONS, OPTIONS, Combination, CompilerConfig, parse, pass_names
from tests.python.backend.checks import assert_same, compile_ex, task_names

DEFAULTS = {
    "mode": "npugraph_ex",
    "name": "",
    "force_eager": False,
    "remove_noop_ops": True,
    "remove_cat_ops": True,
    "inplace_pass": True,
    "input_inplace_pass": True,
    "pattern_fusion_pass": True,
    "post_grad_custom_pre_pass": None,
    "post_grad_custom_post_pass": None,
    "disable_passes": (),
    "generate_code": True,
    "horizontal_fusion": True,
    "release_original_weights": False,
    "dump_tensor_data": False,
    "data_dump_stage": "optimized",
    "data_dump_dir": "./",
    "deadlock_check": False,
    "static_kernel_compile": False,
    "disable_static_kernel_compile_cache": False,
    "_vllm_aclnn_static_kernel_sym_index": 0,
    "_vllm_aclnn_static_kernel_sym_range": None,
    "super_kernel_optimize": False,
    "super_kernel_optimize_options": None,
    "super_kernel_debug_options": None,
    "use_graph_pool": None,
    "reuse_graph_pool_in_same_fx": True,
    "clone_input": True,
    "clone_output": False,
    "capture_limit": 64,
    "force_recapture": False,
    "capture_error_mode": "global",
    "frozen_parameter": False,
    "verify": False,
    "max_instances": 64,
    "max_concurrent": 4,
}
NAMES = ", ".join(name for name in DEFAULTS if not name.startswith("_"))


def no_change(gm, example_inputs, config):
    pass


# For each option the values that it takes, and values that it rejects, with the error and a part of its text.
SWITCH = ([True, False], [(1, ValueError, "takes True or False, got 1 (int)"), ("no", ValueError, "got 'no' (str)")])
COUNT = (
    [1, 2**31 - 1],
    [
        (0, ValueError, "takes an int from 1 to 2**31 - 1, got 0 (int)"),
        (2**31, ValueError, "got 2147483648 (int)"),
        (True, ValueError, "got True (bool)"),
        (1.0, ValueError, "got 1.0 (float)"),
    ],
)
PASS = (
    [no_change, None],
    [
        ("no", TypeError, "takes a function (gm, example_inputs, config) -> None, got 'no' (str)"),
        (lambda gm: None, TypeError, "takes a function (gm, example_inputs, config) -> None, got <function"),
    ],
)
VALUES = {
    "mode": (["npugraph_ex"], [("max-autotune", ValueError, "takes 'npugraph_ex', got 'max-autotune' (str)")]),
    "name": (["mine"], [(3, TypeError, "takes a str, got 3 (int)")]),
    "force_eager": SWITCH,
    "remove_noop_ops": SWITCH,
    "remove_cat_ops": SWITCH,
    "inplace_pass": SWITCH,
    "input_inplace_pass": SWITCH,
    "pattern_fusion_pass": SWITCH,
    "post_grad_custom_pre_pass": PASS,
    "post_grad_custom_post_pass": PASS,
    "disable_passes": (
        [[], ["cse"], ("dce", "cse")],
        [
            ("cse", TypeError, "takes a list of names of graph passes, got 'cse' (str)"),
            (["no such"], ValueError, "'no such' is none of "),
        ],
    ),
    "generate_code": SWITCH,
    "horizontal_fusion": SWITCH,
    "release_original_weights": SWITCH,
    "dump_tensor_data": SWITCH,
    "data_dump_stage": (
        ["optimized", "original"],
        [("both", ValueError, "takes 'optimized' or 'original', got 'both' (str)")],
    ),
    "data_dump_dir": (
        ["/", "./"],
        [
            ("/no such", FileNotFoundError, "takes an existing directory, got '/no such' (str)"),
            (__file__, FileNotFoundError, "takes an existing directory"),
            (3, TypeError, "got 3 (int)"),
        ],
    ),
    "deadlock_check": SWITCH,
    "static_kernel_compile": SWITCH,
    "disable_static_kernel_compile_cache": SWITCH,
    "_vllm_aclnn_static_kernel_sym_index": (
        [0, 3],
        [(-1, ValueError, "takes an int from 0 to 2**31 - 1, got -1 (int)"), (False, ValueError, "got False (bool)")],
    ),
    "_vllm_aclnn_static_kernel_sym_range": (
        [None, [], [1, 8], (4,)],
        [
            (3, TypeError, "takes a list of ints, got 3 (int)"),
            ([1, True], TypeError, "got [1, True] (list)"),
            ({1}, TypeError, "got {1} (set)"),
        ],
    ),
    "super_kernel_optimize": SWITCH,
    "super_kernel_optimize_options": (
        [
            None,
            {},
            {"strict-scope-check": "abort"},
            {"strict-scope-check": "bypass"},
            {"feed-sync-all": 1, "stream-fusion": 0, "dcci-before-kernel-start": ["add", "mul"]},
        ],
        [
            (
                "abort",
                RuntimeError,
                "takes a dict of 'strict-scope-check': 'bypass' or 'abort', 'feed-sync-all': 0 or 1,",
            ),
            ({"dcci": ""}, RuntimeError, "there is no 'dcci'"),
            ({3: 1}, RuntimeError, "there is no 3"),
            (
                {"strict-scope-check": 1},
                RuntimeError,
                "got {'strict-scope-check': 1} (dict); 'strict-scope-check' takes 'bypass' or 'abort', got 1 (int)",
            ),
            ({"stream-fusion": True}, RuntimeError, "'stream-fusion' takes 0 or 1, got True (bool)"),
            ({"dcci-after-kernel-end": "add"}, RuntimeError, "takes a list of names of operators, got 'add' (str)"),
            ({"dcci-after-kernel-end": ["add", 3]}, RuntimeError, "names of operators, got ['add', 3] (list)"),
        ],
    ),
    "super_kernel_debug_options": (
        [None, {}, {"debug-aic-num": 1}, {"debug-aiv-num": 1}, {"debug-aic-num": 1, "debug-aiv-num": 2}],
        [
            (
                [],
                RuntimeError,
                "takes a dict of 'debug-aic-num': 0 or 1, 'debug-aiv-num': 0 or 1 or 2, 'debug-sync-all': ",
            ),
            ({"debug-aic-num": 2}, RuntimeError, "(dict); 'debug-aic-num' takes 0 or 1, got 2 (int)"),
            ({"debug-aiv-num": 2}, RuntimeError, "together 1:0, 0:1, 1:1, 1:2, got {'debug-aiv-num': 2} (dict)"),
            ({"debug-aic-num": "1"}, RuntimeError, "'debug-aic-num' takes 0 or 1, got '1' (str)"),
            ({"debug-aic": 1}, RuntimeError, "there is no 'debug-aic'"),
        ],
    ),
    "use_graph_pool": (
        [(0, 1), (3, 0), (0, 0), None],
        [
            ((1, 2), TypeError, "takes a graph pool handle, that is a tuple of two ints of which one is 0, got (1, 2)"),
            ("x", TypeError, "got 'x' (str): Invalid graph pool handle type"),
            ([0, 1], TypeError, "got [0, 1] (list): Invalid graph pool handle type"),
            ((0, True), TypeError, "Invalid graph pool handle type"),
            ((0, 1, 0), TypeError, "Invalid graph pool handle type"),
            ((0, -1), TypeError, "Invalid graph pool handle type"),
        ],
    ),
    "reuse_graph_pool_in_same_fx": SWITCH,
    "clone_input": SWITCH,
    "clone_output": SWITCH,
    "capture_limit": (
        [1, 2, 2**63 - 1],
        [
            (0, ValueError, "takes an int from 1 to 2**63 - 1, got 0 (int)"),
            (2**63, ValueError, "got 9223372036854775808 (int)"),
            (None, ValueError, "got None (NoneType)"),
        ],
    ),
    "force_recapture": SWITCH,
    "capture_error_mode": (
        ["global", "thread_local", "relaxed"],
        [("lax", ValueError, "takes 'global' or 'thread_local' or 'relaxed', got 'lax' (str)")],
    ),
    "frozen_parameter": SWITCH,
    "verify": SWITCH,
    "max_instances": COUNT,
    "max_concurrent": COUNT,
}
REJECTED = [(name, *bad) for name, (_, bads) in VALUES.items() for bad in bads]
ACCEPTED = [(name, good) for name, (goods, _) in VALUES.items() for good in goods]


def update(x):
    y = x.sin() * 2
    x.add_(1)
    return y.cos() + x


def fill(x):
    return x.sin().scatter(0, torch.arange(2), 0.5)


def run(fn=update, **options):
    """Compiles ``fn`` with these options, checks a call against eager, and returns the only artifact."""
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


@pytest.mark.feature("1.01")
def test_every_option_has_its_default() -> None:
    assert {option.name: option.default for option in OPTIONS} == DEFAULTS
    assert CompilerConfig().as_dict() == run().options == DEFAULTS


@pytest.mark.feature("12b.17")
def test_the_page_of_options_is_current() -> None:
    script = runpy.run_path(str(Path(__file__).parents[4] / "scripts/options_page"))
    assert script["PAGE"].read_text() == script["page"](), "docs/options.md is not current: run scripts/options_page"


def test_every_option_has_its_values_here() -> None:
    assert set(VALUES) == set(DEFAULTS)


@pytest.mark.feature("1.01")
@pytest.mark.parametrize(("name", "value"), ACCEPTED)
def test_accepted_values(name, value) -> None:
    config = CompilerConfig()
    setattr(config, name, value)
    wanted = tuple(value) if isinstance(value, list) else value
    assert getattr(config, name).value == wanted
    acts_when_given = next(option for option in OPTIONS if option.name == name).unset
    assert config.is_default(name) == (wanted == DEFAULTS[name] and not acts_when_given)
    assert config.asked(name) == wanted


@pytest.mark.feature("1.01", "1.21", "11.02", "11.11")
@pytest.mark.parametrize(("name", "value", "error", "message"), REJECTED)
def test_rejected_values(name, value, error, message) -> None:
    config = CompilerConfig()
    with pytest.raises(error) as direct:
        setattr(config, name, value)
    assert str(direct.value).startswith(f"option {name!r} of backend 'npugraph_ex' takes ")
    assert message in str(direct.value)
    assert config.is_default(name)
    with pytest.raises(error) as through_dynamo:
        compile_ex(lambda x: x + 1, options={name: value})(torch.ones(3))
    assert str(through_dynamo.value).startswith(str(direct.value))


def other_value(name: str):
    """Returns a value that differs from what the option does if nobody sets it."""
    for value in VALUES[name][0]:
        config = CompilerConfig()
        setattr(config, name, value)
        if not config.is_default(name):
            return value
    raise AssertionError(f"no value of {name} acts")


def said(options: dict) -> list[str]:
    """Returns the warnings about ``options``."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parse(options)
    return [str(w.message) for w in caught if issubclass(w.category, npugraph.NpugraphWarning)]


@pytest.mark.feature("1.01")
@pytest.mark.parametrize("option", [o for o in OPTIONS if o.needs], ids=lambda o: o.name)
def test_options_that_need_others(option) -> None:
    options = {option.name: other_value(option.name)}
    (text,) = said(options)
    needed = " and ".join(map(repr, option.needs))
    assert text == f"npugraph_ex: option {option.name!r} has no effect without {needed}"
    assert said(options | {name: other_value(name) for name in option.needs}) == []
    assert said({option.name: option.default}) == []


@pytest.mark.feature("1.01", "1.03", "1.18")
@pytest.mark.parametrize("row", [row for row in COMBINATIONS if not row.contradicts], ids=lambda row: row.option)
def test_options_without_effect_beside_others(row: Combination) -> None:
    given = {name: other_value(name) if value is ANY else value for name, value in row.beside.items()}
    options = given | {row.option: other_value(row.option) if row.value is ANY else row.value}
    (text,) = said(options)
    others = " and ".join(f"{name}={value!r}" for name, value in given.items())
    assert text == f"npugraph_ex: option {row.option!r} has no effect with {others}: {row.reason}"
    assert said(given) == []
    for name in (name for name, value in given.items() if value != DEFAULTS[name]):
        without = {other: value for other, value in options.items() if other != name}
        assert not any(row.reason in text for text in said(without))


@pytest.mark.feature("1.01", "11.02")
@pytest.mark.parametrize("row", [row for row in COMBINATIONS if row.contradicts], ids=lambda row: row.option)
def test_options_that_contradict_others(row: Combination) -> None:
    options = {row.option: row.value, **row.beside}
    others = " and ".join(f"{name}={value!r}" for name, value in row.beside.items())
    message = f"options of backend 'npugraph_ex' contradict each other: {row.option}={row.value!r} and {others}: "
    config = CompilerConfig()
    for name, value in options.items():
        setattr(config, name, value)
    for use in (
        lambda: compile_ex(lambda x: x + 1, options=options)(torch.ones(3)),
        lambda: npugraph_ex_package.get_npu_backend(compiler_config=config),
    ):
        with pytest.raises(ValueError, match="contradict each other") as caught:
            use()
        assert str(caught.value).startswith(message + row.reason)
    assert said(row.beside) == []


@pytest.mark.feature("1.01", "1.02", "1.03")
def test_options_without_effect_are_named_once_and_the_function_runs() -> None:
    options = {"data_dump_stage": "original", "force_eager": True, "force_recapture": True}
    with pytest.warns(npugraph.NpugraphWarning) as caught:
        run(**options)
    assert [str(w.message) for w in caught if issubclass(w.category, npugraph.NpugraphWarning)] == [
        "npugraph_ex: option 'force_recapture' has no effect with force_eager=True: nothing is captured; option "
        "'data_dump_stage' has no effect without 'dump_tensor_data'"
    ]


@pytest.mark.feature("1.01")
@pytest.mark.parametrize(
    "options",
    [
        DEFAULTS,
        {"force_eager": True, "inplace_pass": False, "clone_input": False},  # those of vLLM
        {"use_graph_pool": (0, 1), "reuse_graph_pool_in_same_fx": False},
        {"disable_passes": ["sink_cat"], "remove_cat_ops": True},
    ],
)
def test_combinations_that_go_together(options) -> None:
    assert said(options) == []


@pytest.mark.feature("1.01", "11.03")
def test_configurations_are_copied_and_refuse_unknown_options() -> None:
    config = CompilerConfig()
    config.force_eager = True
    config.name = "mine"
    assert repr(config) == "CompilerConfig(name='mine', force_eager=True)"
    copied = copy.deepcopy(config)
    copied.force_eager = False
    assert config.force_eager.value and not copied.force_eager.value
    assert npugraph_ex_package.CompilerConfig is CompilerConfig
    for use in (lambda: config.force_eagr, lambda: setattr(config, "force_eagr", True)):
        with pytest.raises(ValueError, match=r"unknown option 'force_eagr'.*did you mean 'force_eager'"):
            use()


@pytest.mark.feature("11.01")
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


@pytest.mark.parametrize("name", ["npugraph", "npugraph_ex"])
def test_both_names_are_the_backend(name: str) -> None:
    compiled, x = torch.compile(lambda x: x.sin() + 1, backend=name, options={"verify": True}), torch.randn(3)
    torch.testing.assert_close(compiled(x), x.sin() + 1)
    (artifact,) = npugraph.artifacts()
    assert artifact.counters["replays"] == 1


@pytest.mark.feature("1.22")
def test_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="takes no mode") as caught:
        torch.compile(lambda x: x + 1, backend="npugraph_ex", mode="reduce-overhead")(torch.ones(3))
    assert str(caught.value).splitlines()[0] == (
        "backend 'npugraph_ex' takes no mode, got mode='reduce-overhead'; it has one mode, whose settings are in "
        "options={...}"
    )
    assert torch.equal(
        torch.compile(lambda x: x + 1, backend="npugraph_ex", mode="default")(torch.ones(3)), torch.full((3,), 2.0)
    )


@pytest.mark.feature("1.22")
def test_backends_with_a_configuration_refuse_other_arguments() -> None:
    backend = npugraph_ex_package.get_npu_backend()
    for given, message in (
        (
            {"mode": "max-autotune"},
            "backend 'npugraph_ex' takes no mode, got mode='max-autotune'; it has one mode, whose settings are in "
            "the compiler_config of get_npu_backend",
        ),
        (
            {"options": {"verify": True}},
            "a backend of get_npu_backend takes no options, got options={'verify': True}; ",
        ),
    ):
        with pytest.raises(ValueError, match="takes no") as caught:
            torch.compile(lambda x: x + 1, backend=backend, **given)(torch.ones(3))
        assert str(caught.value).startswith(message)
    assert torch.equal(
        torch.compile(lambda x: x + 1, backend=backend, mode="default")(torch.ones(3)), torch.full((3,), 2.0)
    )


def test_an_artifact_has_the_name_that_is_given() -> None:
    assert run(name="mine").name == "mine"


class WithLayer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)


def test_names_are_unique_and_say_what_was_compiled() -> None:
    class Block(WithLayer):
        def forward(self, x):
            return self.inner(x) + 1

        def step(self, x):
            return self(x) * 2

    def some_function(x):
        return block(x)

    block = Block()
    for fn in (block, some_function, block.step, block.inner):
        for n in (3, 5):
            with torch.no_grad():
                compile_ex(fn, dynamic=False)(torch.ones(n, 4))
    names = [artifact.name for artifact in npugraph.artifacts()]
    assert len(set(names)) == 8
    wanted = ["Block", "Block", "some_function", "some_function", "Block", "Block", "Linear", "Linear"]
    assert [name.rpartition("_")[0] for name in names] == wanted


def test_names_after_a_graph_break_and_in_a_method() -> None:
    class Block(WithLayer):
        def forward(self, x):
            y = self.inner(x)
            torch._dynamo.graph_break()
            return self.inner(y) + 1

        def compiled(self):
            def nested(x):
                return self.inner(x)

            return compile_ex(nested)

    class OtherName(WithLayer):
        def forward(this, x):
            y = this.inner(x)
            torch._dynamo.graph_break()
            return this.inner(y) + 1

    def of_module(module, x):
        return module.inner(x)

    def in_two(x):
        y = block.inner(x)
        torch._dynamo.graph_break()
        return block.inner(y) + 1

    block, other = Block(), OtherName()
    with torch.no_grad():
        for run_it in (compile_ex(block, fullgraph=False), compile_ex(in_two, fullgraph=False), block.compiled()):
            run_it(torch.ones(3, 4))
        compile_ex(other, fullgraph=False)(torch.ones(3, 4))
        compile_ex(of_module)(block, torch.ones(3, 4))
    names = [artifact.name.rpartition("_")[0] for artifact in npugraph.artifacts()]
    assert names == ["Block", "Block", "in_two", "in_two", "nested", "OtherName", "OtherName", "of_module"]


def passes_that_changed(artifact):
    passes = artifact.stages[:-2]
    texts = [artifact.graph(stage) for stage in passes]
    stages = zip(passes[1:], texts, texts[1:], strict=False)
    return {stage.split(".")[0] for stage, before, after in stages if before != after}


@pytest.mark.feature("1.13")
def test_input_inplace_pass() -> None:
    artifact = run()
    assert "reinplace_inputs" in passes_that_changed(artifact)
    assert "aten.copy_" not in task_names(artifact)
    torch._dynamo.reset()
    artifact = run(input_inplace_pass=False)
    assert "reinplace_inputs" not in passes_that_changed(artifact)
    assert any("copy_" in name for name in task_names(artifact))


@pytest.mark.feature("1.13")
def test_inplace_pass() -> None:
    assert "reinplace_intermediates" in passes_that_changed(run(fill))
    torch._dynamo.reset()
    assert "reinplace_intermediates" not in passes_that_changed(run(fill, inplace_pass=False))


def side_by_side(x, y):
    return torch.cat([x * 2, y + 1, -x], 1), torch.stack([x.abs(), y.neg()])


@pytest.mark.feature("1.12", "2.09")
@pytest.mark.parametrize("generate", [False, True])
def test_remove_cat_ops(generate) -> None:
    """Both values of the option give the same bits. With True, nothing is copied and no task only concatenates."""
    x, y = torch.randn(2, 32, 64).unbind()
    results, names, copied = {}, {}, {}
    for on in (True, False):
        compiled = compile_ex(side_by_side, options={"remove_cat_ops": on, "generate_code": generate})
        results[on] = compiled(x, y)
        (artifact,) = npugraph.artifacts()
        names[on], copied[on] = task_names(artifact), artifact.memory["copied_bytes_per_replay"]
        whole = [task for task in artifact.tasks if task.name in ("aten.cat.out", "aten.stack")]
        assert len(whole) == (0 if on else 2)
        assert all(task.reason.startswith("remove_cat_ops is off") for task in whole)
        npugraph.reset()
    assert_same(results[True], results[False])
    assert_same(results[True], side_by_side(x, y), exact=not generate)
    assert copied == {True: 0, False: 5 * 32 * 64 * 4}
    assert len(names[True]) < len(names[False])


def test_generate_code() -> None:
    """Without generated code, operators are tasks of ATen or precompiled kernels."""
    generated = run()
    assert {task.kind for task in generated.tasks} == {"loop"}
    assert not any(task.reason for task in generated.tasks)
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


@pytest.mark.feature("1.02")
def test_force_eager_runs_all_passes() -> None:
    """It runs the passes over the FX graph, those of the user, and those over our graph, and makes the same tasks."""
    found, looked = [], []

    def fn(x):
        return update(x) * x.sin().clone().cos()

    for force in (False, True):
        torch._dynamo.reset()
        looks = {"post_grad_custom_pre_pass": lambda gm, inputs, config: looked.append(gm)}
        artifact = run(fn, force_eager=force, name="same", **looks)
        stages = artifact.stages[:-2]
        found.append((passes_that_changed(artifact), stages, list(map(artifact.graph, stages)), task_names(artifact)))
    assert found[0] == found[1]
    assert "reinplace_inputs" in found[1][0]
    assert "aten.clone" not in found[1][2][stages.index("import")]
    assert len(looked) == 2


def test_the_option_verify_is_accepted() -> None:
    assert run(verify=True).options["verify"] is True


@pytest.mark.parametrize("option", ["max_instances", "max_concurrent"])
def test_the_smallest_allowed_number_is_accepted(option) -> None:
    assert run(**{option: 1}).options[option] == 1


@pytest.mark.each_value
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("fullgraph", [True, False])
def test_results_follow_the_mode_of_autograd(mode, dynamic, fullgraph) -> None:
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
