# SPDX-License-Identifier: Apache-2.0
"""Debug output of compiles: the files of ``TORCH_COMPILE_DEBUG=1``, tables of what passes did, and torch's logs.

    torch_compile_debug/run_<time>-pid_<pid>[-rank_<rank>]/npugraph_ex/, or torchair/ for backends of torchair
        debug.log                                  all messages of our logger, of every level
        model__<n>/                                one graph of Dynamo (compile__<n> of compile_fx)
            dynamo_out_graph.txt                   before AOTAutograd
            forward/, backward/
                000_aot_forward_graph.txt          before the passes
                001_aot_forward_graph_after_<pass>.txt
                                                   after each pass that changed something; .ir beside: our own text
                001_aot_forward_original_ge_graph.pbtxt, ..._graph_after_<pass>.pbtxt, ..._optimized_ge_graph.pbtxt
                                                   a graph of GE before, during and after its passes
                output_code.py                     the last graph
                constants.pt                       the tensors that these graphs hold
                graph_<n>_id_<graph>_rank_<rank>_pid_<pid>_ts_<ns>.json
                                                   the tasks of the n-th capture, a Chrome trace

Graphs are Python that runs: ``runpy.run_path(file)["GraphModule"]()(*inputs)``.
"""
