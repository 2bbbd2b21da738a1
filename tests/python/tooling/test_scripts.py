# SPDX-License-Identifier: Apache-2.0
"""The checks of the tree itself: each must accept a right tree and name what is wrong in a wrong one."""

import ast
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"


def run(script: str, *arguments: str) -> tuple[int, str]:
    """Exit code and output of scripts/<script>."""
    command = [sys.executable, str(SCRIPTS / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.returncode, done.stdout


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


RIGHT = {
    "src/CMakeLists.txt": "add_subdirectory(base)\n",
    "src/base/error.h": "#pragma once\n",
    "src/abi/task.h": "#include <stdint.h>\n",
    "src/tensor/shape.h": '#include "base/error.h"\n',
    "src/ir/graph.h": '#include <vector>\n#include "tensor/shape.h"\n',
    "src/ir/CMakeLists.txt": "npugraph_layer(ir DEPS base tensor)\n",
    "src/passes/dce.cc": '#include "ir/graph.h"\n#include "tensor/shape.h"\n',
    "src/torch/bridge/tensors.cc": '#include <ATen/ATen.h>\n#include "ir/graph.h"\n',
    "src/torch/bridge/CMakeLists.txt": "npugraph_layer(torch/bridge DEPS base ir LINK npugraph_libtorch)\n",
    "src/tools/CMakeLists.txt": "npugraph_tool(npugraph-opt npugraph_opt.cc DEPS base passes)\n",
    "python/npugraph/__init__.py": "import torch\n",
    "python/npugraph_ex/__init__.py": "from npugraph import backend\n",
}


def test_layers_of_a_right_tree(tmp_path: Path) -> None:
    code, output = run("check_layers", "--root", str(write(tmp_path, RIGHT)))
    assert (code, output) == (0, "check_layers: all includes, links and imports follow the layers\n")


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        (
            "src/base/log.cc",
            '#include "ir/graph.h"\n',
            "src/base/log.cc:1: base may not include ir (ir/graph.h)",
        ),
        (
            "src/abi/task.h",
            '#include "base/error.h"\n',
            "src/abi/task.h:1: abi may not include base (base/error.h)",
        ),
        (
            "src/runtime/run.h",
            '\n#include "ir/graph.h"\n',
            "src/runtime/run.h:2: runtime may not include ir (ir/graph.h)",
        ),
        (
            "src/ir/graph.cc",
            '#include "graph.h"\n',
            'src/ir/graph.cc:1: "graph.h" is not a path from src/ into a layer',
        ),
        (
            "src/ir/graph.cc",
            "#include <ATen/ATen.h>\n",
            "src/ir/graph.cc:1: only torch may include <ATen/ATen.h>",
        ),
        (
            "src/ir/graph.cc",
            '#include "c10/util/X.h"\n',
            "src/ir/graph.cc:1: only torch may include <c10/util/X.h>",
        ),
        (
            "src/lower/x.cc",
            "#include <llvm/IR/X.h>\n",
            "src/lower/x.cc:1: only codegen may include <llvm/IR/X.h>",
        ),
        ("src/tools/opt.cc", '#include "torch/bridge/tensors.h"\n', "tools may not include torch/bridge"),
        ("src/extra/x.h", "\n", "src/extra/x.h: not in a layer of scripts/check_layers"),
        (
            "src/extra/CMakeLists.txt",
            "\n",
            "src/extra/CMakeLists.txt: extra is not a layer of scripts/check_layers",
        ),
        (
            "src/ir/CMakeLists.txt",
            "npugraph_layer(ir DEPS base ops)\n",
            "src/ir/CMakeLists.txt: ir may not link ops",
        ),
        (
            "src/abi/CMakeLists.txt",
            "npugraph_layer(abi DEPS base)\n",
            "src/abi/CMakeLists.txt: abi may not link base",
        ),
        (
            "python/npugraph/x.py",
            "import npugraph_ex\n",
            "python/npugraph/x.py:1: npugraph may not import npugraph_ex",
        ),
        (
            "python/npugraph_ex/x.py",
            "import os\nfrom torchair import y\n",
            "python/npugraph_ex/x.py:2: npugraph_ex may not import torchair",
        ),
    ],
)
def test_layers_name_the_wrong_edge(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    code, output = run("check_layers", "--root", str(write(tmp_path, RIGHT | {name: text})))
    assert code == 1
    assert complaint in output
    assert len(output.splitlines()) == 1


def test_layers_picture_is_a_graph_of_what_is_not_implied() -> None:
    code, output = run("check_layers", "--picture")
    lines = output.splitlines()
    assert (code, lines[0]) == (0, "graph BT")
    assert "  passes --> ops" in lines
    assert "  passes --> ir" not in lines
    assert "  torch_bridge[torch/bridge]" in lines


def test_file_size_accepts_the_limit_and_prints_the_median(tmp_path: Path) -> None:
    files = {
        "src/base/a.h": "\n" * 10,
        "src/base/b.cc": "\n" * 800,
        "python/npugraph/c.py": "\n" * 20,
        "src/d.md": "\n" * 900,
    }
    code, output = run("check_file_size", "--root", str(write(tmp_path, files)))
    assert (code, output) == (0, "check_file_size: 3 files, median 20 lines, longest 800\n")


def test_file_size_names_what_is_too_long(tmp_path: Path) -> None:
    files = {"src/base/b.cc": "\n" * 801, "scripts/setup": "\n" * 5}
    code, output = run("check_file_size", "--root", str(write(tmp_path, files)))
    assert code == 1
    assert output.startswith("src/base/b.cc: 801 lines, at most 800 are allowed")


def test_the_page_of_features_follows_the_marks(tmp_path) -> None:
    for name in ("scripts/features_page", "tests/python/features.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((SCRIPTS.parent / name).read_text())
    (tmp_path / "docs").mkdir()
    test = tmp_path / "tests/python/test_some.py"

    def row(rows: str) -> str:
        test.write_text(f"import pytest\n\n\n@pytest.mark.feature({rows})\ndef test_it():\n    pass\n")
        subprocess.run([sys.executable, tmp_path / "scripts/features_page"], check=True, capture_output=True, text=True)
        lines = (tmp_path / "docs/features.md").read_text().splitlines()
        return next(line for line in lines if line.startswith("| 9.09 |"))

    assert row('"1.20"') == "| 9.09 | deadlock check | **none yet** |"
    assert row('"1.20", "9.09"') == "| 9.09 | deadlock check | `test_some::test_it` |"
    with pytest.raises(subprocess.CalledProcessError) as caught:
        row('"77.7"')
    assert "tests name rows that tests/python/features.py does not have: ['77.7']" in caught.value.stderr


def test_the_page_of_features_is_current() -> None:
    script = runpy.run_path(str(SCRIPTS / "features_page"))
    assert script["PAGE"].read_text() == script["page"](), "docs/features.md is not current: run scripts/features_page"


def test_the_types_of_the_extension_are_current(tmp_path) -> None:
    folder = SCRIPTS.parent / "python/npugraph/_C"
    # In a process of its own: what other tests import puts more into the module.
    done = subprocess.run([sys.executable, SCRIPTS / "stubs", tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    current, written = ({path.name: path.read_text() for path in at.glob("*.pyi")} for at in (tmp_path, folder))
    assert written == current, "python/npugraph/_C is not current: run scripts/stubs"


def test_the_types_of_the_extension_name_all_of_it() -> None:
    from npugraph import _C

    tree = ast.parse((SCRIPTS.parent / "python/npugraph/_C/__init__.pyi").read_text())
    named = {node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    named |= {node.target.id for node in tree.body if isinstance(node, ast.AnnAssign)}
    named |= {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert {name for name in vars(_C) if not name.startswith("_")} <= named
    assert {"Artifact", "Callable", "device"} <= named
    (artifact,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Artifact")
    assert {"tasks", "runs", "left_apart"} <= {node.name for node in artifact.body if isinstance(node, ast.FunctionDef)}
    assert (SCRIPTS.parent / "python/npugraph/py.typed").is_file()


def test_what_users_run_is_built_without_tests_and_benchmarks() -> None:
    folder = next(cache.parent for cache in (SCRIPTS.parent / "build").glob("*/build.ninja"))
    command = ["ninja", "-C", folder, "-t", "commands", "product"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    sources = set(re.findall(r" -c (\S+)", done.stdout))
    assert any("/src/" in source for source in sources)
    assert not [source for source in sources if re.search("/(tests|benchmarks)/", source)]


@pytest.mark.parametrize("began", ["now", "long ago"])
def test_long_builds_tell_a_log_how_far_they_are(tmp_path: Path, began: str) -> None:
    lines = ["[0/100] one.cc", *(f"[{step}/100] two.cc" for step in range(1, 101)), "warning: three.cc"]
    files = {
        "scripts/build": (SCRIPTS / "build").read_text(),
        "build/release/build.ninja": "",
        "build/release/CMakeCache.txt": f"CMAKE_HOME_DIRECTORY:INTERNAL={tmp_path}\n",
        ".venv/bin/ninja": "#!/bin/sh\nprintf '%s\\n' " + " ".join(f"'{line}'" for line in lines) + "\n",
    }
    write(tmp_path, files)
    (tmp_path / ".venv/bin/ninja").chmod(0o755)
    if began == "long ago":  # half a minute without a line brings one
        write(tmp_path, {".venv/bin/date": "#!/bin/sh\necho 0\n"})
        (tmp_path / ".venv/bin/date").chmod(0o755)
    done = subprocess.run(["bash", tmp_path / "scripts/build"], check=True, capture_output=True, text=True)
    steps = [*([0] if began == "long ago" else []), *range(10, 101, 10)]
    assert done.stdout.splitlines() == [*(f"build: {step} of 100 steps" for step in steps), "warning: three.cc"]
