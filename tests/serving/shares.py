# SPDX-License-Identifier: Apache-2.0
"""Prints as JSON how many bytes kernels of ATen read in a decode step of a model, and how many bytes of weights the
step reads at least. usage: shares.py MODEL ARGUMENTS      ARGUMENTS of LLM: as JSON"""

import json
import os
import sys
import tempfile
from collections import Counter
from math import prod
from pathlib import Path

import torch
from vllm import LLM, SamplingParams

REQUESTS, PROMPT, STEPS = 4, 300, 3
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


def of_aten(trace):
    """Bytes that calls of ATen read, by operator. A call that makes others counts as these."""
    calls = [e for e in trace["traceEvents"] if e.get("cat") == "cpu_op" and e["name"].startswith("aten::")]
    calls.sort(key=lambda call: (call["tid"], call["ts"] + call["dur"], -call["ts"]))  # calls after those they make
    found, last = Counter(), None
    for call in calls:
        makes_others = last and last["tid"] == call["tid"] and last["ts"] >= call["ts"]
        name = call["name"].removeprefix("aten::")
        if not makes_others and reads_memory(name):
            found[name] += bytes_read(call, calls)
            last = call
    return found


def weights_of(model, config):
    """Bytes of the weights that a step reads at least: each token has other experts, but one token has these."""
    experts = getattr(config, "n_routed_experts", None) or getattr(config, "num_experts", None)
    share = config.num_experts_per_tok / experts if experts else 1
    sizes = {name: weight.numel() * weight.element_size() for name, weight in model.named_parameters()}
    return sum(size * (share if ".experts." in name else 1) for name, size in sizes.items() if "embed" not in name)


if __name__ == "__main__":
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # so that the steps are calls of this process
    llm = LLM(
        model=sys.argv[1],
        additional_config={"npugraph_ex_config": {"enable": True, "enable_static_kernel": False}},
        **json.loads(sys.argv[2]),
    )
    for request in range(REQUESTS):
        ids = [(7 * i + 13 * request) % 4000 + 5 for i in range(PROMPT)]
        sampling = SamplingParams(temperature=0, max_tokens=100, ignore_eos=True)
        llm.llm_engine.add_request(str(request), {"prompt_token_ids": ids}, sampling)
    generated = 0
    while generated < 4 * REQUESTS:  # then all of them are decoded
        generated = sum(len(output.outputs[0].token_ids) for output in llm.llm_engine.step())
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
        for _ in range(STEPS):
            llm.llm_engine.step()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        profile.export_chrome_trace(str(path))
        aten = of_aten(json.loads(path.read_text()))
    (weights,) = llm.collective_rpc(
        lambda worker: weights_of(worker.get_model(), llm.llm_engine.vllm_config.model_config.hf_text_config)
    )
    print(json.dumps({"aten": {name: size / STEPS for name, size in aten.most_common()}, "weights": weights}))
