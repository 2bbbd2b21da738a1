# SPDX-License-Identifier: Apache-2.0
"""Text-IR tests: a file that holds its own command lines (RUN:) and what they must print (CHECK:).

The tools come from --param tools=DIR, by default those of build/release. --param emulator=COMMAND runs tools that were
built for another processor.
"""

import os
import platform
import sys
from pathlib import Path

import lit.formats

root = Path(__file__).resolve().parent.parent
tools = lit_config.params.get("tools", str(root / "build/release/bin"))  # noqa: F821
if not Path(tools, "npugraph-opt").is_file():
    lit_config.fatal(f"no npugraph-opt in {tools}: build first, or pass --param tools=DIR")  # noqa: F821

config.name = "npugraph"  # noqa: F821
config.test_format = lit.formats.ShTest(execute_external=False)  # noqa: F821
config.suffixes = [".ir", ".program"]  # noqa: F821
config.test_source_root = str(root / "tests")  # noqa: F821
config.test_exec_root = str(root / "build/lit")  # noqa: F821
config.environment["PATH"] = os.pathsep.join(  # noqa: F821
    [tools, str(Path(sys.executable).parent), os.environ["PATH"]]
)
config.substitutions.append((r"\bFileCheck\b", str(Path(sys.executable).parent / "filecheck")))  # noqa: F821
if not lit_config.params.get("emulator"):  # noqa: F821
    config.available_features.add(platform.machine())  # noqa: F821
if emulator := lit_config.params.get("emulator"):  # noqa: F821
    for tool in ("npugraph-opt", "npugraph-run"):
        config.substitutions.append((rf"\b{tool}\b", f"{emulator} {tools}/{tool}"))  # noqa: F821
config.environment["NPUGRAPH_CACHE"] = "0"  # noqa: F821
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "PLANTED_FAULTS", "PLANTED_FAULTS_REACHED"):
    if name in os.environ:
        config.environment[name] = os.environ[name]  # noqa: F821
