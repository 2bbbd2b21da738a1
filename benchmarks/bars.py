# SPDX-License-Identifier: Apache-2.0
"""The project's promises about speed, as data. Benchmarks print each bar as met or not met. Tests measure no times."""

from __future__ import annotations

from benchmarks import (
    ascend_decoders,
    busy_machine,
    call_overhead,
    changing_sizes,
    cold_start,
    ddp_step,
    ge_instructions,
    import_time,
    inference_cache,
    int8_layers,
    kv_cache,
    lifecycle,
    memory,
    pass_time,
    peers,
    servers,
    serving,
    serving_int8,
    serving_start,
    smollm2_decode,
    smollm2_models,
    training_step,
    two_streams,
    warm_start,
    weight_only_layers,
)
from benchmarks.bar_kinds import (
    Bar,
    DifferenceBar,
    EachBar,
    FigureBar,
    GeneratedBar,
    GeometricBar,
    RegretBar,
    ShareBar,
    TypeBar,
)
from benchmarks.samples.npu_eager import BOXED, LISTS, TRAINING, UNBOXED
from benchmarks.sides import OURS

INDUCTOR = tuple(peers.INDUCTOR)
BEST = (*INDUCTOR, *peers.FOREIGN)
CONVOLUTIONAL = ("convnextv2", "resnet")
BARS = (
    Bar("replay_overhead", "1 task", limit=1.0, side="runtime", other="allowed"),
    Bar("replay_overhead", "1000 tasks", limit=1.0, side="runtime", other="allowed"),
    Bar("replay_overhead", "1000 kernels of users", limit=1.0, side="runtime", other="allowed"),
    RegretBar("cost_model_regret", mean=1.05, worst=1.5),
    Bar("two_streams", "small products", limit=0.60, side=two_streams.TWO, other=two_streams.ONE),
    Bar("call_overhead", "mlp64", limit=1.15),
    DifferenceBar("call_overhead", "mlp64", 1.5e-6),
    Bar("call_overhead", "decoder28", limit=1 / 5),
    Bar("call_overhead", "decoder28", limit=1 / 2, other="inductor"),
    FigureBar("call_overhead", call_overhead.BINDING, 2, ending="mlp64"),
    FigureBar("call_overhead", call_overhead.BINDING, 20, ending="decoder28"),
    GeometricBar("model_speed", "float32", 2.2, INDUCTOR),
    GeometricBar("model_speed", "float32", 1.0, ("zentorch",)),
    GeometricBar("model_speed", "float32", 1.0, BEST, most_behind=4),
    GeometricBar("model_speed", "float32", 1.1, BEST, most_behind=0, behind=0.98),
    ShareBar("model_speed", "bert base float32", 0.86),
    ShareBar("model_speed", "qwen3 long float32", 0.85),
    GeometricBar("model_speed", "bfloat16", 1.2, INDUCTOR),
    GeometricBar("model_speed", "bfloat16", 1.0, ("zentorch",)),
    GeometricBar("model_speed", "bfloat16", 1.15, BEST),
    GeometricBar("model_speed", "qwen3 long bfloat16", 1.1, BEST),
    ShareBar("model_speed", "qwen3 long bfloat16", 0.70),
    TypeBar("model_speed", "float16", "float32", 1.1),
    EachBar("model_speed", "float16", 1 / 5),
    GeneratedBar("model_speed", 0.90, but=CONVOLUTIONAL),
    GeneratedBar("model_speed", 0.75),
    GeometricBar("smollm2_decode", "float32", 1.15, ("zentorch",)),
    GeometricBar("smollm2_decode", "bfloat16", 1.3, ("zentorch",)),
    GeometricBar("smollm2_decode", "float32", 1.8, INDUCTOR),
    GeometricBar("smollm2_decode", "bfloat16", 1.8, INDUCTOR),
    GeometricBar("smollm2_decode", "float32", 2.5, ("eager",)),
    GeometricBar("smollm2_decode", "bfloat16", 2.5, ("eager",)),
    ShareBar("smollm2_decode", "float32", 0.87),
    ShareBar("smollm2_decode", "bfloat16", 0.81),
    TypeBar("smollm2_decode", "float16", "float32", 0.6),
    GeometricBar("smollm2_decode", "q4_1", 1.5, (peers.LLAMA,)),
    *(
        EachBar(benchmark, form, 1 / 1.3, other=peers.LLAMA)
        for benchmark in ("smollm2_decode", "smollm2_prefill")
        for form in smollm2_models.BLOCKS
    ),
    *(
        EachBar("smollm2_decode", f"batch {batch}", 1.0, other=side)
        for batch in smollm2_decode.BATCHES
        for side in ("inductor", "zentorch")
    ),
    TypeBar("smollm2_prefill", "float16", "float32", 1.1),
    *(
        Bar("int8_layers", f"{form} {rows}", limit=limit, other=other)
        for form in int8_layers.FORMS
        for rows in int8_layers.ROWS
        for other, limit in ((int8_layers.FLOATS, 0.7), ("inductor", 1.0))
    ),
    *(
        Bar("weight_only_layers", f"{form} {rows}", limit=1.0, other=other)
        for form in weight_only_layers.FORMS
        for rows in weight_only_layers.ROWS
        for other in ("eager", "inductor")
    ),
    GeometricBar("fused_loops", "B", 1.3, INDUCTOR),
    ShareBar("fused_loops", "256 MB", 0.92),
    EachBar("cold_start", "call 1", 1.7, other="dynamo"),
    EachBar("cold_start", "call 1", 1 / 8, other="inductor"),
    EachBar("cold_start", "call 1", 1 / 2, other="openvino"),
    FigureBar("cold_start", cold_start.STEADY, 1.15),
    FigureBar("warm_start", warm_start.FIRST_TASK, 60),
    EachBar("inference_cache", "", 1 / 2, side=inference_cache.SECOND, other=inference_cache.FIRST),
    FigureBar("inference_cache", inference_cache.COMPILES, 0),
    FigureBar("changing_sizes", changing_sizes.COMPILES, 2),
    FigureBar("changing_sizes", changing_sizes.MORE_COMPILES, 1),
    EachBar("changing_sizes", "base requests", 1 / 8, other="inductor"),
    EachBar("changing_sizes", "", 1.10, side=changing_sizes.DYNAMIC, other=changing_sizes.STATIC),
    FigureBar("memory", memory.EXTRA, 0.8),
    FigureBar("memory", memory.FAULTS, 0),
    FigureBar("memory", memory.PLANNED, 1.05),
    FigureBar("kv_cache", kv_cache.COPIED, 0),
    EachBar("kv_cache", "", 1.05, other=kv_cache.OURS_SHORT),
    EachBar("kv_cache", kv_cache.CLONED, 1 / 10, other="inductor"),
    EachBar(training_step.NAME, "", 1 / 1.3, other="inductor"),
    EachBar(training_step.NAME, "", 1 / 1.5),
    FigureBar(training_step.NAME, training_step.PEAK, 1.0),
    FigureBar(ddp_step.NAME, ddp_step.OVERLAP, 1.0),
    FigureBar("lifecycle", lifecycle.GROWTH, 1.02),
    DifferenceBar("npu_eager", UNBOXED, 0.3e-6, side="npu", other="cpu"),
    DifferenceBar("npu_eager", BOXED, 0.5e-6, side="npu", other="cpu"),
    DifferenceBar("npu_eager", LISTS, 3e-6, side="npu", other="cpu"),
    Bar("npu_eager", TRAINING, 1.15, side="npu", other="cpu"),
    DifferenceBar("import_time", import_time.CASE, 0.3, side="torch_npu", other="torch"),
    FigureBar("pass_time", pass_time.GRAPH_PASSES, 15),
    FigureBar("pass_time", pass_time.PER_100_NODES, 15),
    EachBar(busy_machine.NAME, "", 1.0),
    *(
        GeometricBar(module.NAME, f" {users} users", 1.3, module.OTHERS, most_behind=0, behind=1.3)
        for module in (serving, serving_int8)
        for users in module.USERS
    ),
    *(
        Bar(serving_start.NAME, side, 1 / 2, side=serving_start.SECOND, other=serving_start.FIRST)
        for side in servers.PAIRS
    ),
    FigureBar("ge_instructions", ge_instructions.RATIO, 1.01),
    EachBar(ascend_decoders.NAME, "", 1.1, side=ascend_decoders.GE, other=OURS),
)
