# SPDX-License-Identifier: Apache-2.0
"""Takes one sample of ``import_time``: python -m benchmarks.samples.import_time SIDE.

Prints JSON: the seconds of the import.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path

SIDES = ("torch", "torch_npu")


def main(side: str) -> None:
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    sys.path.append(str(Path(__file__).resolve().parents[2] / "packaging/torch_npu"))
    start = time.perf_counter()
    importlib.import_module(side)  # torch_npu imports torch and then itself, as torch would by itself
    print(json.dumps({"seconds": time.perf_counter() - start, "error": 0.0}))


if __name__ == "__main__":
    main(*sys.argv[1:])
