# SPDX-License-Identifier: Apache-2.0
"""The rows of docs/features.md: the features of Ascend's graph mode, by the numbers of their list.

Tests name the rows that they prove. ``REMARKS`` has a text for every other row.
"""

SECTIONS = {
    "1. Options of `npugraph_ex`": {
        "1.01": "Each option has a type, a default and allowed values.",
        "1.02": "`force_eager` runs all passes, and then the operators one by one without a capture.",
        "1.03": "`use_graph_pool` lets several graphs share one pool of memory.",
        "1.04": "`reuse_graph_pool_in_same_fx` lets all sizes of one graph share a pool of memory.",
        "1.05": "`clone_input` copies the inputs into memory of the graph before each replay.",
        "1.06": "`clone_output` copies the results, so that the next call does not overwrite them.",
        "1.07": "`capture_limit` bounds the number of captures of one graph.",
        "1.08": "`force_recapture` captures the graph again before every run.",
        "1.09": "`capture_error_mode` says which threads a running capture restricts.",
        "1.10": "`frozen_parameter` treats the addresses of parameters as fixed.",
        "1.11": "`remove_noop_ops` switches the removal of operators without effect (2.03).",
        "1.12": "`remove_cat_ops` switches the removal of concatenations (2.09).",
        "1.13": "`inplace_pass` and `input_inplace_pass` switch the in-place passes (2.13 and 2.14).",
        "1.14": "`pattern_fusion_pass` switches the built-in fusion rules and those of the user.",
        "1.15": "The user can add one FX pass before the built-in passes and one after them.",
        "1.16": "`static_kernel_compile` builds kernels for the exact sizes of each capture.",
        "1.17": "Two private options restrict static kernels to chosen sizes.",
        "1.18": "`super_kernel_optimize` merges the kernels of a scope into one task.",
        "1.19": "`dump_tensor_data` writes the tensors of a graph to files.",
        "1.20": "`deadlock_check` examines each capture for deadlocks between streams.",
        "1.21": "The option `mode` accepts `npugraph_ex` alone.",
        "1.22": "`torch.compile(mode=...)` is refused and not ignored.",
        "1.23": "Custom backends can use `compile_fx`, `get_compiler` and `get_npu_backend`.",
        "1.24": "Each static size needs a compile of its own. Dynamic sizes share one compile and need a capture each.",
        "1.25": "A graph replays on the stream of its caller. Waits, random numbers and training work too.",
    },
    "2. FX passes of `npugraph_ex`": {
        "2.01": "Streams and events of the program become marks in the graph.",
        "2.02": "The custom pre pass runs before all other passes.",
        "2.03": "Operators without effect are removed, for example a slice that takes the whole tensor.",
        "2.04": "The update of a view of an input happens in place.",
        "2.05": "AddRmsNorm and DynamicQuant become one operator.",
        "2.06": "AddRmsNorm, a flattening view and DynamicQuant become one operator.",
        "2.07": "AddRmsNorm and a conversion to float32 become one operator.",
        "2.08a": "A batched matrix product and the transposes around it become one operator.",
        "2.08b": "AddRmsNorm and Quantize become one operator.",
        "2.08c": "All fusion rules have common conditions, for example that all operators are on one stream.",
        "2.08d": "Further rules act on the joint graph of training or serve one kind of model.",
        "2.09": "The parts of a concatenation are computed in the memory of its result.",
        "2.10": "Every `view` becomes a `reshape` after the fusions.",
        "2.11": "The custom post pass runs after all other passes, and the graph is checked behind it.",
        "2.12": "The metadata of nodes is computed again after the passes.",
        "2.13": "An operator overwrites an intermediate value that nothing reads later.",
        "2.14": "The update of an input happens in place, without a copy at the end.",
        "2.15": "Side streams begin after the start of a graph and are joined before its end.",
        "2.16": "Events of the graph are kept apart from events of the program around it.",
        "2.17": "Unused operators are removed unless they have side effects.",
        "2.18": "`register_replacement` adds a fusion rule of the user.",
        "2.19": "A copy of a tensor to itself is removed.",
        "2.20": "Attention can take preallocated memory for its results and its workspace.",
        "2.21": "The core limits of a scope also hold for streams that are entered inside it.",
        "2.22": "`dump_tensor_data` adds a dump behind each tensor of the graph.",
        "2.23": "The compiled graph is available as Python code that runs.",
    },
    "3. Capture, replay and memory": {
        "3.01": "Each set of sizes and parameter addresses has a capture. Lengths that can be refreshed do not count.",
        "3.02": "Parameters and inputs with a static address are used where they are and never copied.",
        "3.03": "A graph is captured again when a written input moves, when core limits change, or on request.",
        "3.04": "The first call captures the graph and takes the memory for all later calls.",
        "3.05": "Captures of different sizes reuse one another's memory.",
        "3.06": "Inputs are copied to the graph in one batch.",
        "3.07": "Without copies of the results the next call overwrites them.",
        "3.08": "A graph beyond its limit of captures runs eagerly.",
        "3.09": "The sequence lengths of attention change without a new capture.",
        "3.10": "`torch.npu.NPUGraph` and the functions around it capture and replay by hand.",
        "3.11": "Waits of the host and raw requests for memory are refused during a capture.",
        "3.12": "Graphs accept numbers that the host reads, and CPU tensors.",
        "3.13": "Captures and replays have labels in profiles.",
        "3.14": "A static kernel is built once, and all processes share it.",
        "3.15": "Single tensors can be saved and printed at every replay.",
        "3.16": "Streams and devices have limits for their cores.",
    },
    "4. Streams, events, core limits and scopes": {
        "4.01": "Compiled code can use the streams and events of `torch.npu`.",
        "4.02": "The library `npugraph_ex` has operators for scopes and events.",
        "4.03": "A custom pass can order streams by `record` and `wait`.",
        "4.04": "`npugraph_ex.scope.limit_core_num` limits the cores of a block of code.",
        "4.05": "`torchair.scope.npu_stream_switch` puts operators on the stream of a tag.",
        "4.06": "`torchair.scope.npu_wait_tensor` lets one tensor wait for another.",
        "4.07": "`torchair.ops.record` and `wait` order streams.",
        "4.08": "Events with tags order the streams of the legacy mode.",
        "4.09": "`torchair.scope.limit_core_num` limits the cores of single operators.",
        "4.10": "`ge_config.aicore_num` limits the cores of a session.",
        "4.11": "A super kernel scope merges adjacent operators into one task.",
        "4.12": "`torchair.scope.op_never_timeout` exempts operators from the time limit.",
        "4.13": "`torchair.scope.data_dump` selects operators for a dump.",
        "4.14": "Some scopes switch the folding of views off (6.30).",
        "4.15": "Scopes end in the graph in which they begin, and concurrent collectives fit the device.",
    },
    "5. Inference: cache and gears": {
        "5.01": "`npugraph_ex.inference.cache_compile` keeps compiled graphs for later processes.",
        "5.02": "`torchair.inference.cache_compile` keeps graphs of GE mode.",
        "5.03": "`cache_compile` takes methods of modules that are one graph without gradients.",
        "5.04": "The key of a cache holds the options, and its path shows the model and the ranks.",
        "5.05": "A cache file belongs to its owner alone, and a broken file is written anew.",
        "5.06": "A cached function compiles again for other arguments.",
        "5.07": "The first call of a loaded function checks sizes and strides.",
        "5.08": "A loaded graph finds its process groups by their ranks.",
        "5.09": "`readable_cache` shows a cache file as text.",
        "5.10": "What GE compiled is kept, with or without `ge_cache`.",
        "5.11": "`set_dim_gears` lists the sizes, called gears, that a dimension may have.",
        "5.12": "Gears of several dimensions are combined in pairs or as a product.",
        "5.13": "One compile makes a static plan for each gear.",
        "5.14": "`torchair.llm_datadist.create_npu_tensors` makes tensors over given addresses.",
    },
    "6a. Configuration of GE mode": {
        "6.01": "`mode` selects GE mode, the legacy mode or `npugraph_ex`.",
        "6.02": "GE mode runs the custom passes of the user too.",
        "6.03": "`debug.graph_dump` writes the graph as text or as a Python script.",
        "6.04": "`debug.data_dump` runs the graph eagerly and writes the values of chosen nodes.",
        "6.05": "`debug.fx_summary` lists the operators of a graph and their state of support.",
        "6.06": "`debug.run_eagerly` runs the graph operator by operator.",
        "6.07": "`debug.deadlock_check` examines static graphs for deadlocks.",
        "6.08": "The legacy mode has switches for passes, memory pools and copies.",
        "6.09": "`aoe_config` tunes operators of static graphs.",
        "6.10": "`export` holds the settings of an offline export.",
        "6.11": "`dump_config` selects the layers, steps and tensors of a dump on the device.",
        "6.12": "`fusion_config` names a file that switches fusion passes.",
        "6.13": "`ge_config.optimization_switch` switches passes by their names.",
        "6.14": "`ge_config` sets the level of optimization, and switches constant folding and dead code elimination.",
        "6.15": "`ge_config.export_compile_stat` says when statistics of a compile are written.",
        "6.16": "`ge_config.enable_single_stream` runs a static graph on one stream.",
        "6.17": "`ge_config.aicore_num` sets the number of cores.",
        "6.18": "`topology_sorting_strategy` selects the order of nodes.",
        "6.19": "`cc_parallel_enable` cuts all-reduce into parts that overlap with computation.",
        "6.20": "`static_model_ops_lower_limit` groups the static operators of a dynamic graph.",
        "6.21": "`jit_compile` selects between compilation at run time and stored kernels.",
        "6.22": "`tiling_schedule_optimize` computes the tiling of attention on the device.",
        "6.23": "`frozen_parameter` passes the addresses of parameters once.",
        "6.24": "`enable_ref_data` makes a graph write its inputs in place.",
        "6.25": "More experimental options control passes, memory and the joint graph.",
        "6.26": "`inference_config` selects the combination of gears (5.12).",
        "6.27": "GE receives each setting under the name that it has there.",
    },
    "6b. Passes, converters and views of GE mode": {
        "6.28": "FX passes run in a fixed order before the conversion.",
        "6.29": "Further passes rewrite the converted graph.",
        "6.30": "A chain of views and transposes becomes one operator.",
        "6.31": "`register_fx_node_ge_converter` adds a converter for an operator.",
        "6.32": "`ge.custom_op` puts an operator of the user into the converted graph.",
        "6.33": "`ge.Const`, `ge.Cast` and `ge.Clone` make simple nodes.",
        "6.34": "Each operator of Ascend's IR has a function that makes its node.",
        "6.35": "`torchair.ge` has its own types for data types, formats and tensors.",
        "6.36": "An operator without a converter is matched to an operator of the IR by its name.",
        "6.37": "The conversion of `auto_functionalized_v2` copies only tensors that need a copy.",
        "6.38": "Random numbers of a graph follow the seed of torch.",
        "6.39": "Weights can have internal formats of Ascend.",
    },
    "6c. Life of a graph in GE mode": {
        "6.40": "The IR is a protobuf model that can be stored and read back.",
        "6.41": "Inputs, constants and outputs of the FX graph become nodes of the IR.",
        "6.42": "`TorchNpuGraph` loads, compiles and runs a converted graph.",
        "6.43": "The first call starts the engine and compiles. Later calls only run.",
        "6.44": "CPU, static, dynamic and geared graphs have different executors.",
        "6.45": "Each run checks its stream, the devices of its inputs and its results.",
        "6.46": "Graphs share memory for intermediate values, and results can take the memory of inputs.",
        "6.47": "`torchair.dynamo_export` writes a model to files for use without Python.",
        "6.48": "`torchair.patch_for_hcom` adapts the collectives of torch 2.1.",
    },
    "7. Custom operators": {
        "7.01": "A C++ extension registers an operator and its kernel for npu.",
        "7.02": "A YAML entry generates the registration of an operator.",
        "7.03": "Two example extensions use pybind and `TORCH_LIBRARY`.",
        "7.04": "The Meta function of an operator describes its results in a graph.",
        "7.05": "An operator that writes its arguments writes them in place in a graph too.",
        "7.06": "GE derives sizes and types from the Meta function, or the user supplies them.",
        "7.07": "GE mode needs a converter for each custom operator. `npugraph_ex` needs none.",
        "7.08": "A fusion rule can insert a custom operator.",
        "7.09": "The lengths of a custom operator can change without a new capture.",
        "7.10": "A graph can hold Triton kernels.",
    },
    "8. Collectives": {
        "8.01": "Graphs hold the collectives and transfers of `torch.distributed`.",
        "8.02": "Graphs hold functional collectives and the operators of `npu_define`.",
        "8.03": "Collectives that a graph cannot hold are refused.",
        "8.04": "Bitwise reductions compute the operation of their name.",
        "8.05": "Graphs and caches identify a group by its ranks.",
        "8.06": "Collectives on side streams become part of a capture.",
        "8.07": "Collectives and computation overlap.",
    },
    "9. Debugging": {
        "9.01": "`TORCH_COMPILE_DEBUG=1` writes every stage of a graph to a file.",
        "9.02": "The log lists the nodes that each pass added and removed.",
        "9.03": "All packages share one logger, which has an extra level for the times of phases.",
        "9.04": "`torchair.ops.npu_print` prints tensors from a converted graph.",
        "9.05": "All tensors of a graph can be saved.",
        "9.06": "A program can save a single tensor at every replay.",
        "9.07": "GE dumps the tensors of chosen layers and scopes.",
        "9.08": "An eager run dumps the inputs and outputs of operators.",
        "9.09": "The deadlock check finds collectives that compete for cores.",
        "9.10": "A file counts the matches of each fusion.",
        "9.11": "The labels of 3.13 are ranges in a profile.",
        "9.12": "One command finds the step at which results become wrong.",
    },
    "10. Decompositions and operators": {
        "10.01": "Operators arrive as autograd makes them, except for decompositions of the user.",
        "10.02": "Nearest upsampling stays one operator, and its results are described correctly.",
        "10.03": "`BREAK_GRAPH_OP_LIST` names operators at which graphs break.",
        "10.04": "Every operator with an eager kernel and a Meta function works in a graph.",
        "10.05": "Each converter declares example calls, which serve as its tests.",
        "10.06": "GE mode supports a list of ATen operators with their data types.",
    },
    "11. Errors and warnings": {
        "11.01": "An unknown option is an error that lists the options.",
        "11.02": "A value that an option does not allow is an error before the compile.",
        "11.03": "An unknown attribute of a configuration is an error.",
        "11.04": "One warning lists the settings of torchair that the mode ignores.",
        "11.05": "An error ends with a line in Ascend's format.",
        "11.06": "An operator without a converter is an error that names it.",
        "11.07": "An operator without a Meta function is an error that names it.",
        "11.08": "A Meta function that returns a tensor of another device is an error.",
        "11.09": "A scope that does not end is an error.",
        "11.10": "A stream that is not restored is an error.",
        "11.11": "A wrong handle of a memory pool is an error.",
        "11.12": "A graph that reaches its limit of captures gives a warning.",
        "11.13": "A run on another stream than that of the load is an error in GE mode.",
        "11.14": "An input on the wrong device is an error that names both devices.",
        "11.15": "Results that differ from the Meta function in size or type are an error.",
        "11.16": "Gears that break the rules of 5.11 are an error.",
        "11.17": "Functions and files that a cache cannot use give an error or a warning.",
        "11.18": "A second compile with other global options of GE is an error.",
        "11.19": "Without GE mode the backend `npu` warns and runs eagerly. Without `torch_npu` no built-in rule acts.",
        "11.20": "An export that cannot be written is an error.",
        "11.21": "Old versions of torch or CANN switch features off with a warning.",
        "11.22": "A static kernel that cannot be built leaves the general kernel in use.",
        "11.23": "A wrong use of `record`, `wait` or a tag is an error.",
        "11.24": "An empty or repeated name of a node is an error in GE mode.",
        "11.25": "A failed automatic conversion is an error that names its reason.",
    },
    "12b. Defects of the original": {
        "12b.1": "`record` and `wait` have no effect in the package `npugraph_ex`.",
        "12b.2": "A graph with `npu_weight_quant_batchmatmul` fails at a missing option.",
        "12b.3": "The fusion of batched products accepts negative dimensions and misreads them.",
        "12b.4": "A request for qint8 gives int8.",
        "12b.5": "A fusion rule depends on the name of a node.",
        "12b.6": "Captures cannot be counted.",
        "12b.7": "Without `clone_input` later calls overwrite a tensor of the first caller.",
        "12b.8": "The reduction `BAND` computes `BOR`, and `BOR` is missing.",
        "12b.9": "An attribute is misspelt in the legacy mode.",
        "12b.10": "An edited model uses its old cache, and a second compile deletes the cache.",
        "12b.11": "Cache files hold pickles and the bytecode of one Python version.",
        "12b.12": "Compiles share the values of their options.",
        "12b.13": "`torch.compile(mode=...)` is ignored, and only the log shows a failed export.",
        "12b.14": "All graphs of a process must have the same global options of GE.",
        "12b.15": "Generated code is edited line by line as text.",
        "12b.16": "`static_model_ops_lower_limit` accepts the forbidden values 0 and 1.",
        "12b.17": "The documents differ from the code.",
        "12b.18": "Behaviour depends on versions of other software without notice.",
    },
    "12e. Acceptance": {
        "12e.1": "The backend has a name and options, and it runs an MLP, attention and decoding with a cache.",
        "12e.2": "Each FX pass has a switch, and its effect is measured.",
        "12e.3": "More than twenty fusion rules act by default.",
        "12e.4": "The user can add fusion rules.",
        "12e.5": "`TORCH_COMPILE_DEBUG=1` writes its files.",
        "12e.6": "Custom operators work in graphs by both routes (7.01 and 7.02), also in place.",
        "12e.7": "FX graphs are converted to Ascend's IR, compiled and run, and the IR can be inspected.",
        "12e.8": "An exported graph runs without Python.",
        "12e.9": "A cache for inference works across processes.",
        "12e.10": "Several streams and core limits work.",
        "12e.11": "No accelerator is necessary.",
    },
}


def _granted(engine: str) -> str:
    """The remark of an option of torchair that asks for what the engine does in any case. ``engine`` has its name in
    the engine."""
    tests = "test_options_of_the_engine", "test_options_that_ask_for_what_happens_anyway_are_not_named"
    named = ", ".join(f"`test_config_options::{test}`" for test in tests)
    accepted = f"accepted, checked and passed to the engine as `{engine}`"
    return f"Partly built. The option is {accepted}, which acts so in any case ({named})."


def _recorded(engine: str = "") -> str:
    """The remark of an option of torchair that is only recorded. ``engine`` has its name in the engine."""
    accepted, tests = "accepted and checked", ["test_options_that_are_recorded"]
    if engine:
        accepted = f"accepted, checked and passed to the engine as `{engine}`"
        tests.insert(0, "test_options_of_the_engine")
    named = ", ".join(f"`test_config_options::{test}`" for test in tests)
    return f"Partly built. The option is {accepted}. It has no effect here, and a warning says so ({named})."


def _not_here(reason: str) -> str:
    """The remark of an option of torchair that has no meaning here. It is accepted."""
    test = "`test_config_options::test_options_that_are_recorded`"
    return f"Does not apply. {reason} The option is accepted and checked, and a warning says so ({test})."


REMARKS = {
    "9.10": "Does not apply. The file counts matches of Ascend's fusion passes by their names. The engine has passes "
    "of its own, and `artifact.explain()` says what became of each operator.",
    "6.10": _recorded(),
    "6.12": _not_here("The file switches Ascend's fusion passes by their names, and the engine has passes of its own."),
    "6.13": _not_here("The option switches Ascend's passes by their names, and the engine has passes of its own."),
    "6.14": "Partly built. The level and the elimination of dead code act "
    "(`test_engine_levels::test_level_o1_keeps_operators_apart`). The engine computes operators of constants at each "
    "run, and a warning says so of `oo_constant_folding` (`test_config_options::test_options_that_are_recorded`).",
    "6.15": _not_here("The statistics count matches of Ascend's fusion passes by their names (9.10)."),
    "6.18": _recorded("ge.topoSortingMode"),
    "6.19": _not_here("It lets units of an NPU exchange while others compute. Here the same cores do both."),
    "6.20": _not_here("It says how many operators make a launch pay. A graph here is one call in any case."),
    "6.22": _granted("ge.tiling_schedule_optimize"),
    "2.08d": "Not built yet. The rules for joint graphs need the option `npu_fx_pass` of GE mode, and "
    "`_pattern_pass_dlrm` is a private pass for one kind of model. Rules of the user can act on joint graphs "
    "(`test_replacements::test_a_rule_for_training`).",
    "4.12": "Partly built. The graph has the attribute (`test_scopes::test_further_scopes_are_attributes`). The engine "
    "has no limit of the time of an operator.",
    "6.07": "Partly built. The commands in `torchair.tools.gegraph_check` examine a file "
    "(`test_deadlock::test_modules_are_commands`), and the option acts in the other modes "
    "(`test_config_options::test_options_of_the_backend`). In GE mode it is accepted, and a warning says that it has "
    "no effect (`test_config_options::test_options_that_are_recorded`).",
    "6.21": "Partly built. The option is accepted, checked and passed to the engine as `ge.jit_compile` "
    "(`test_config_options::test_options_of_the_engine`). There are no stored kernels to select: the engine compiles "
    "every graph.",
    "6.24": "Partly built. Inputs that a graph writes are `RefData` in any case, and are written in place "
    "(`test_fx_graph::test_written_inputs_are_assigned_at_the_end`, `test_backend::test_written_inputs_are_written`). "
    "The option is accepted and changes nothing "
    "(`test_config_options::test_options_that_ask_for_what_happens_anyway_are_not_named`).",
    "6.25": "Partly built. `remove_noop_ops` and `pattern_fusion_pass` act in all modes, and the options of static "
    "kernels and of super kernels act in the legacy mode (`test_config_options::test_options_of_the_backend`, "
    "`test_entry::test_replacement_rules_act_before_the_conversion`). `memory_efficiency` is accepted, checked and "
    "passed to the engine as `ge.featureBaseRefreshable` (`test_config_options::test_options_of_the_engine`). The "
    "others are accepted and checked. Like it, they have no effect here, and a warning says so "
    "(`test_config_options::test_options_that_are_recorded`).",
    "6.29": "Partly built. Graphs are normalised "
    "(`test_graph::test_what_is_completed_before_a_graph_is_loaded`), and have no copies around operators of Ascend "
    "that write inputs (`test_ge_writes_of_ascend::test_a_drawn_call`).",
    "6.45": "Partly built. Devices of inputs are checked "
    "(`test_ge_graphs_on_npu::test_an_input_on_the_wrong_device_is_an_error`), and so are streams (11.13). Sizes and "
    "types of results are compared when a graph is compiled, and not at each run (11.15).",
    "6.46": "Partly built. Results go to the tensors that a run assigns "
    "(`test_entry_graphs::test_assigned_outputs_take_the_results`). Lists of indices do nothing.",
    "6.48": "Does not apply. Graphs of torch 2.13 hold collectives without a patch, and the function does nothing.",
    "7.09": "Partly built. Attention of `torch_npu` takes new lengths in a compiled graph "
    "(`test_npu_refreshed_lengths::test_attention_of_changing_lengths`). `register_npu_graph_handler` registers other "
    "operators for graphs that are captured by hand (`test_graphs::test_update_issues_registered_calls_again`). "
    "`tiling_schedule_optimize` has no effect (6.22).",
    "10.06": "Partly built. Operators of the list and others are converted, with more element types. "
    "`python -m npugraph ascend-check` names what Ascend does not have, by the element types of Ascend IR "
    "(`test_ascend_check::test_each_fault_is_found_at_its_line`).",
    "11.13": "Partly built. Such a run works here, and the log warns of it once "
    "(`test_ge_graphs_on_npu::test_a_run_on_another_stream_than_that_of_the_load_is_told_once`, "
    "`test_ge_graphs_on_npu::test_a_call_on_another_stream_than_that_of_the_first_one_is_told_once`).",
    "11.21": "Does not apply. The package needs torch 2.13 or 2.14, and it needs no CANN.",
    "12b.9": "Does not apply. The legacy mode runs the code of `npugraph_ex`.",
    "12b.14": "Partly built. Options of the process hold here too, but other ones are possible after "
    "`FinalizeGraphEngine` (`test_entry_graphs::test_options_of_the_process_hold_until_the_engine_ends`), and settings "
    "of torch may change (`test_entry_graphs::test_settings_of_torch_are_those_of_the_first_graph`).",
}
