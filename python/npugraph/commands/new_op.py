# SPDX-License-Identifier: Apache-2.0
"""``python -m npugraph new-op`` makes a project for an operator of the user: a working one, to be changed."""

from __future__ import annotations

import argparse
import keyword
import re
from pathlib import Path

from npugraph.commands import refuse
from npugraph.fx.schema import BUILT_IN

COMMAND = "new-op"

_FILES = Path(__file__).parent / "new_op_files"
_NAME = re.compile(r"(\w+)::(\w+)")

_META = """\

# Step 4, the Meta function: sizes, type and strides of each result. Compilers and eager calls ask it.
@torch.library.register_fake("@ns@::@op@")
def meta(x, y, scale):
    return torch.empty_like(x)
"""
_NO_META = "# Step 4, the Meta function: an operator that only writes its arguments needs none."

_KINDS = {
    "functional": {
        "schema": "@op@(Tensor x, Tensor y, float scale) -> Tensor",
        "parameters": "Input x, Input y, double scale, Output result",
        "written": "result",
        "call": "z = torch.ops.@ns@.@op@(z, y, 0.5)",
        "compute": "return x + scale * y",
        "meta": _META,
        "functionalisation": "the operator writes none of its arguments.",
    },
    "inplace": {
        "schema": "@op@(Tensor(a!) x, Tensor y, float scale) -> ()",
        "parameters": "InOut x, Input y, double scale",
        "written": "x",
        "call": "torch.ops.@ns@.@op@(z, y, 0.5)",
        "compute": "x.add_(y, alpha=scale)",
        "meta": _NO_META,
        "functionalisation": "torch does it, because the schema says that x is written.",
    },
}

_LOAD = """\
# Steps 1 to 3: @op@.cc has the schema and the kernel. This defines the operator and its eager mode.
npugraph.load_library(Path(__file__).parent / "build/lib@op@.so")"""
_DEFINE = """\
library = torch.library.Library("@ns@", "FRAGMENT")

# Step 1, the schema.
library.define("@schema@")


# Steps 2 and 3, the kernel, which eager mode calls.
@torch.library.impl(library, "@op@", "CPU")
def compute(x, y, scale):
    @compute@"""
_CONVERTER = """\
# Step 6, the converter to Ascend IR: it follows from the schema. torchair.register_fx_node_ge_converter registers
# another one."""
_NO_CONVERTER = """\
# Step 6, the converter to Ascend IR: without one, GE mode runs the operator between two graphs and says so in the log.
# torchair.register_fx_node_ge_converter registers a function that makes operators of Ascend IR of the call."""

_LANGUAGES = {
    "cpp": {
        "imports": "from pathlib import Path\n\nimport torch\n\nimport npugraph",
        "definition": _LOAD,
        "converter": _CONVERTER,
        "build": "Build it: `bash build.sh`. It needs CMake and a C++ compiler. ",
        "kernel file": "`@op@.cc`",
    },
    "python": {
        "imports": "import torch",
        "definition": _DEFINE,
        "converter": _NO_CONVERTER,
        "build": "",
        "kernel file": "`@op@.py`",
    },
}
_STEPS = """\
| 1, schema | @kernel file@ |
| 2, kernel | @kernel file@ |
| 3, eager mode | `@op@.py` |
| 4, Meta function | `@op@.py` |
| 5, functionalisation | `@op@.py` |
| 6, converter | `@op@.py` |"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAMESPACE::NAME", help="the operator, as torch.ops.NAMESPACE.NAME")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--functional", dest="kind", action="store_const", const="functional", help="it returns a tensor")
    kind.add_argument(
        "--inplace", dest="kind", action="store_const", const="inplace", help="it writes its first argument"
    )
    parser.set_defaults(kind="functional")
    parser.add_argument(
        "--lang", choices=sorted(_LANGUAGES), default="cpp", help="language of the kernel, default: cpp"
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where to make the project, default: NAME")


def run(arguments: argparse.Namespace) -> int:
    found = _NAME.fullmatch(arguments.name)
    if not found or any(keyword.iskeyword(part) or part[0].isdigit() for part in found.groups()):
        return refuse(
            COMMAND, f"the name of an operator is NAMESPACE::NAME, such as my_ops::scaled_add, got {arguments.name!r}"
        )
    if found[1] in BUILT_IN:
        return refuse(COMMAND, f"the namespace {found[1]!r} has operators of others; choose one of your own")
    folder = arguments.out or Path(found[2])
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        return refuse(COMMAND, f"'{folder}' exists and is not an empty directory")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in project(found[1], found[2], arguments.kind, arguments.lang).items():
        (folder / name).write_text(text)
    build = "bash build.sh && " if arguments.lang == "cpp" else ""
    print(f"made {folder}; next: cd {folder} && {build}python -m pytest")
    return 0


def project(namespace: str, name: str, kind: str, language: str) -> dict[str, str]:
    """Returns the text of each file of the project, by name."""
    words = {"ns": namespace, "op": name, "steps": _STEPS} | _KINDS[kind] | _LANGUAGES[language]
    files = {"README.md": "README.md", f"{name}.py": "operator.py", f"test_{name}.py": "test.py"}
    if language == "cpp":
        files |= {f"{name}.cc": "kernel.cc", "CMakeLists.txt": "CMakeLists.txt", "build.sh": "build.sh"}
    return {file: _filled((_FILES / f"{template}.in").read_text(), words) for file, template in files.items()}


def _filled(text: str, words: dict[str, str]) -> str:
    """The text with each @word@ replaced, also in what replaces others."""
    while (changed := re.sub(r"@([a-z ]+)@", lambda word: words[word[1]], text)) != text:
        text = changed
    return text
