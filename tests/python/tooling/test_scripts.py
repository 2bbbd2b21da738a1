# SPDX-License-Identifier: Apache-2.0
"""The scripts that check the source tree: each accepts a right tree and names what is wrong in a wrong one."""

import ast
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from npugraph import torch_versions

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"


def run(script: str, *arguments: str) -> tuple[int, str]:
    """Returns the exit code and the output of scripts/<script>."""
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
    "src/core/base/error.h": "#pragma once\n",
    "src/core/abi/task.h": "#include <stdint.h>\n",
    "src/core/tensor/shape.h": '#include "base/error.h"\n',
    "src/core/ir/graph.h": '#include <vector>\n#include "tensor/shape.h"\n',
    "src/core/ir/CMakeLists.txt": "npugraph_layer(ir DEPS base tensor)\n",
    "src/core/passes/simplify/dce.cc": '#include "ir/graph.h"\n#include "tensor/shape.h"\n',
    "src/backend/bridge/tensors.cc": '#include <ATen/ATen.h>\n#include "ir/graph.h"\n',
    "src/backend/bridge/CMakeLists.txt": "npugraph_layer(backend/bridge DEPS base ir LINK npugraph_libtorch)\n",
    "src/core/tools/CMakeLists.txt": "npugraph_tool(npugraph-opt npugraph_opt.cc DEPS base passes)\n",
    "python/npugraph/__init__.py": "import torch\n",
    "python/npugraph/log.py": "from npugraph import _C\n",
    "python/npugraph/report/page.py": "from npugraph.log import tell\n",
    "python/npugraph_ex/__init__.py": "from npugraph import backend\n",
}


def test_layers_of_a_right_tree(tmp_path: Path) -> None:
    code, output = run("check_layers", "--root", str(write(tmp_path, RIGHT)))
    assert (code, output) == (0, "check_layers: all includes, links and imports follow the layers\n")


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        (
            "src/core/base/log.cc",
            '#include "ir/graph.h"\n',
            "src/core/base/log.cc:1: base may not include ir (ir/graph.h)",
        ),
        (
            "src/core/abi/task.h",
            '#include "base/error.h"\n',
            "src/core/abi/task.h:1: abi may not include base (base/error.h)",
        ),
        (
            "src/core/runtime/run.h",
            '\n#include "ir/graph.h"\n',
            "src/core/runtime/run.h:2: runtime may not include ir (ir/graph.h)",
        ),
        (
            "src/core/ir/graph.cc",
            '#include "graph.h"\n',
            'src/core/ir/graph.cc:1: "graph.h" is no path into a layer',
        ),
        (
            "src/core/ir/graph.cc",
            "#include <ATen/ATen.h>\n",
            "src/core/ir/graph.cc:1: only backend and device may include <ATen/ATen.h>",
        ),
        (
            "src/core/ir/graph.cc",
            '#include "c10/util/X.h"\n',
            "src/core/ir/graph.cc:1: only backend and device may include <c10/util/X.h>",
        ),
        (
            "src/core/lower/x.cc",
            "#include <llvm/IR/X.h>\n",
            "src/core/lower/x.cc:1: only codegen may include <llvm/IR/X.h>",
        ),
        ("src/core/tools/opt.cc", '#include "backend/bridge/tensors.h"\n', "tools may not include backend/bridge"),
        ("src/extra/x.h", "\n", "src/extra/x.h: not in a layer of scripts/check_layers"),
        (
            "src/extra/CMakeLists.txt",
            "\n",
            "src/extra/CMakeLists.txt: extra is not a layer of scripts/check_layers",
        ),
        (
            "src/core/ir/CMakeLists.txt",
            "npugraph_layer(ir DEPS base ops)\n",
            "src/core/ir/CMakeLists.txt: ir may not link ops",
        ),
        (
            "src/core/abi/CMakeLists.txt",
            "npugraph_layer(abi DEPS base)\n",
            "src/core/abi/CMakeLists.txt: abi may not link base",
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
        (
            "python/npugraph/fx/values.py",
            "def f():\n    from npugraph.report import page\n",
            "python/npugraph/fx/values.py:2: npugraph.fx may not import npugraph.report",
        ),
        (
            "python/npugraph/log.py",
            "from npugraph.report.page import write\n",
            "python/npugraph: imports go in a circle: npugraph.log <- npugraph.report <- npugraph.log",
        ),
    ],
)
def test_layers_name_the_wrong_edge(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    code, output = run("check_layers", "--root", str(write(tmp_path, RIGHT | {name: text})))
    assert code == 1
    assert complaint in output
    assert len(output.splitlines()) == 1


ROWS = '{.schema = "npu::scatter(Tensor x) -> Tensor"},\n{.schema = "aten::mm(Tensor a) -> Tensor"},\n'


ASCEND_ROWS = """\
library.add({.schema = "npu::scatter(Tensor x) -> Tensor", .kernel = parts(&scatter)});
library.add({.schema = "npu::swiglu.out(Tensor x, "
                       "str mode='up') -> Tensor", .kernel = whole(&swiglu, &meta)});
"""
VLLM = "packaging/npugraph_vllm/npugraph_vllm/ascend_operators"


def check_operators(root: Path, name: str, text: str) -> tuple[int, str]:
    texts = {
        "src/core/ops/rows/all.inc": ROWS,
        "src/device/npu_ops/tensors/scatter.cc": ASCEND_ROWS,
        f"{VLLM}/schemas/0.14.txt": "rms_norm(Tensor x) -> Tensor\n",
    }
    return run("check_operators", "--root", str(write(root, texts | {name: text})))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("src/core/passes/simplify/dce.cc", 'if (node.op->name == "aten.mm") return;\n'),
        ("src/core/lower/terms/terms.cc", 'row("aten.of.no.row");\n'),
        ("src/device/eager/copies.cc", 'call("aten::copy_", tensor);  // to the host\n'),
        ("src/core/lower/terms/terms.cc", 'constexpr std::string_view kName = "npu.scatter";\n'),
        ("src/core/passes/simplify/dce.cc", "const Attr& other = node.args[1];\n"),
        ("src/core/lower/terms/terms.cc", "return node->args.at(0);\n"),
        ("src/device/capture/capture.cc", 'if (name == "npu::swiglu.out") return;\n'),
        ("src/device/npu_ops/layers/gates.cc", 'call("npu::swiglo");\n'),
        ("python/npugraph/a.py", 'handler("npu::swiglo")\n'),
        ("packaging/torch_npu/a.py", "torch.ops.npu.swiglo.out(x)\n"),
        (f"{VLLM}/norms.py", '@composite("rmsnorm") \ndef rms_norm(x): ...\n'),
    ],
)
def test_operators_and_arguments_are_named_by_handles(tmp_path: Path, name: str, text: str) -> None:
    code, output = check_operators(tmp_path, name, text)
    assert code == 1
    assert output.startswith(f"{name}:1: ")
    assert len(output.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("src/core/ops/shapes/all.cc", 'find("aten.mm"), call.args[1]\n'),
        ("src/core/passes/simplify/dce.cc", '// %y = aten.mm(%x), or "aten.mm"\nuse(node.args[i], "npu.other");\n'),
        ("src/core/lower/terms/terms.cc", 'task.name = "kernel.mm_f32";\nname.starts_with("aten::");\n'),
        ("src/device/eager/copies.cc", "const c10::IValue& other = args[1];\n"),
        ("src/device/npu_ops/layers/gates.cc", 'call("npu::swiglu.out");\n'),
        ("python/npugraph/a.py", 'handler("npu::swiglu", "npu::swiglu_in_graphs.out", "npu::name with text")\n'),
        ("packaging/torch_npu/a.py", "torch.ops.npu.swiglu.out(x)\n"),
        (f"{VLLM}/norms.py", '@composite("rms_norm")\ndef rms_norm(x): ...\n'),
    ],
)
def test_what_is_no_operator_or_stands_in_the_table(tmp_path: Path, name: str, text: str) -> None:
    assert check_operators(tmp_path, name, text)[0] == 0


def test_a_schema_of_ascend_is_one_text(tmp_path: Path) -> None:
    other = '{.schema = "npu::swiglu.out(Tensor x, str mode=\\"down\\") -> Tensor"},\n'
    code, output = check_operators(tmp_path, "src/core/ops/rows/npu.inc", other)
    assert code == 1
    assert output.startswith("src/core/ops/rows/npu.inc: the schema of npu::swiglu.out is not that of its row")
    assert check_operators(tmp_path, "src/core/ops/rows/npu.inc", other.replace("down", "up"))[0] == 0


NAMES = {
    "src/core/plan/CMakeLists.txt": "npugraph_layer(plan ROOMS places DEPS base PCH_OF base)\n",
    "src/core/plan/a.cc": "namespace {\nint size_of(int x) {\n  return x;\n}\n}  // namespace\n",
}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/core/plan/b.cc", "namespace {\nlong size_of(long x) { return x; }\n}  // namespace\n"),
        ("src/core/plan/places/c.cc", "static const int size_of = 2;\n"),
        ("src/core/plan/b.cc", "namespace {\nstruct size_of {};\n}  // namespace\n"),
    ],
)
def test_two_files_of_a_layer_have_no_name_in_common(tmp_path: Path, path: str, text: str) -> None:
    code, output = run("check_names", "--root", str(write(tmp_path, NAMES | {path: text})))
    assert code == 1
    assert "src/core/plan/a.cc:2" in output
    assert f"{path}:" in output
    assert len(output.splitlines()) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/core/plan/b.cc", "int size_of(long x) { return x; }\n"),
        ("src/core/plan/b.cc", "namespace {\nint Task::size_of(int x) { return x; }\n}  // namespace\n"),
        ("src/core/plan/b.cc", "namespace {\nint sum(int x) {\n  return size_of(x);\n}\n}  // namespace\n"),
        ("src/core/ir/b.cc", "namespace {\nint size_of(int x) { return x; }\n}  // namespace\n"),
    ],
)
def test_names_of_members_and_of_other_layers_are_free(tmp_path: Path, path: str, text: str) -> None:
    files = NAMES | {"src/core/ir/CMakeLists.txt": "npugraph_layer(ir DEPS base)\n", path: text}
    assert run("check_names", "--root", str(write(tmp_path, files)))[0] == 0


def test_two_files_of_unit_tests_have_no_name_in_common(tmp_path: Path) -> None:
    text = "namespace {\nint size_of(int x) { return x; }\nTEST(Plan, Size) {\n}\n}  // namespace\n"
    files = {f"tests/unit/core/{name}_test.cc": text for name in ("plan/a", "plan/b", "ir/c")}
    code, output = run("check_names", "--root", str(write(tmp_path, files)))
    assert (code, len(output.splitlines())) == (1, 1)
    assert "tests/unit/core/plan/a_test.cc:2: size_of is also the name" in output


def test_two_files_of_a_program_have_no_name_in_common(tmp_path: Path) -> None:
    text = "namespace {\nint size_of(int x) { return x; }\n}  // namespace\n"
    files = {
        "src/core/tools/CMakeLists.txt": "npugraph_tool(one SOURCES a.cc b.cc DEPS base)\n"
        "npugraph_tool(two SOURCES c.cc)\n",
        "tests/CMakeLists.txt": "add_executable(one a.cc b.cc)\nnpugraph_batches(one ${NPUGRAPH_BATCH})\n"
        "add_executable(two a.cc b.cc)\n",
        "tests/unit/environment.cc": text,
        "tests/unit/core/plan/a_test.cc": text,
    }
    files |= {f"{folder}/{name}.cc": text for folder in ("src/core/tools", "tests") for name in "abc"}
    code, output = run("check_names", "--root", str(write(tmp_path, files)))
    assert (code, len(output.splitlines())) == (1, 3)
    assert "src/core/tools/a.cc:2: size_of is also the name of something in src/core/tools/b.cc:2" in output
    assert "tests/a.cc:2: size_of is also the name of something in tests/b.cc:2" in output
    assert "tests/unit/environment.cc:2: size_of is also the name of something in tests/unit/core/plan/a" in output


def test_names_of_the_fuzzer_are_checked() -> None:
    programs = runpy.run_path(str(SCRIPTS / "check_names"))["programs"]
    tests = SCRIPTS.parent / "tests"
    assert [tests / "fuzz/air_fuzz.cc"] in [files[:1] for files in programs(tests)]


def test_the_picture_of_the_docs_is_that_of_the_layers() -> None:
    _, picture = run("check_layers", "--picture")
    assert f"```mermaid\n{picture}```" in (SCRIPTS.parent / "docs/architecture.md").read_text()


def test_layers_picture_is_a_graph_of_what_is_not_implied() -> None:
    code, output = run("check_layers", "--picture")
    lines = output.splitlines()
    assert (code, lines[0]) == (0, "graph BT")
    assert "  passes --> ops" in lines
    assert "  passes --> ir" not in lines
    assert "  backend_bridge[backend/bridge]" in lines


def test_file_size_accepts_the_limit_and_prints_the_median(tmp_path: Path) -> None:
    files = {
        "src/core/base/a.h": "\n" * 10,
        "src/core/base/b.cc": "\n" * 800,
        "python/npugraph/c.py": "\n" * 20,
        "src/d.md": "\n" * 900,
    }
    code, output = run("check_file_size", "--root", str(write(tmp_path, files)))
    assert (code, output) == (0, "check_file_size: 3 files, median 20 lines, longest 800\n")


def test_file_size_names_what_is_too_long(tmp_path: Path) -> None:
    files = {"src/core/base/b.cc": "\n" * 801, "scripts/setup": "\n" * 5}
    code, output = run("check_file_size", "--root", str(write(tmp_path, files)))
    assert code == 1
    assert output.startswith("src/core/base/b.cc: 801 lines, at most 800 are allowed")


TEST = """import pytest


@pytest.mark.feature({rows})
def test_it():
    pass


def test_other():
    pass
"""


def features_page(root: Path, marks: str, rows: dict[str, str], remarks: dict[str, str]) -> str:
    """Returns the page that the script writes for a tree with one marked test and one section of rows, or its
    complaints."""
    files = {
        "scripts/features_page": (SCRIPTS / "features_page").read_text(),
        "tests/python/features.py": f"SECTIONS = {{'1. Options': {rows!r}}}\nREMARKS = {remarks!r}\n",
        "tests/python/test_some.py": TEST.format(rows=marks),
        "docs/features.md": "",
    }
    write(root, files)
    command = [sys.executable, root / "scripts/features_page"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert bool(done.returncode) == bool(done.stderr)
    return done.stderr or (root / "docs/features.md").read_text()


def test_the_page_of_features_follows_the_marks(tmp_path: Path) -> None:
    rows = {"1.01": "Options have types.", "1.02": "A switch."}
    page = features_page(tmp_path, '"1.01"', rows, {"1.02": "Partly built. See `test_some::test_other`."})
    assert "\n## 1. Options\n\n| number | text | proof or reason |\n" in page
    assert "\n| 1.01 | Options have types. | `test_some::test_it` |\n" in page
    assert "\n| 1.02 | A switch. | Partly built. See `test_some::test_other`. |\n" in page
    assert "\n| proven by tests | 1 |\n| partly built | 1 |\n" in page
    page = features_page(tmp_path, '"1.01", "1.02"', rows, {})
    assert "\n| 1.02 | A switch. | `test_some::test_it` |\n" in page
    assert "\n| proven by tests | 2 |\n\n" in page


def test_the_page_of_features_names_some_tests_of_a_row(tmp_path: Path) -> None:
    marked = "".join(f'@pytest.mark.feature("1.01")\ndef test_{number}():\n    pass\n' for number in range(6))
    write(tmp_path, {"tests/python/test_more.py": marked})
    page = features_page(tmp_path, '"1.01", "1.02"', {"1.01": "Options.", "1.02": "A switch."}, {})
    assert "| 1.01 | Options. | `test_more::test_0`, `test_more::test_1`, `test_more::test_2`, " in page
    assert "`test_more::test_3`, and 3 more |" in page


@pytest.mark.parametrize(
    ("marks", "remarks", "complaint"),
    [
        ('"1.01", "77.7"', {}, "test_some::test_it names a row that does not exist: 77.7"),
        ("", {}, "1.01 has neither a test nor a remark"),
        ('"1.01"', {"1.01": "Not built yet."}, "1.01 has both tests and a remark"),
        ('"1.01"', {"77.7": "Not built yet."}, "77.7 has a remark and is no row"),
        ("", {"1.01": "Later."}, "the remark of 1.01 begins with none of Partly built., Not built yet., "),
        ("", {"1.01": "Partly built."}, "the remark of 1.01 names no test"),
        (
            "",
            {"1.01": "Not built yet. `test_some::test_gone`"},
            "names a test that does not exist: test_some::test_gone",
        ),
    ],
)
def test_the_page_of_features_names_wrong_marks_and_remarks(
    tmp_path: Path, marks: str, remarks: dict[str, str], complaint: str
) -> None:
    text = features_page(tmp_path, marks, {"1.01": "Options have types."}, remarks)
    assert text.startswith("features_page: ")
    assert complaint in text
    assert len(text.splitlines()) == 1
    assert (tmp_path / "docs/features.md").read_text() == ""


def test_features_are_numbered_without_gaps() -> None:
    """A row that is lost leaves a gap in the numbers of its section."""
    sections = runpy.run_path(str(SCRIPTS.parent / "tests/python/features.py"))["SECTIONS"]
    rows = [row.rsplit(".", 1) for section in sections.values() for row in section]
    found = {chapter: [row for of, row in rows if of == chapter] for chapter, _ in rows}
    assert list(found) == [*map(str, range(1, 12)), "12b", "12e"]
    for chapter, numbers in found.items():
        plain = list(dict.fromkeys(int(number.rstrip("abcd")) for number in numbers))
        assert plain == list(range(1, len(plain) + 1)), chapter
        assert len(set(numbers)) == len(numbers), chapter
    assert [number for number in found["2"] if not number.isdigit()] == ["08a", "08b", "08c", "08d"]


def test_the_page_of_features_is_current() -> None:
    script = runpy.run_path(str(SCRIPTS / "features_page"))
    assert script["complaints"](script["all_tests"]()) == []
    assert script["PAGE"].read_text() == script["page"](), "docs/features.md is not current: run scripts/features_page"


def test_the_types_of_the_extension_are_current(tmp_path) -> None:
    if torch_versions.minor(torch.__version__) not in (SCRIPTS.parent / "requirements/torch.txt").read_text():
        pytest.skip("the types are written with the torch of requirements/torch.txt: others have another pybind11")
    folder = SCRIPTS.parent / "python/npugraph"
    # This runs in a process of its own, because imports of other tests add to the module.
    done = subprocess.run([sys.executable, SCRIPTS / "stubs", tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    current, written = (
        {path.relative_to(at): path.read_text() for pattern in ("_C/*.pyi", "_*.pyi") for path in at.glob(pattern)}
        for at in (tmp_path, folder)
    )
    assert written == current, "the types of the extension modules are not current: run scripts/stubs"
    assert len(written) > 2


def test_the_types_of_the_extension_name_all_of_it() -> None:
    from npugraph import _C

    tree = ast.parse((SCRIPTS.parent / "python/npugraph/_C/__init__.pyi").read_text())
    named = {node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    named |= {node.target.id for node in tree.body if isinstance(node, ast.AnnAssign)}
    named |= {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert {name for name in vars(_C) if not name.startswith("_")} <= named
    assert {"Artifact", "Callable", "ge"} <= named
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
        "build/release/build.ninja": "",
        "build/release/CMakeCache.txt": f"CMAKE_HOME_DIRECTORY:INTERNAL={tmp_path}\n",
        ".venv/bin/ninja": "#!/bin/sh\nprintf '%s\\n' " + " ".join(f"'{line}'" for line in lines) + "\n",
    }
    write(tmp_path, files)
    (tmp_path / ".venv/bin/ninja").chmod(0o755)
    (tmp_path / "scripts").mkdir()
    for script in ("build", "jobs"):
        shutil.copy(SCRIPTS / script, tmp_path / "scripts")
    if began == "long ago":  # after half a minute without output, a line is printed
        write(tmp_path, {".venv/bin/date": "#!/bin/sh\necho 0\n"})
        (tmp_path / ".venv/bin/date").chmod(0o755)
    done = subprocess.run(["bash", tmp_path / "scripts/build"], check=True, capture_output=True, text=True)
    steps = [*([0] if began == "long ago" else []), *range(10, 101, 10)]
    assert done.stdout.splitlines() == [*(f"build: {step} of 100 steps" for step in steps), "warning: three.cc"]


def test_a_library_shows_names_of_npugraph_alone(tmp_path: Path) -> None:
    ours = "namespace llvm { class Value; }\nnamespace npugraph { int emit(llvm::Value*) { return 1; } }\n"
    ours += 'extern "C" int PyInit__C() { return npugraph::emit(nullptr); }\n'
    foreign = ours + "namespace llvm { int run() { return 2; } }\n"
    libraries = []
    for name, text in (("ours", ours), ("foreign", foreign)):
        source, library = tmp_path / f"{name}.cc", tmp_path / f"lib{name}.so"
        source.write_text(text)
        subprocess.run(["c++", "-shared", "-fPIC", source, "-o", library], check=True)
        libraries.append(library)
    check = [SCRIPTS / "check_exports"]
    assert subprocess.run([*check, libraries[0]], check=True, capture_output=True).stdout == b""
    done = subprocess.run([*check, *libraries], check=False, capture_output=True, text=True)
    expected = "libforeign.so shows names that are not npugraph's: 1, of which the first is llvm::run()\n"
    assert (done.returncode, done.stdout) == (1, f"check_exports: {expected}")


DOCUMENTED = {
    "docs/page.md": "# A page\n\n## Its `second` part\n\nSee [above](#its-second-part) and `src/core/plan/plan.h`.\n",
    "src/core/plan/README.md": "[Page](../../../docs/page.md#a-page). `plan`, `rules/*`.\n\n| "
    + "wide " * 40
    + "|\n|---|\n",
    "src/core/plan/plan.h": "// A plan.\n",
    "src/core/plan/plan.cc": "",
    "src/core/plan/rules/sums.cc": "",
}


def check_docs(root: Path, files: dict[str, str]) -> tuple[int, str]:
    write(root, files | {"build/site/page.md": "[nowhere](nothing.md)", ".venv/README.md": "`src/no.h`"})
    return run("check_docs", "--root", str(root))


def test_documents_that_say_what_is_there(tmp_path: Path) -> None:
    assert check_docs(tmp_path, DOCUMENTED) == (0, "check_docs: 2 documents say what is there\n")


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("docs/more.md", "[gone](other.md)\n", "docs/more.md:1: a link leads to other.md, which is not there"),
        (
            "src/core/plan/README.md",
            "`plan`, `rules/*`\n\n[x](../../../docs/page.md#b)\n",
            "src/core/plan/README.md:3: a link leads to #b, which is no heading of page.md",
        ),
        ("docs/more.md", "`src/core/plan/{plan,other}.h`\n", "docs/more.md:1: src/core/plan/other.h is not there"),
        ("src/core/plan/rows.cc", "", "src/core/plan/README.md: does not name rows"),
        ("docs/more.md", "word " * 25 + "\n", "docs/more.md:1: longer than 120"),
        ("src/core/plan/plan.cc", "int x;  // " + "word " * 25 + "\n", "src/core/plan/plan.cc:1: longer than 120"),
    ],
)
def test_documents_that_have_fallen_behind(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    assert check_docs(tmp_path, DOCUMENTED | {name: text}) == (1, f"{complaint}\n")
