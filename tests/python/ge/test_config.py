# SPDX-License-Identifier: Apache-2.0
"""The options of torchair.CompilerConfig: names, defaults, values, errors, and that configurations share nothing."""

from __future__ import annotations

import copy
import pickle
import runpy
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import torchair
from npugraph.ge.config import ROWS, CompilerConfig
from npugraph.options import OPTIONS
from tests.python.forks import run_python

DEFAULTS = {
    "mode": "max-autotune",
    "post_grad_custom_pre_pass": None,
    "post_grad_custom_post_pass": None,
    "debug.graph_dump.type": None,
    "debug.graph_dump.path": "./",
    "debug.data_dump.type": None,
    "debug.data_dump.path": "./",
    "debug.data_dump.filter": None,
    "debug.fx_summary.type": None,
    "debug.fx_summary.path": "./",
    "debug.fx_summary.skip_compile": True,
    "debug.run_eagerly": False,
    "debug.missing_converters": "run_eagerly",
    "debug.deadlock_check": False,
    "debug.aclgraph.disable_reinplace_inplaceable_ops_pass": False,
    "debug.aclgraph.disable_reinplace_input_mutated_ops_pass": False,
    "debug.aclgraph.disable_mempool_reuse_in_same_fx": False,
    "debug.aclgraph.enable_output_clone": False,
    "debug.aclgraph.static_capture_size_limit": 64,
    "debug.aclgraph.clone_input": True,
    "debug.aclgraph.remove_cat_ops": True,
    "aclgraph_config.use_custom_pool": None,
    "experimental_config.aclgraph._aclnn_static_shape_kernel": False,
    "experimental_config.aclgraph._aclnn_static_shape_kernel_sym_index": 0,
    "experimental_config.aclgraph._aclnn_static_shape_kernel_sym_value_range": None,
    "experimental_config.aclgraph._aclnn_static_shape_kernel_build_dir": None,
    "experimental_config.aclgraph._super_kernel_optimize": False,
    "experimental_config.aclgraph._super_kernel_optimize_options": None,
    "experimental_config.aclgraph._super_kernel_debug_options": None,
    "aoe_config.aoe_mode": None,
    "aoe_config.work_path": "./",
    "aoe_config.aoe_config_file": None,
    "export.export_mode": False,
    "export.export_path_dir": "./",
    "export.export_name": "",
    "export.weight_name": "",
    "export.inputs_name": "",
    "export.experimental.enable_record_nn_module_stack": False,
    "export.experimental.auto_atc_config_generated": False,
    "export.experimental.enable_lite_export": False,
    "dump_config.enable_dump": False,
    "dump_config.dump_path": "./",
    "dump_config.dump_mode": "all",
    "dump_config.quant_dumpable": False,
    "dump_config.dump_step": "",
    "dump_config.dump_layer": "",
    "dump_config.dump_data": "tensor",
    "dump_config.dump_config_path": None,
    "dump_config.data_dump_stage": "optimized",
    "fusion_config.fusion_switch_file": None,
    "ge_config.optimization_switch": None,
    "ge_config.oo_level": "O3",
    "ge_config.oo_constant_folding": None,
    "ge_config.oo_dead_code_elimination": None,
    "ge_config.export_compile_stat": "2",
    "ge_config.enable_single_stream": False,
    "ge_config.aicore_num": None,
    "experimental_config.topology_sorting_strategy": "DFS",
    "experimental_config.cc_parallel_enable": False,
    "experimental_config.static_model_ops_lower_limit": None,
    "experimental_config.jit_compile": "auto",
    "experimental_config.tiling_schedule_optimize": False,
    "experimental_config.frozen_parameter": False,
    "experimental_config.enable_ref_data": False,
    "experimental_config.enable_view_optimize": True,
    "experimental_config.keep_inference_input_mutations": True,
    "experimental_config.memory_efficiency": False,
    "experimental_config.remove_noop_ops": True,
    "experimental_config.pattern_fusion_pass": True,
    "experimental_config.npu_fx_pass": False,
    "experimental_config.aot_config_enable_joint_graph": False,
    "experimental_config.aot_config_output_loss_index": 0,
    "inference_config.dynamic_gears_merge_policy": "zip",
}
OF_EX = {f"npugraphex_config.{option.name}": option.default for option in OPTIONS if option.name != "mode"}


def no_change(gm, example_inputs, config):
    pass


def itself(node):
    return node


# For at least one option of each kind: values that it takes, and values that it refuses, with a part of the text.
PASS = (
    [no_change, None],
    [(lambda gm: None, TypeError, "takes a function (gm, example_inputs, config) -> None, got <")],
)
DIRECTORY = (
    ["/", "./"],
    [
        ("/no such", FileNotFoundError, "takes an existing directory, got '/no such' (str)"),
        (3, TypeError, "takes an existing directory, got 3 (int)"),
    ],
)
FOLDER = (
    ["/", "./", "/no such"],
    [
        (__file__, NotADirectoryError, "takes a directory, which is made if it does not exist, got "),
        (3, TypeError, "takes a directory, which is made if it does not exist, got 3 (int)"),
    ],
)
FILE = (
    [__file__, None],
    [
        ("/no such", FileNotFoundError, "takes an existing file, got '/no such' (str)"),
        ("/", FileNotFoundError, "takes an existing file, got '/' (str)"),
        (3, TypeError, "takes an existing file, got 3 (int)"),
    ],
)
SWITCH = ([True, False], [(1, ValueError, "takes True or False, got 1 (int)"), ("true", ValueError, "mean True?")])
SWITCH_OR_NONE = ([None, True, False], [("none", ValueError, "takes None or True or False, got 'none' (str); did you")])
TEXT = (["mine", ""], [(3, TypeError, "takes a str, got 3 (int)")])
VALUES = {
    "mode": (
        ["max-autotune", "npugraph_ex"],
        [
            ("max_autotune", ValueError, "got 'max_autotune' (str); did you mean 'max-autotune'?"),
            ("default", ValueError, "takes 'max-autotune' or 'reduce-overhead' or 'npugraph_ex', got 'default' (str)"),
            (None, ValueError, "got None (NoneType)"),
        ],
    ),
    "post_grad_custom_pre_pass": PASS,
    "post_grad_custom_post_pass": PASS,
    "debug.graph_dump.type": (
        [None, "txt", "pbtxt", "py"],
        [("onnx", ValueError, "takes None or 'txt' or 'pbtxt' or 'py', got 'onnx' (str)")],
    ),
    "debug.graph_dump.path": FOLDER,
    "debug.data_dump.path": FOLDER,
    "debug.data_dump.type": ([None, "npy"], [("txt", ValueError, "takes None or 'npy', got 'txt' (str)")]),
    "debug.data_dump.filter": ([itself, None], [("relu", TypeError, "takes a function (fx.Node) -> fx.Node | None")]),
    "debug.fx_summary.type": ([None, "csv"], [("CSV", ValueError, "got 'CSV' (str); did you mean 'csv'?")]),
    "debug.fx_summary.skip_compile": SWITCH,
    "debug.run_eagerly": SWITCH,
    "debug.deadlock_check": SWITCH,
    "debug.aclgraph.disable_reinplace_inplaceable_ops_pass": SWITCH,
    "debug.aclgraph.disable_reinplace_input_mutated_ops_pass": SWITCH,
    "debug.aclgraph.disable_mempool_reuse_in_same_fx": SWITCH,
    "debug.aclgraph.enable_output_clone": SWITCH,
    "debug.aclgraph.static_capture_size_limit": (
        [1, 2**63 - 1],
        [(0, ValueError, "takes an int from 1 to 2**63 - 1, got 0 (int)")],
    ),
    "debug.aclgraph.clone_input": SWITCH,
    "debug.aclgraph.remove_cat_ops": SWITCH,
    "aclgraph_config.use_custom_pool": ([(0, 1), None], [((1, 2), TypeError, "Invalid graph pool handle type")]),
    "experimental_config.aclgraph._aclnn_static_shape_kernel": SWITCH,
    "experimental_config.aclgraph._aclnn_static_shape_kernel_sym_value_range": (
        [(1, 8), (), None],
        [("1", TypeError, "takes a list of ints, got '1' (str)")],
    ),
    "experimental_config.aclgraph._super_kernel_optimize_options": (
        [{"strict-scope-check": "abort"}, None],
        [({"dcci": ""}, RuntimeError, "there is no 'dcci'")],
    ),
    "aoe_config.aoe_mode": ([None, "2"], [(2, ValueError, "takes None or '1' or '2', got 2 (int); did you mean '2'?")]),
    "aoe_config.aoe_config_file": FILE,
    "export.export_mode": SWITCH,
    "export.export_path_dir": DIRECTORY,
    "export.export_name": TEXT,
    "dump_config.dump_mode": (["input", "output", "all"], [("both", ValueError, "takes 'input' or 'output' or 'all'")]),
    "dump_config.dump_step": (
        ["", "0", "0|1|2-5|6"],
        [
            (
                "0,1",
                ValueError,
                "takes a str of numbers and ranges of numbers such as '0|1|2-5', or '', got '0,1' (str)",
            ),
            ("1|", ValueError, "got '1|' (str)"),
            ("٣", ValueError, "got '٣' (str)"),
            (1, ValueError, "got 1 (int)"),
        ],
    ),
    "dump_config.dump_layer": (
        ["", "Add_1", "Add_1 MatMul_2", "  Add_1   MatMul_2 ", 'a/b\\\\c."d"'],
        [
            ("Add-1", ValueError, 'takes a str of names of letters, digits and _ / \\ . ", with spaces between them'),
            ("Add_1,Mul", ValueError, "got 'Add_1,Mul' (str)"),
            ("ä", ValueError, "got 'ä' (str)"),
            (["Add_1"], ValueError, "got ['Add_1'] (list)"),
        ],
    ),
    "dump_config.dump_data": (["tensor", "stats"], [("stat", ValueError, "did you mean 'stats'?")]),
    "dump_config.dump_config_path": (
        [None],
        [
            (__file__, ValueError, "takes an existing file *.json, got "),
            ("no such.json", FileNotFoundError, "takes an existing file *.json, got 'no such.json' (str)"),
        ],
    ),
    "dump_config.data_dump_stage": (["optimized", "original"], [("", ValueError, "takes 'optimized' or 'original'")]),
    "fusion_config.fusion_switch_file": FILE,
    "ge_config.optimization_switch": (
        ["PassA:on", "PassA:on;PassB:off", None],
        [
            ("PassA", ValueError, "passes with their states, such as 'PassA:on;PassB:off', got 'PassA' (str)"),
            ("PassA:ON", ValueError, "got 'PassA:ON' (str)"),
            ("", ValueError, "got '' (str)"),
        ],
    ),
    "ge_config.oo_level": (["O1", "O3"], [("O2", ValueError, "takes 'O1' or 'O3', got 'O2' (str)")]),
    "ge_config.oo_constant_folding": SWITCH_OR_NONE,
    "ge_config.oo_dead_code_elimination": SWITCH_OR_NONE,
    "ge_config.export_compile_stat": (["0", "1", "2"], [(1, ValueError, "got 1 (int); did you mean '1'?")]),
    "ge_config.enable_single_stream": SWITCH,
    "ge_config.aicore_num": (
        ["24|48", None],
        [("24", ValueError, "got '24' (str)"), ("0|48", ValueError, "such as '24|48', got '0|48' (str)")],
    ),
    "experimental_config.topology_sorting_strategy": (
        ["DFS", "BFS", "RDFS", "StableRDFS"],
        [("stableRDFS", ValueError, "did you mean 'StableRDFS'?")],
    ),
    "experimental_config.static_model_ops_lower_limit": (
        [None, -1, 2, 2**63 - 1],
        [
            (0, ValueError, "takes -1 or an int from 2 to 2**63 - 1, got 0 (int)"),
            (1, ValueError, "got 1 (int)"),
            (-2, ValueError, "got -2 (int)"),
            (2**63, ValueError, "got 9223372036854775808 (int)"),
        ],
    ),
    "experimental_config.jit_compile": (["auto"], [("on", ValueError, "takes 'auto', got 'on' (str)")]),
    "experimental_config.aot_config_output_loss_index": ([0, 3], [(-1, ValueError, "takes an int from 0 to")]),
    "inference_config.dynamic_gears_merge_policy": (["zip", "product"], [("sum", ValueError, "'zip' or 'product'")]),
    "npugraphex_config.force_eager": SWITCH,
    "npugraphex_config.capture_error_mode": (["relaxed"], [("lax", ValueError, "'relaxed', got 'lax' (str)")]),
}
ACCEPTED = [(path, good) for path, (goods, _) in VALUES.items() for good in goods]
REJECTED = [(path, *bad) for path, (_, bads) in VALUES.items() for bad in bads]


def holder(config, path):
    for name in path.split("."):
        config = getattr(config, name)
    return config


def put(config, path, value) -> None:
    branch, _, name = path.rpartition(".")
    setattr(holder(config, branch) if branch else config, name, value)


def test_every_option_has_its_default() -> None:
    assert CompilerConfig().as_dict() == DEFAULTS | OF_EX
    assert repr(CompilerConfig()) == "CompilerConfig()"


@pytest.mark.parametrize(("path", "value"), ACCEPTED)
def test_accepted_values(path, value) -> None:
    config = CompilerConfig()
    put(config, path, value)
    assert holder(config, path).value == value
    assert config.as_dict() == DEFAULTS | OF_EX | {path: value}


@pytest.mark.feature("12b.16")
@pytest.mark.parametrize(("path", "value", "error", "text"), REJECTED)
def test_rejected_values(path, value, error, text) -> None:
    config = CompilerConfig()

    def through_the_holder() -> None:
        holder(config, path).value = value

    for use in (lambda: put(config, path, value), through_the_holder):
        with pytest.raises(error) as raised:
            use()
        assert str(raised.value).startswith(f"option {path!r} of torchair.CompilerConfig takes ")
        assert text in str(raised.value)
    assert config == CompilerConfig()


def test_values_are_set_through_holders_too() -> None:
    config = CompilerConfig()
    config.debug.graph_dump.type.value = "py"
    assert config.as_dict()["debug.graph_dump.type"] == "py"


def test_a_file_for_the_dump(tmp_path) -> None:
    (tmp_path / "dump.json").write_text("{}")
    config = CompilerConfig()
    config.dump_config.dump_config_path = tmp_path / "dump.json"
    assert config.dump_config.dump_config_path.value == str(tmp_path / "dump.json")


@pytest.mark.parametrize(
    ("path", "likely"),
    [
        ("debug.run_eager", "'debug.run_eagerly'"),
        ("debug.graph_dump.typ", "'debug.graph_dump.type'"),
        ("experimental", "'export.experimental'"),
        ("enable_ref_data", "'experimental_config.enable_ref_data'"),
        ("frozen_parameter", "'experimental_config.frozen_parameter' or 'npugraphex_config.frozen_parameter'"),
        ("ge_config.frozen_parameters", "'experimental_config.frozen_parameter' or 'npugraphex_config.frozen_param"),
        ("experimental_config.aclgraph._aclnn_static_kernel", "'experimental_config.aclgraph._aclnn_static_shape_ker"),
        ("debug._aclgraph", "'debug.aclgraph'"),
    ],
)
def test_unknown_names_and_what_was_meant(path, likely) -> None:
    for use in (lambda c: holder(c, path), lambda c: put(c, path, True)):
        with pytest.raises(ValueError) as raised:
            use(CompilerConfig())
        assert str(raised.value).startswith(f"torchair.CompilerConfig has no option {path!r}; did you mean {likely}")


def test_unknown_names_that_resemble_nothing() -> None:
    config = CompilerConfig()
    with pytest.raises(ValueError) as raised:
        config.zzz = 1
    branches = dict.fromkeys(path.partition(".")[0] for path in DEFAULTS | OF_EX)
    assert str(raised.value) == f"torchair.CompilerConfig has no option 'zzz'; the names are: {', '.join(branches)}"
    with pytest.raises(ValueError, match=r"has no option 'debug.data_dump.zzz'; the names in 'debug.data_dump' are: "):
        _ = config.debug.data_dump.zzz
    assert not hasattr(config.debug, "zzz")


def test_a_branch_takes_no_value() -> None:
    config = CompilerConfig()
    with pytest.raises(ValueError, match=r"'debug.graph_dump' of .* takes no value; set debug.graph_dump.type, debug"):
        config.debug.graph_dump = "py"


def test_names_are_listed() -> None:
    assert dir(CompilerConfig().debug.graph_dump) == ["path", "type"]
    assert {"mode", "debug", "ge_config", "npugraphex_config"} <= set(dir(CompilerConfig()))


def test_the_legacy_mode_is_deprecated() -> None:
    config = CompilerConfig()
    with pytest.warns(
        DeprecationWarning, match="'mode' .* 'reduce-overhead' is deprecated; mode 'npugraph_ex'"
    ) as said:
        config.mode = "reduce-overhead"
    assert [warning.filename for warning in said] == [__file__]
    with pytest.warns(DeprecationWarning) as said:
        config.mode.value = "reduce-overhead"
    assert [warning.filename for warning in said] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert copy.deepcopy(config) == config
        config.mode = "npugraph_ex"


ASSIGNMENTS = st.dictionaries(st.sampled_from(sorted(VALUES)), st.integers(0, 3)).map(
    lambda chosen: {path: VALUES[path][0][index % len(VALUES[path][0])] for path, index in chosen.items()}
)


@settings(deadline=None)
@given(ASSIGNMENTS)
def test_configurations_share_nothing(assignments) -> None:
    config, other = CompilerConfig(), CompilerConfig()
    for path, value in assignments.items():
        put(config, path, value)
    assert other == CompilerConfig() and other.as_dict() == DEFAULTS | OF_EX
    for copied in (copy.deepcopy(config), copy.copy(config), pickle.loads(pickle.dumps(config))):
        assert type(copied) is CompilerConfig
        assert copied == config and copied.as_dict() == DEFAULTS | OF_EX | assignments
        copied.ge_config.oo_level = "O1" if config.ge_config.oo_level.value == "O3" else "O3"
        copied.export.export_name = "other"
        assert copied != config and config.as_dict() == DEFAULTS | OF_EX | assignments


def test_values_of_copies_are_their_own() -> None:
    config = CompilerConfig()
    config.npugraphex_config.super_kernel_optimize_options = given = {"feed-sync-all": 1}
    copied = copy.deepcopy(config)
    copied.npugraphex_config.super_kernel_optimize_options.value["feed-sync-all"] = 0
    given["feed-sync-all"] = 0
    assert config.npugraphex_config.super_kernel_optimize_options.value == {"feed-sync-all": 1}


def test_configurations_are_equal_when_their_values_are() -> None:
    config, other = CompilerConfig(), CompilerConfig()
    config.debug.run_eagerly = False  # what it is anyway
    assert config == other and config.debug == other.debug
    assert config != "config" and config.debug != other.export
    config.debug.aclgraph.clone_input = True  # asks for copies, which nobody else did
    assert config != other and config.debug != other.debug and config.export == other.export


def test_a_branch_is_a_part_of_its_configuration() -> None:
    config = CompilerConfig()
    debug = config.debug
    debug.run_eagerly = True
    debug.graph_dump.type = "py"
    assert config.debug.run_eagerly.value is True
    assert repr(config) == "CompilerConfig(debug.graph_dump.type='py', debug.run_eagerly=True)"
    assert repr(debug.graph_dump) == "CompilerConfig.debug.graph_dump(type='py')"
    copied = copy.deepcopy(debug)
    copied.run_eagerly = False
    assert config.debug.run_eagerly.value is True and copied.graph_dump == debug.graph_dump


@settings(deadline=None)
@given(
    st.sampled_from([row.path for row in ROWS]),
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.lists(st.integers(), max_size=2), st.floats()),
)
def test_any_value_is_taken_or_refused(path, value) -> None:
    config = CompilerConfig()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            put(config, path, value)
    except (ValueError, TypeError, FileNotFoundError, RuntimeError) as error:
        assert str(error).startswith(f"option {path!r} of torchair.CompilerConfig takes ") and repr(value) in str(error)
        assert config == CompilerConfig()
    else:
        assert holder(config, path).value == (tuple(value) if isinstance(value, list) else value)


def test_the_page_of_the_configuration_is_current() -> None:
    script = runpy.run_path(str(Path(__file__).parents[3] / "scripts/torchair_config_page"))
    assert script["PAGE"].read_text() == script["page"](), "run scripts/torchair_config_page"


def test_every_option_without_effect_says_why() -> None:
    for row in ROWS:
        assert row.help.endswith(".") and row.modes
        assert not row.no_effect or row.no_effect.endswith(".")


def test_import_paths() -> None:
    from torchair.configs.compiler_config import CompilerConfig as of_configs

    assert torchair.CompilerConfig is torchair.configs.compiler_config.CompilerConfig is of_configs is CompilerConfig


def test_import_of_torchair_does_not_import_the_configuration() -> None:
    code = "import sys, torchair; assert 'npugraph.ge' not in sys.modules; torchair.CompilerConfig().debug.run_eagerly"
    run_python("-c", code, check=True)
