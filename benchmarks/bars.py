# SPDX-License-Identifier: Apache-2.0
"""What the project promises about speed, as data. Benchmarks print each bar as met or not; tests do not time."""

from __future__ import annotations

from benchmarks import (
    call_overhead,
    changing_sizes,
    cold_start,
    kv_cache,
    lifecycle,
    memory,
    peers,
    warm_start,
)
from benchmarks.bar_kinds import Bar, DifferenceBar, EachBar, FigureBar, GeneratedBar, GeometricBar, RegretBar, ShareBar

INDUCTOR = tuple(peers.INDUCTOR)
CONVOLUTIONAL = ("convnextv2", "resnet")
BARS = (
    Bar("replay_overhead", "1 task", limit=1.0, side="runtime", other="allowed"),
    Bar("replay_overhead", "1000 tasks", limit=1.0, side="runtime", other="allowed"),
    RegretBar("cost_model_regret", mean=1.05, worst=1.5),
    Bar("call_overhead", "mlp64", limit=1.15),
    DifferenceBar("call_overhead", "mlp64", 1.5e-6),
    Bar("call_overhead", "decoder28", limit=1 / 5),
    Bar("call_overhead", "decoder28", limit=1 / 2, other="inductor"),
    FigureBar("call_overhead", call_overhead.BINDING, 2, ending="mlp64"),
    FigureBar("call_overhead", call_overhead.BINDING, 20, ending="decoder28"),
    GeometricBar("model_speed", "float32", 2.2, INDUCTOR),
    GeometricBar("model_speed", "float32", 1.0, ("zentorch",)),
    GeometricBar("model_speed", "float32", 1.0, (*INDUCTOR, *peers.FOREIGN), most_behind=4),
    ShareBar("model_speed", "bert base float32", 0.86),
    GeometricBar("model_speed", "bfloat16", 1.2, INDUCTOR),
    GeometricBar("model_speed", "bfloat16", 1.0, ("zentorch",)),
    GeometricBar("model_speed", "bfloat16", 1.0, ("openvino",)),
    GeometricBar("model_speed", "qwen3 long bfloat16", 1.1, (*INDUCTOR, *peers.FOREIGN)),
    ShareBar("model_speed", "qwen3 long bfloat16", 0.70),
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
    GeometricBar("smollm2_decode", "q4_1", 1.5, (peers.LLAMA,)),
    GeometricBar("fused_loops", "B", 1.3, INDUCTOR),
    ShareBar("fused_loops", "256 MB", 0.92),
    EachBar("cold_start", "call 1", 1.7, other="dynamo"),
    EachBar("cold_start", "call 1", 1 / 8, other="inductor"),
    EachBar("cold_start", "call 1", 1 / 2, other="openvino"),
    FigureBar("cold_start", cold_start.STEADY, 1.15),
    FigureBar("warm_start", warm_start.FIRST_TASK, 60),
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
    FigureBar("lifecycle", lifecycle.GROWTH, 1.02),
)
