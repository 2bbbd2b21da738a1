# SPDX-License-Identifier: Apache-2.0
"""What becomes of the options of torchair.CompilerConfig: options of the engine and of backend npugraph_ex, and the
warning about those without effect."""

from __future__ import annotations

import sys
import warnings
from types import SimpleNamespace

import pytest
import torch

from npugraph import NpugraphWarning
from npugraph.ge.config import (
    ROWS,
    CompilerConfig,
    ge_options,
    irrelevant_options,
    npugraph_options,
    recorded_options,
    warn_of_irrelevant,
)
from npugraph.options import parse

LOCAL = {
    "ge.exec.atomicCleanPolicy": "1",
    "ge.exec.memoryOptimizationPolicy": "MemoryPriority",
    "ge.exec.reuseZeroCopyMemory": "1",
    "ge.jit_compile": "2",
}
GLOBAL = {
    "ge.exec.staticMemoryPolicy": "2",
    "ge.opSelectImplmode": "high_precision",
    "ge.exec.allow_hf32": "10",
    "ge.deterministic": "0",
    "ge.deterministicLevel": "0",
    "ge.exec.deviceId": "0",
    "ge.session_device_id": "0",
    "ge_run_with_torch_npu": "0",
}
DUMP = {
    "ge.exec.enableDump": "1",
    "ge.exec.dumpPath": "worldsize1_global_rank0",
    "ge.exec.dumpMode": "all",
    "ge.exec.dumpData": "tensor",
}

# Settings, and the options that the engine then gets besides those above: of the graph, of the process.
ENGINE = [
    ({}, {}, {}),
    ({"ge_config.aicore_num": "24|48"}, {}, {"ge.aicoreNum": "24|48"}),
    ({"ge_config.export_compile_stat": "1"}, {}, {"ge.exportCompileStat": "1"}),
    ({"ge_config.export_compile_stat": "2"}, {}, {}),
    ({"ge_config.enable_single_stream": True}, {"ge.enableSingleStream": "true"}, {}),
    ({"ge_config.oo_level": "O1"}, {"ge.oo.level": "O1"}, {}),
    ({"ge_config.oo_constant_folding": False}, {"ge.oo.constantFolding": "false"}, {}),
    ({"ge_config.oo_constant_folding": True}, {"ge.oo.constantFolding": "true"}, {}),
    ({"ge_config.oo_dead_code_elimination": False}, {"ge.oo.deadCodeElimination": "false"}, {}),
    ({"ge_config.optimization_switch": "A:on;B:off"}, {"ge.optimizationSwitch": "A:on;B:off"}, {}),
    ({"experimental_config.topology_sorting_strategy": "BFS"}, {"ge.topoSortingMode": "0"}, {}),
    ({"experimental_config.topology_sorting_strategy": "RDFS"}, {"ge.topoSortingMode": "2"}, {}),
    ({"experimental_config.topology_sorting_strategy": "StableRDFS"}, {"ge.topoSortingMode": "3"}, {}),
    ({"experimental_config.cc_parallel_enable": True}, {"ge.exec.enableEngineParallel": "1"}, {}),
    ({"experimental_config.tiling_schedule_optimize": True}, {"ge.tiling_schedule_optimize": "1"}, {}),
    ({"experimental_config.memory_efficiency": True}, {"ge.featureBaseRefreshable": "1"}, {}),
    ({"experimental_config.jit_compile": "auto"}, {}, {}),
    (
        {"experimental_config.static_model_ops_lower_limit": -1},
        {"ge.exec.static_model_ops_lower_limit": "-1"},
        {},
    ),
    ({"fusion_config.fusion_switch_file": __file__}, {"ge.fusionSwitchFile": __file__}, {}),
    ({"dump_config.enable_dump": True}, DUMP, {}),
    ({"dump_config.dump_mode": "input"}, {}, {}),
    (
        {
            "dump_config.enable_dump": True,
            "dump_config.dump_path": "/",
            "dump_config.dump_mode": "input",
            "dump_config.dump_step": "0|2-5",
            "dump_config.dump_layer": "Add_1 MatMul",
            "dump_config.dump_data": "stats",
            "dump_config.quant_dumpable": True,
        },
        {
            "ge.exec.enableDump": "1",
            "ge.exec.dumpPath": "/worldsize1_global_rank0",
            "ge.exec.dumpMode": "input",
            "ge.exec.dumpStep": "0|2-5",
            "ge.exec.dumpLayer": "Add_1 MatMul",
            "ge.exec.dumpData": "stats",
            "ge.quant_dumpable": "1",
        },
        {},
    ),
]


@pytest.fixture(autouse=True)
def no_device(monkeypatch):
    """The process as it is without torch_npu."""
    monkeypatch.delenv("ASCEND_DEVICE_ID", raising=False)
    monkeypatch.delitem(sys.modules, "torch_npu", raising=False)


def made(settings, mode="max-autotune"):
    config = CompilerConfig()
    for path, value in {"mode": mode, **settings}.items():
        *branches, name = path.split(".")
        branch = config
        for step in branches:
            branch = getattr(branch, step)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            setattr(branch, name, value)
    return config


def said(config):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_irrelevant(config)
    assert all(issubclass(warning.category, NpugraphWarning) for warning in caught)
    assert all(warning.filename == __file__ for warning in caught)
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize(("settings", "local", "of_process"), ENGINE)
def test_options_of_the_engine(settings, local, of_process) -> None:
    assert ge_options(made(settings)) == (LOCAL | local, GLOBAL | of_process)


def test_a_file_of_the_dump_travels(tmp_path) -> None:
    (tmp_path / "dump.json").write_text("{}")
    config = made({"dump_config.dump_config_path": tmp_path / "dump.json"})
    assert ge_options(config)[0] == LOCAL | {"ge_dump_with_acl_config": str(tmp_path / "dump.json")}


def test_every_option_of_the_engine_is_tested() -> None:
    tested = {name for _, local, of_process in ENGINE for name in {**local, **of_process}}
    assert {row.engine.name for row in ROWS if row.engine} - tested == {"ge.jit_compile", "ge_dump_with_acl_config"}


def test_a_graph_on_the_host() -> None:
    local, _ = ge_options(CompilerConfig(), on_device=False)
    assert local == {name: value for name, value in LOCAL.items() if name != "ge.exec.reuseZeroCopyMemory"}


def test_settings_of_torch_and_of_the_environment(monkeypatch) -> None:
    monkeypatch.setenv("ASCEND_DEVICE_ID", "3")
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
    assert ge_options(CompilerConfig())[1] == GLOBAL | {
        "ge.deterministic": "1",
        "ge.deterministicLevel": "1",
        "ge.exec.deviceId": "3",
        "ge.session_device_id": "3",
    }
    monkeypatch.setenv("ASCEND_DEVICE_ID", "first")
    with pytest.raises(ValueError, match="ASCEND_DEVICE_ID takes the index of a device, got 'first'"):
        ge_options(CompilerConfig())


def test_settings_of_torch_npu(monkeypatch) -> None:
    npu = SimpleNamespace(
        current_device=lambda: 1,
        get_deterministic_level=lambda: 2,
        conv=SimpleNamespace(allow_hf32=False),
        matmul=SimpleNamespace(allow_hf32=True),
    )
    monkeypatch.setitem(sys.modules, "torch_npu", SimpleNamespace())
    monkeypatch.setattr(torch, "npu", npu, raising=False)
    monkeypatch.setenv("ASCEND_DEVICE_ID", "3")
    assert ge_options(CompilerConfig())[1] == GLOBAL | {
        "ge.exec.allow_hf32": "01",
        "ge.deterministicLevel": "2",
        "ge.exec.deviceId": "1",
        "ge.session_device_id": "1",
        "ge_run_with_torch_npu": "1",
    }


def no_change(gm, example_inputs, config):
    pass


OF_VLLM = {
    "debug.run_eagerly": True,
    "debug.aclgraph.disable_reinplace_inplaceable_ops_pass": True,
    "experimental_config.aclgraph._aclnn_static_shape_kernel": True,
    "experimental_config.aclgraph._aclnn_static_shape_kernel_sym_index": 1,
    "experimental_config.aclgraph._aclnn_static_shape_kernel_sym_value_range": [1, 8],
}
BACKEND = [
    ("reduce-overhead", {}, {}),
    (
        "reduce-overhead",
        OF_VLLM,
        {
            "force_eager": True,
            "inplace_pass": False,
            "static_kernel_compile": True,
            "_vllm_aclnn_static_kernel_sym_index": 1,
            "_vllm_aclnn_static_kernel_sym_range": (1, 8),
        },
    ),
    (
        "reduce-overhead",
        {
            "debug.aclgraph.disable_reinplace_input_mutated_ops_pass": True,
            "debug.aclgraph.disable_mempool_reuse_in_same_fx": False,
            "debug.aclgraph.enable_output_clone": True,
            "debug.aclgraph.static_capture_size_limit": 2,
            "debug.aclgraph.clone_input": True,
            "debug.aclgraph.remove_cat_ops": False,
            "aclgraph_config.use_custom_pool": (0, 1),
        },
        {
            "input_inplace_pass": False,
            "reuse_graph_pool_in_same_fx": True,
            "clone_output": True,
            "capture_limit": 2,
            "clone_input": True,
            "remove_cat_ops": False,
            "use_graph_pool": (0, 1),
        },
    ),
    (
        "reduce-overhead",
        {"dump_config.enable_dump": True, "dump_config.dump_path": "/", "dump_config.data_dump_stage": "original"},
        {"dump_tensor_data": True, "data_dump_dir": "/", "data_dump_stage": "original"},
    ),
    (
        "npugraph_ex",
        {"npugraphex_config.capture_limit": 3, "experimental_config.frozen_parameter": True, **OF_VLLM},
        {"capture_limit": 3, "frozen_parameter": True, "force_eager": True},
    ),
    (
        "max-autotune",
        {
            "post_grad_custom_pre_pass": no_change,
            "experimental_config.remove_noop_ops": False,
            "experimental_config.frozen_parameter": True,
            "npugraphex_config.capture_limit": 3,
        },
        {"post_grad_custom_pre_pass": no_change, "remove_noop_ops": False, "frozen_parameter": True},
    ),
    (
        "reduce-overhead",
        {
            "experimental_config.frozen_parameter": True,
            "experimental_config.remove_noop_ops": False,
            "experimental_config.pattern_fusion_pass": False,
            "experimental_config.aclgraph._super_kernel_optimize": True,
            "experimental_config.aclgraph._super_kernel_debug_options": {"debug-aiv-num": 2, "debug-aic-num": 1},
        },
        {
            "frozen_parameter": True,
            "remove_noop_ops": False,
            "pattern_fusion_pass": False,
            "super_kernel_optimize": True,
            "super_kernel_debug_options": {"debug-aiv-num": 2, "debug-aic-num": 1},
        },
    ),
    (
        "npugraph_ex",
        {"experimental_config.remove_noop_ops": False, "experimental_config.pattern_fusion_pass": False},
        {"remove_noop_ops": False, "pattern_fusion_pass": False},
    ),
    ("max-autotune", {"experimental_config.pattern_fusion_pass": False}, {"pattern_fusion_pass": False}),
    ("npugraph_ex", {"debug.deadlock_check": True}, {"deadlock_check": True}),
    ("reduce-overhead", {"debug.deadlock_check": True}, {"deadlock_check": True}),
    ("max-autotune", {"debug.deadlock_check": True}, {}),
    ("max-autotune", {"dump_config.enable_dump": True, "dump_config.dump_path": "/"}, {}),  # the engine does it
]


@pytest.mark.parametrize(("mode", "settings", "options"), BACKEND)
def test_options_of_the_backend(mode, settings, options) -> None:
    config = made(settings, mode)
    assert npugraph_options(config) == options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NpugraphWarning)  # beside force_eager, other options have no effect
        assert {name: parse(npugraph_options(config)).asked(name) for name in options} == options


def test_two_options_that_set_the_same() -> None:
    settings = {"debug.run_eagerly": True, "npugraphex_config.force_eager": True}
    assert npugraph_options(made(settings, "npugraph_ex")) == {"force_eager": True}
    config = made(settings | {"npugraphex_config.force_eager": False}, "npugraph_ex")
    with pytest.raises(
        ValueError, match=r"debug.run_eagerly=True and npugraphex_config.force_eager=False both set opt"
    ):
        npugraph_options(config)


def test_one_warning_names_all_options_of_other_modes() -> None:
    settings = {"debug.graph_dump.type": "py", "npugraphex_config.capture_limit": 3, "debug.run_eagerly": True}
    config = made(settings | OF_VLLM)
    irrelevant = [
        "debug.aclgraph.disable_reinplace_inplaceable_ops_pass",
        "experimental_config.aclgraph._aclnn_static_shape_kernel",
        "experimental_config.aclgraph._aclnn_static_shape_kernel_sym_index",
        "experimental_config.aclgraph._aclnn_static_shape_kernel_sym_value_range",
    ]
    assert irrelevant_options(config) == [*irrelevant, "npugraphex_config.capture_limit"]
    legacy = "".join(f"{path} (of 'reduce-overhead'), " for path in irrelevant)
    names = f"{legacy}npugraphex_config.capture_limit (of 'npugraph_ex')"
    assert said(config) == [f"torchair.CompilerConfig: mode 'max-autotune' ignores {names}"]


def test_options_that_are_what_they_are_anyway_are_not_named() -> None:
    config = made({"ge_config.oo_level": "O3", "aoe_config.aoe_mode": None}, "npugraph_ex")
    assert irrelevant_options(config) == recorded_options(config) == said(config) == []


RECORDED = [row for row in ROWS if row.no_effect and row.granted != (True,)]  # switches have no third value


@pytest.mark.parametrize("row", RECORDED, ids=lambda row: row.path)
def test_options_that_are_recorded(row, tmp_path) -> None:
    for mode in row.modes:
        config = made({row.path: other_value(row, tmp_path)}, mode)
        acts = mode != "max-autotune" and bool(row.option)
        assert recorded_options(config) == ([] if acts else [row.path])
        text = f"torchair.CompilerConfig: {row.path} is recorded and has no effect: {row.no_effect}"
        assert said(config) == ([] if acts else [text])
        assert irrelevant_options(config) == []


GRANTED = [(row, value) for row in ROWS for value in row.granted]


@pytest.mark.parametrize(("row", "value"), GRANTED, ids=[f"{row.path}={value}" for row, value in GRANTED])
def test_options_that_ask_for_what_happens_anyway_are_not_named(row, value) -> None:
    config = made({row.path: value})
    assert config != made({})
    assert recorded_options(config) == said(config) == []


def test_the_usual_options_of_serving_scripts_give_no_warning() -> None:
    usual = {"frozen_parameter": True, "tiling_schedule_optimize": True, "topology_sorting_strategy": "StableRDFS"}
    assert said(made({f"experimental_config.{name}": value for name, value in usual.items()})) == []


def test_options_of_both_kinds_are_in_one_warning() -> None:
    config = made({"debug.aclgraph.clone_input": False, "export.export_name": "mine"})
    (text,) = said(config)
    assert "ignores debug.aclgraph.clone_input (of 'reduce-overhead'); export.export_name is recorded and has" in text


def other_value(row, folder):
    """Returns a value that differs from the default. ``folder`` takes a file of which the value may be the name."""
    file = folder / "settings.json"
    file.write_text("{}")
    others = (not row.default, "/", str(file), "2", "PassA:on", "24|48", 2, "build", lambda node: node)
    for value in (*getattr(row.value, "values", ()), *others):
        try:
            row.check(value)
        except (TypeError, ValueError, FileNotFoundError):
            continue
        if value != row.default and value not in row.granted:
            return value
    raise AssertionError(f"no other value of {row.path}")
