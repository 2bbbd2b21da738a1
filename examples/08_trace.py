# SPDX-License-Identifier: Apache-2.0
"""Step 8: a trace of compile phases and of every task, for chrome://tracing or Perfetto.

Usage: python examples/08_trace.py [file]
"""

import collections
import json
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

import npugraph


@torch.no_grad()
def main() -> None:
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()) / "trace.json"
    model = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval()
    compiled = torch.compile(model, backend="npugraph_ex")
    x = torch.randn(2, 10, 64)
    with npugraph.trace(str(file)):
        for _ in range(3):
            compiled(x)

    trace = json.loads(file.read_text())
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    microseconds = collections.Counter()
    for event in events:
        microseconds[event["name"]] += event.get("dur", 0)
    print(f"{len(events)} events in {file}; most time in:")
    for name, spent in microseconds.most_common(8):
        print(f"  {spent:>10.0f} us  {name}")


if __name__ == "__main__":
    main()
