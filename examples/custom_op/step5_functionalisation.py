# SPDX-License-Identifier: Apache-2.0
"""Step 5: functionalisation of the operator that writes. Graphs of torch.compile have no writes, so torch replaces the
call by one that works on a copy (``auto_functionalized_v2``). It knows from the schema what is written, so this step
needs no code. The graph compiler removes the copies again: the program writes in place.

Usage: bash build.sh; python step5_functionalisation.py
"""

import step4_meta
import torch
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule

import npugraph


def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x + y
    step4_meta.ops.scaled_add_(z, y, 2.0)  # an intermediate
    step4_meta.ops.scaled_add_(x, y, 3.0)  # an argument of the caller
    return z * 2


def show(gm: GraphModule, inputs: list[torch.Tensor]) -> GraphModule:
    print("torch's graph:", ", ".join(str(node.target) for node in gm.graph.nodes if node.op == "call_function"))
    return gm


@torch.no_grad()
def main() -> None:
    torch.compile(fn, backend=aot_autograd(fw_compiler=show))(torch.ones(3), torch.ones(3))
    fast = torch.compile(fn, backend="npugraph_ex")
    for _ in range(100):
        x, y = torch.randn(1000), torch.randn(1000)
        written = x.clone()
        torch.testing.assert_close(fast(written, y), fn(x, y))
        torch.testing.assert_close(written, x)
    (artifact,) = npugraph.artifacts()
    print("tasks of npugraph_ex:", ", ".join(task.name for task in artifact.tasks))
    copied, captures = artifact.memory["copied_bytes_per_replay"], artifact.counters["captures"]
    print(f"{copied} bytes copied, {captures} capture in 100 calls")
    assert (copied, captures) == (0, 1)


if __name__ == "__main__":
    main()
