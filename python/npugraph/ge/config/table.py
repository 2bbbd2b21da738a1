# SPDX-License-Identifier: Apache-2.0
"""The options of ``torchair.CompilerConfig``, in one table. The tree of attributes, validation, error texts, what the
engine and backend npugraph_ex get, and the page docs/torchair_config.md derive from it."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

from npugraph.ge.config.row import EX, GE, LEGACY, MODES, EngineOption, Row
from npugraph.option_values import (
    AnyCallable,
    Choice,
    Directory,
    Either,
    File,
    Folder,
    IntRange,
    Pattern,
    Text,
)
from npugraph.options import OPTIONS
from npugraph.ranks import folder_name

_SWITCH = Choice(True, False)
_SWITCH_OR_NONE = Choice(None, True, False)
_OPTIONS_OF_BACKEND = {option.name: option for option in OPTIONS}
_TOPOLOGY = {"BFS": "0", "DFS": "1", "RDFS": "2", "StableRDFS": "3"}
_DUMP = "dump_config.enable_dump"


def _digit(value: bool) -> str:
    return "1" if value else "0"


def _word(value: bool) -> str:
    return "true" if value else "false"


def _like(path: str, option: str, help: str = "", **facts: Any) -> Row:
    """A row with the default and the values of an option of backend npugraph_ex, which it sets."""
    of = _OPTIONS_OF_BACKEND[option]
    return Row(path, of.default, of.value, help or of.help, option=option, **facts)


def _against(path: str, option: str, help: str) -> Row:
    """A switch of the legacy mode that switches an option of backend npugraph_ex off."""
    return Row(path, False, _SWITCH, help, modes=[LEGACY], option=option, to_option=operator.not_)


_GENERAL = (
    Row(
        "mode",
        GE,
        Choice(*MODES),
        "'max-autotune' converts the graph to Ascend IR, which the engine compiles. 'npugraph_ex' compiles as that "
        "backend does, and 'reduce-overhead' is its older form with options of its own.",
        modes=MODES,
        deprecated=[(LEGACY, f"mode {EX!r} does the same, with the options in npugraphex_config")],
    ),
    _like("post_grad_custom_pre_pass", "post_grad_custom_pre_pass", modes=MODES),
    _like("post_grad_custom_post_pass", "post_grad_custom_post_pass", modes=MODES),
)

_DEBUG = (
    Row(
        "debug.graph_dump.type",
        None,
        Choice(None, "txt", "pbtxt", "py"),
        "Write the converted graph before and after its passes. 'txt': protobuf text of the GraphDef. 'pbtxt': text of "
        "a TensorFlow graph, for viewers. 'py': a script that builds the graph. In mode 'reduce-overhead' the graph is "
        "the FX graph, which is code of Python: other kinds are a `RuntimeError`.",
        modes=[GE, LEGACY],
    ),
    Row("debug.graph_dump.path", "./", Folder(), "The directory of these files.", modes=[GE, LEGACY]),
    Row(
        "debug.data_dump.type",
        None,
        Choice(None, "npy"),
        "Run the FX graph operator by operator and write inputs and outputs of its nodes.",
    ),
    Row("debug.data_dump.path", "./", Folder(), "The directory of these files."),
    Row(
        "debug.data_dump.filter",
        None,
        AnyCallable("a function (fx.Node) -> fx.Node | None", 1),
        "Write only nodes for which this returns a node.",
    ),
    Row(
        "debug.fx_summary.type",
        None,
        Choice(None, "csv"),
        "Write a table of the operators of the FX graph: whether they have a converter, how often they are called, and "
        "with what.",
    ),
    Row("debug.fx_summary.path", "./", Directory(), "The directory of this file."),
    Row(
        "debug.fx_summary.skip_compile",
        True,
        _SWITCH,
        "Run the graph operator by operator when its summary is written, and do not compile it.",
    ),
    _like("debug.run_eagerly", "force_eager", "Run the FX graph operator by operator, after its passes.", modes=MODES),
    Row(
        "debug.missing_converters",
        "run_eagerly",
        Choice("run_eagerly", "error"),
        "What becomes of operators that cannot be converted to Ascend IR. 'run_eagerly': they run eagerly between "
        "graphs of the engine, and the log warns of them. 'error': `NotImplementedError`, which names all of them.",
    ),
    _like(
        "debug.deadlock_check",
        "deadlock_check",
        modes=MODES,
        no_effect="Graphs of the engine are not examined for collectives that wait for each other.",
    ),
)

_LEGACY = (
    _against(
        "debug.aclgraph.disable_reinplace_inplaceable_ops_pass",
        "inplace_pass",
        "Do not turn operators into their in-place forms.",
    ),
    _against(
        "debug.aclgraph.disable_reinplace_input_mutated_ops_pass",
        "input_inplace_pass",
        "Do not turn updates of inputs into in-place operators.",
    ),
    _against(
        "debug.aclgraph.disable_mempool_reuse_in_same_fx",
        "reuse_graph_pool_in_same_fx",
        "Captures of one graph for different sizes share no memory.",
    ),
    _like("debug.aclgraph.enable_output_clone", "clone_output", modes=[LEGACY]),
    _like("debug.aclgraph.static_capture_size_limit", "capture_limit", modes=[LEGACY]),
    _like("debug.aclgraph.clone_input", "clone_input", modes=[LEGACY]),
    _like("debug.aclgraph.remove_cat_ops", "remove_cat_ops", modes=[LEGACY]),
    _like("aclgraph_config.use_custom_pool", "use_graph_pool", modes=[LEGACY]),
    _like("experimental_config.aclgraph._aclnn_static_shape_kernel", "static_kernel_compile", modes=[LEGACY]),
    _like(
        "experimental_config.aclgraph._aclnn_static_shape_kernel_sym_index",
        "_vllm_aclnn_static_kernel_sym_index",
        modes=[LEGACY],
    ),
    _like(
        "experimental_config.aclgraph._aclnn_static_shape_kernel_sym_value_range",
        "_vllm_aclnn_static_kernel_sym_range",
        modes=[LEGACY],
    ),
    Row(
        "experimental_config.aclgraph._aclnn_static_shape_kernel_build_dir",
        None,
        Text(),
        "The directory in which static kernels are built.",
        modes=[LEGACY],
        no_effect="Static kernels are built in memory and kept in the directory of `NPUGRAPH_CACHE`.",
    ),
    _like("experimental_config.aclgraph._super_kernel_optimize", "super_kernel_optimize", modes=[LEGACY]),
    _like(
        "experimental_config.aclgraph._super_kernel_optimize_options", "super_kernel_optimize_options", modes=[LEGACY]
    ),
    _like("experimental_config.aclgraph._super_kernel_debug_options", "super_kernel_debug_options", modes=[LEGACY]),
)

_NO_TUNING = "Tuning has no settings: it measures all plans of each product."

_AOE = (
    Row(
        "aoe_config.aoe_mode",
        None,
        Choice(None, "1", "2"),
        "Measure the plans of matrix products of static graphs at the first call, and keep the fastest ones for later "
        "processes, too. '1' and '2' mean the same.",
    ),
    Row("aoe_config.work_path", "./", Directory(), "The directory of a file that says what was measured."),
    Row("aoe_config.aoe_config_file", None, File(), "A file with settings of tuning.", no_effect=_NO_TUNING),
)

_BY_ARGUMENTS = "`torchair.dynamo_export` writes the files that its arguments name."
_NOT_EXPORTED = "`torchair.dynamo_export` does not write this."

_EXPORT = (
    Row(
        "export.export_mode",
        False,
        _SWITCH,
        "Write the graph to files and do not run it.",
        no_effect=_BY_ARGUMENTS,
    ),
    Row("export.export_path_dir", "./", Directory(), "The directory of these files.", no_effect=_BY_ARGUMENTS),
    Row(
        "export.export_name",
        "",
        Text(),
        "The name of the file of the graph, without its suffix.",
        no_effect=_BY_ARGUMENTS,
    ),
    Row("export.weight_name", "", Text(), "The name of the weights in these files.", no_effect=_BY_ARGUMENTS),
    Row("export.inputs_name", "", Text(), "The name of the inputs in these files.", no_effect=_BY_ARGUMENTS),
    Row(
        "export.experimental.enable_record_nn_module_stack",
        False,
        _SWITCH,
        "Write to each operator of the graph from which module it came.",
        no_effect=_NOT_EXPORTED,
    ),
    Row(
        "export.experimental.auto_atc_config_generated",
        False,
        _SWITCH,
        "Write configuration files for a compile on several devices beside the graph.",
        no_effect=_NOT_EXPORTED,
    ),
    Row(
        "export.experimental.enable_lite_export",
        False,
        _SWITCH,
        "Write the graph for the lite runtime.",
        no_effect=_NOT_EXPORTED,
    ),
)


def _folder_of_rank(directory: str) -> str:
    return str(Path(directory) / folder_name())


_DUMPS = (
    _like(
        _DUMP,
        "dump_tensor_data",
        "Write the tensors of the graph at every run. In GE mode they are those of operators of Ascend IR, as `.npy` "
        "files, without changing what the graph computes; the chosen tensors are kept, and so less is fused.",
        modes=[GE, LEGACY],
        engine=EngineOption("ge.exec.enableDump", _digit),
    ),
    _like(
        "dump_config.dump_path",
        "data_dump_dir",
        "The directory in which a dump makes its own directory.",
        modes=[GE, LEGACY],
        engine=EngineOption("ge.exec.dumpPath", _folder_of_rank, when=_DUMP),
    ),
    Row(
        "dump_config.dump_mode",
        "all",
        Choice("input", "output", "all"),
        "Write inputs of operators, outputs or both.",
        engine=EngineOption("ge.exec.dumpMode", when=_DUMP),
    ),
    Row(
        "dump_config.quant_dumpable",
        False,
        _SWITCH,
        "Keep tensors before a quantisation, so that they can be written.",
        engine=EngineOption("ge.quant_dumpable", _digit),
        no_effect="Tensors that a dump chooses are kept in any case.",
        granted=(True,),
    ),
    Row(
        "dump_config.dump_step",
        "",
        Pattern(r"([0-9]+(-[0-9]+)?(\|[0-9]+(-[0-9]+)?)*)?", "numbers and ranges of numbers such as '0|1|2-5', or ''"),
        "Write only at these runs. The first run is 0, and '' means all runs.",
        engine=EngineOption("ge.exec.dumpStep", when=_DUMP),
    ),
    Row(
        "dump_config.dump_layer",
        "",
        Pattern(r'[A-Za-z0-9_/\\." ]*', "names of letters, digits and _ / \\ . \", with spaces between them, or ''"),
        "Write only tensors of operators with these names, and of those in scopes of `torchair.scope.data_dump`. '' "
        "means all operators, if the graph has no such scope.",
        engine=EngineOption("ge.exec.dumpLayer", when=_DUMP),
    ),
    Row(
        "dump_config.dump_data",
        "tensor",
        Choice("tensor", "stats"),
        "Write the elements of tensors, or their statistics as `.csv` files.",
        engine=EngineOption("ge.exec.dumpData", when=_DUMP),
    ),
    Row(
        "dump_config.dump_config_path",
        None,
        File(".json"),
        "A file with an object `dump`, which asks for a dump, too. Its `dump_path`, `dump_mode`, `dump_data` and "
        "`dump_step` come before the options. `dump_list` holds objects with a `model_name`, the name of a graph, and "
        "`layer`, a list of names of operators.",
        engine=EngineOption("ge_dump_with_acl_config"),
    ),
    _like("dump_config.data_dump_stage", "data_dump_stage", modes=[LEGACY]),
)

_OWN_PASSES = "The engine has passes of its own, without Ascend's names and levels."

_ENGINE = (
    Row(
        "fusion_config.fusion_switch_file",
        None,
        File(),
        "A JSON file that switches fusion passes by their names.",
        engine=EngineOption("ge.fusionSwitchFile"),
        no_effect=_OWN_PASSES,
    ),
    Row(
        "ge_config.optimization_switch",
        None,
        Pattern(r"[^\s:;]+:(on|off)(;[^\s:;]+:(on|off))*", "passes with their states, such as 'PassA:on;PassB:off'"),
        "Switch passes of the engine by their names. This overrides fusion_switch_file.",
        engine=EngineOption("ge.optimizationSwitch"),
        no_effect=_OWN_PASSES,
    ),
    Row(
        "ge_config.oo_level",
        "O3",
        Choice("O1", "O3"),
        "'O1' leaves out what makes one operator of several: fusion passes and generated code for several operators.",
        engine=EngineOption("ge.oo.level"),
    ),
    Row(
        "ge_config.oo_constant_folding",
        None,
        _SWITCH_OR_NONE,
        "Compute operators of constants when compiling. None leaves it to the engine.",
        engine=EngineOption("ge.oo.constantFolding", _word),
        no_effect="The engine computes operators of constants at each run.",
        granted=(False,),
    ),
    Row(
        "ge_config.oo_dead_code_elimination",
        None,
        _SWITCH_OR_NONE,
        "Remove operators whose results nothing reads. None means that they are removed.",
        engine=EngineOption("ge.oo.deadCodeElimination", _word),
    ),
    Row(
        "ge_config.export_compile_stat",
        "2",
        Choice("0", "1", "2"),
        "Write statistics of fusion passes: '0' never, '1' when the process ends, '2' after each compile.",
        engine=EngineOption("ge.exportCompileStat", of_process=True),
        no_effect="No statistics of passes are written.",
    ),
    Row(
        "ge_config.enable_single_stream",
        False,
        _SWITCH,
        "Run a static graph on one stream.",
        engine=EngineOption("ge.enableSingleStream", _word),
        no_effect="A graph is on one stream, unless it has scopes of streams, which are then refused.",
        granted=(True,),
    ),
    Row(
        "ge_config.aicore_num",
        None,
        Pattern(r"[1-9][0-9]*\|[1-9][0-9]*", "a number of cube cores and one of vector cores, such as '24|48'"),
        "The most threads that graphs use: the first number for products, convolutions and attention, the second for "
        "all else. A lower limit of `torchair.scope.limit_core_num` holds for its operators.",
        engine=EngineOption("ge.aicoreNum", of_process=True),
    ),
)

_NO_JOINT_GRAPH = "Forward and backward are compiled as two graphs, never as a joint one."

_EXPERIMENTAL = (
    Row(
        "experimental_config.topology_sorting_strategy",
        "DFS",
        Choice("DFS", "BFS", "RDFS", "StableRDFS"),
        "The order of operators. 'StableRDFS' keeps the order of the program.",
        engine=EngineOption("ge.topoSortingMode", _TOPOLOGY.__getitem__),
        no_effect="Operators run in the order of the program.",
        granted=("StableRDFS",),
    ),
    Row(
        "experimental_config.cc_parallel_enable",
        False,
        _SWITCH,
        "Cut all-reduce and the operators beside it into parts, so that they overlap.",
        engine=EngineOption("ge.exec.enableEngineParallel", _digit),
        no_effect="Collectives are not converted to Ascend IR.",
    ),
    Row(
        "experimental_config.static_model_ops_lower_limit",
        None,
        Either(Choice(-1), IntRange(2, 2**63 - 1)),
        "In graphs of unknown sizes, groups of at least so many operators of known sizes are launched as one. -1 means "
        "that there are no such groups.",
        engine=EngineOption("ge.exec.static_model_ops_lower_limit"),
        no_effect="Operators of unknown sizes are launched like others.",
    ),
    Row(
        "experimental_config.jit_compile",
        "auto",
        Choice("auto"),
        "Operators of known sizes are compiled, and for others stored kernels are looked up first.",
        engine=EngineOption("ge.jit_compile", {"auto": "2"}.__getitem__, always=True),
    ),
    Row(
        "experimental_config.tiling_schedule_optimize",
        False,
        _SWITCH,
        "Divide the work of attention on the device, so that new lengths need nothing of the host.",
        engine=EngineOption("ge.tiling_schedule_optimize", _digit),
        no_effect="Lengths need nothing of a device: the host runs the graph.",
        granted=(True,),
    ),
    _like(
        "experimental_config.frozen_parameter",
        "frozen_parameter",
        "Assume that the addresses of parameters are fixed, and pass them once.",
        modes=MODES,
    ),
    Row(
        "experimental_config.enable_ref_data",
        False,
        _SWITCH,
        "Make inputs that the graph writes RefData nodes, which are written in place.",
        no_effect="Inputs that a graph writes are RefData nodes in any case.",
        granted=(True,),
    ),
    Row(
        "experimental_config.enable_view_optimize",
        True,
        _SWITCH,
        "Make one operator of consecutive views and transposes.",
    ),
    Row(
        "experimental_config.keep_inference_input_mutations",
        True,
        _SWITCH,
        "Let the graph write its inputs, so that nothing is copied back after it.",
        no_effect="Graphs write their inputs in any case.",
    ),
    Row(
        "experimental_config.memory_efficiency",
        False,
        _SWITCH,
        "Let graphs give the memory of their intermediate results back between runs.",
        engine=EngineOption("ge.featureBaseRefreshable", _digit),
        no_effect="Graphs keep the memory of their intermediate results.",
    ),
    _like("experimental_config.remove_noop_ops", "remove_noop_ops", modes=MODES),
    _like("experimental_config.pattern_fusion_pass", "pattern_fusion_pass", modes=MODES),
    Row(
        "experimental_config.npu_fx_pass",
        False,
        _SWITCH,
        "Apply replacement rules to joint graphs of training.",
        no_effect=_NO_JOINT_GRAPH,
    ),
    Row(
        "experimental_config.aot_config_enable_joint_graph",
        False,
        _SWITCH,
        "Compile forward and backward of training as one joint graph.",
        no_effect=_NO_JOINT_GRAPH,
    ),
    Row(
        "experimental_config.aot_config_output_loss_index",
        0,
        IntRange(0, 2**31 - 1),
        "Which result of a joint graph is the loss.",
        no_effect=_NO_JOINT_GRAPH,
    ),
    Row(
        "inference_config.dynamic_gears_merge_policy",
        "zip",
        Choice("zip", "product"),
        "How gears of several dimensions are combined: 'zip' pairs them, 'product' takes all combinations.",
    ),
)

# Everything that backend npugraph_ex takes, for its mode.
_OF_EX = tuple(
    _like(f"npugraphex_config.{option.name}", option.name, modes=[EX]) for option in OPTIONS if option.name != "mode"
)

ROWS: tuple[Row, ...] = (
    *(*_GENERAL, *_DEBUG, *_LEGACY, *_AOE, *_EXPORT, *_DUMPS),
    *(*_ENGINE, *_EXPERIMENTAL, *_OF_EX),
)
