# SPDX-License-Identifier: Apache-2.0
"""Prints as JSON how many bytes a decode step of a model moves. usage: shares.py MODEL ARGUMENTS
ARGUMENTS of LLM: as JSON

- weights: bytes of the weights that a step reads at least
- cache: bytes of the smallest cache of a layer
- cached: bytes that one token takes in it
- programs: for each Program, whether it has a buffer of the size of a cache
- graphs: for each captured decode step, the bytes of its arena and those that the last replay copied
- steps: a step of requests of each length in CONTEXTS
    - aten: bytes that kernels of ATen read, by operator
    - of_caches: the most bytes that one of these kernels reads which has a cache among its arguments
    - allocated: bytes that the device holds at the peak of a step beyond those before it
    - rewritten: the most tokens whose values change in one cache
    - moved: whether a cache has another address than before
"""

import json
import os
import sys
import tempfile
from collections import Counter
from math import prod
from pathlib import Path

import torch
from torch.utils import _pytree
from vllm import LLM, SamplingParams

import npugraph

REQUESTS, STEPS = 4, 3
CONTEXTS = 300, 1900
TYPES = {"double": 8, "long int": 8, "float": 4, "int": 4, "c10::BFloat16": 2, "c10::Half": 2}


def reads_memory(name):
    """Whether an operator of ATen reads elements. Those do that return a tensor which is no view of an argument."""
    packet = getattr(torch.ops.aten, name, None)
    if packet is None or name.startswith(("empty", "new_empty", "_unsafe_view")):
        return False
    results = [getattr(packet, overload)._schema.returns for overload in packet.overloads()]
    views = [r[0].alias_info is not None and not r[0].alias_info.is_write for r in results if r]
    return any("Tensor" in str(r[0].type) for r in results if r) and not any(views)


def tensors_of(call):
    """Shapes of the tensors among the arguments of a call in a trace of torch.profiler, and sizes of their elements."""
    arguments = call["args"]
    kinds = arguments.get("Input type", [])
    return [
        (shape, TYPES.get(kind, 1))
        for shapes, kind in zip(arguments.get("Input Dims", []), kinds, strict=True)
        for shape in (shapes if shapes and isinstance(shapes[0], list) else [shapes])
        if shape
    ]


def bytes_read(call, calls):
    """The size of what a call reads, or of the rows that it writes where it does not read what was there."""
    tensors = tensors_of(call)
    sizes = [prod(shape) * size for shape, size in tensors]
    if call["name"] == "aten::index":  # its indices are no arguments in a trace, but it reshapes each of them
        end = call["ts"] + call["dur"]
        inner = [c for c in calls if c["tid"] == call["tid"] and call["ts"] < c["ts"] < end]
        indices = [shape for c in inner if c["name"] == "aten::reshape" for shape, _ in tensors_of(c)]
        shape, size = tensors[0]
        return min(sizes[0], max(map(prod, indices)) * prod(shape[len(indices) :]) * size)
    if call["name"] == "aten::index_select":
        (shape, size), (index, _), *_ = tensors
        return prod(index) * prod(shape[1:]) * size
    return sum(sizes[1:] if call["name"] == "aten::_index_put_impl_" else sizes)


def reading_calls(trace):
    """The calls of ATen that read memory. A call that makes others counts as these."""
    calls = [e for e in trace["traceEvents"] if e.get("cat") == "cpu_op" and e["name"].startswith("aten::")]
    calls.sort(key=lambda call: (call["tid"], call["ts"] + call["dur"], -call["ts"]))  # calls after those they make
    last = None
    for call in calls:
        makes_others = last and last["tid"] == call["tid"] and last["ts"] >= call["ts"]
        if not makes_others and reads_memory(call["name"].removeprefix("aten::")):
            yield call, bytes_read(call, calls)
            last = call


def weights_of(model, config):
    """Bytes of the weights that a step reads at least: each token has other experts, but one token has these."""
    experts = getattr(config, "n_routed_experts", None) or getattr(config, "num_experts", None)
    share = config.num_experts_per_tok / experts if experts else 1
    sizes = {name: weight.numel() * weight.element_size() for name, weight in model.named_parameters()}
    return sum(size * (share if ".experts." in name else 1) for name, size in sizes.items() if "embed" not in name)


def caches_of(worker):
    """The caches of all layers of a worker."""
    layers = worker.vllm_config.compilation_config.static_forward_context.values()
    leaves = _pytree.tree_leaves([getattr(layer, "kv_cache", None) for layer in layers])
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.numel()]


def graphs_of(worker):
    """The memory of the captured decode steps."""
    entries = worker.model_runner.model.concrete_aclgraph_entries.values()
    return [entry.aclgraph._memory() for entry in entries if entry.aclgraph]


def decoded(llm, prompt):
    """Adds requests with ``prompt`` tokens each, and runs steps until all of them are decoded. Returns their names."""
    names = [f"{prompt}-{request}" for request in range(REQUESTS)]
    for request, name in enumerate(names):
        ids = [(7 * i + 13 * request) % 4000 + 5 for i in range(prompt)]
        sampling = SamplingParams(temperature=0, max_tokens=100, ignore_eos=True)
        llm.llm_engine.add_request(name, {"prompt_token_ids": ids}, sampling)
    generated = 0
    while generated < 4 * REQUESTS:
        generated = sum(len(output.outputs[0].token_ids) for output in llm.llm_engine.step())
    return names


def traced(llm):
    """The trace of STEPS steps."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
        for _ in range(STEPS):
            llm.llm_engine.step()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        profile.export_chrome_trace(str(path))
        return json.loads(path.read_text())


def allocated(llm):
    """The bytes that the device holds at the peak of a step beyond those before it."""
    torch.npu.reset_peak_memory_stats()
    before = torch.npu.memory_allocated()
    llm.llm_engine.step()
    return torch.npu.max_memory_allocated() - before


def rewritten(llm, caches, tokens):
    """The most tokens whose values a step changes in one of the caches. Each cache has room for ``tokens``."""
    before = [cache.clone() for cache in caches]
    llm.llm_engine.step()
    changed = [
        (cache.view(torch.uint8) != old.view(torch.uint8)).view(*cache.shape, -1).any(-1).sum().item()
        for cache, old in zip(caches, before, strict=True)
    ]
    return max(count * tokens / cache.numel() for count, cache in zip(changed, caches, strict=True))


def of_step(llm, prompt, caches, tokens):
    """What steps of requests with ``prompt`` tokens each move."""
    names = decoded(llm, prompt)
    addresses = [cache.data_ptr() for cache in caches]
    sizes = {cache.numel() for cache in caches}
    aten, of_caches = Counter(), 0
    for call, size in reading_calls(traced(llm)):
        aten[call["name"].removeprefix("aten::")] += size
        if any(prod(shape) in sizes for shape, _ in tensors_of(call)):
            of_caches = max(of_caches, size)
    step = {
        "aten": {name: size / STEPS for name, size in aten.most_common()},
        "of_caches": of_caches,
        "allocated": allocated(llm),
        "rewritten": rewritten(llm, caches, tokens),
        "moved": addresses != [cache.data_ptr() for cache in llm.collective_rpc(caches_of)[0]],
    }
    llm.llm_engine.abort_request(names)
    return step


if __name__ == "__main__":
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # so that the steps are calls of this process
    llm = LLM(
        model=sys.argv[1],
        additional_config={"npugraph_ex_config": {"enable": True, "enable_static_kernel": False}},
        **json.loads(sys.argv[2]),
    )
    config = llm.llm_engine.vllm_config
    (weights,) = llm.collective_rpc(lambda worker: weights_of(worker.get_model(), config.model_config.hf_text_config))
    (caches,) = llm.collective_rpc(caches_of)
    tokens = config.cache_config.num_gpu_blocks * config.cache_config.block_size
    steps = [of_step(llm, prompt, caches, tokens) for prompt in CONTEXTS]
    buffers = {f"bytes({cache.nbytes})" for cache in caches}
    programs = [any(text in artifact.program() for text in buffers) for artifact in npugraph.artifacts()]
    (graphs,) = llm.collective_rpc(graphs_of)
    cache = min(cache.nbytes for cache in caches)
    sizes = {"weights": weights, "cache": cache, "cached": cache / tokens}
    print(json.dumps(sizes | {"programs": programs, "graphs": graphs, "steps": steps}))
