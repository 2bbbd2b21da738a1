# SPDX-License-Identifier: Apache-2.0
"""Stored graphs whose inputs include objects of Python that operators of other libraries take, such as the names of
layers in vLLM."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.python.forks import OWN_HASHES, run_python

SCRIPT = """
import json, torch
from torch._functorch import config as functorch_config
from torch._library.opaque_object import register_opaque_type
from torch._opaque_base import OpaqueBase
import torch_npu
from npugraph import _C

class LayerName(OpaqueBase):
    def __init__(self, value): self.value = value
    def __eq__(self, other): return isinstance(other, LayerName) and self.value == other.value
    def __hash__(self): return hash(self.value)
    def __fx_repr__(self): return f"LayerName({self.value!r})", {"LayerName": LayerName}

register_opaque_type(LayerName, typ="value", hoist=True)
scales = {"first": 2.0, "second": 3.0}

@torch.library.custom_op("stored_objects_test::scale", mutates_args=("output",))
def scale(x: torch.Tensor, output: torch.Tensor, layer: LayerName) -> None:
    output.copy_(x * scales[layer.value])

def model(x):
    for name in ("first", "second"):
        output = torch.empty_like(x)
        torch.ops.stored_objects_test.scale(x.sin() + 1, output, LayerName(name))
        x = output.softmax(-1) + x
    return x

functorch_config.bundled_autograd_cache = True
x = torch.linspace(-1, 1, 32, device="npu").view(4, 8)
with torch.no_grad():
    compiled = torch.compile(model, backend="npugraph_ex", fullgraph=True)
    results = [compiled(x)]
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        results.append(compiled(x))
    graph.replay()
    close = [torch.allclose(result, model(x), atol=1e-6) for result in results]
hits = torch._dynamo.utils.counters["aot_autograd"]["autograd_cache_hit"]
print(json.dumps({"close": close, "hits": hits, "compiles": _C.process_counters().get("compiles", 0)}))
"""


def start(folder: Path, **variables: str) -> dict[str, Any]:
    caches = {"NPUGRAPH_CACHE": str(folder / "code"), "TORCHINDUCTOR_CACHE_DIR": str(folder / "torch")}
    done = run_python("-c", SCRIPT, env=os.environ | caches | variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    first, second = start(tmp_path), start(tmp_path, **OWN_HASHES)
    assert first["close"] == second["close"] == [True, True]
    assert first["hits"] == 0 and first["compiles"] > 0
    assert second["hits"] == 1 and second["compiles"] == 0
