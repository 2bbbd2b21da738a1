# SPDX-License-Identifier: Apache-2.0
"""The headers and the CMake package, with which users build libraries of kernels outside of this tree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch

import npugraph
from tests.python.backend.checks import check_captured, task_names

CMAKE = """
cmake_minimum_required(VERSION 3.18)
project(halves LANGUAGES CXX)
find_package(npugraph 0.1 REQUIRED)
npugraph_add_kernels(halves halves.cc more.cc)
"""
KERNEL = """
#include <npugraph/kernel.h>

using namespace npugraph::kernel;

namespace {

void NAME(const Context& context, Input x, Output result) {
  const float* from = x.data<float>();
  float* to = result.data<float>();
  context.parallel_for(x.numel(), 1024, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) to[i] = from[i] / PARTS;
  });
}
NPUGRAPH_KERNEL("test_package::NAME(Tensor x) -> Tensor", NAME)

}  // namespace
"""


def printed(*arguments: object) -> str:
    done = subprocess.run([*map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_a_library_is_built_outside_of_the_tree_and_runs(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    (tmp_path / "halves.cc").write_text(KERNEL.replace("NAME", "halves").replace("PARTS", "2"))
    (tmp_path / "more.cc").write_text(KERNEL.replace("NAME", "thirds").replace("PARTS", "3"))
    cmake = Path(sys.executable).with_name("cmake")
    package = printed(sys.executable, "-m", "npugraph", "paths", "--cmake")
    printed(cmake, "-S", tmp_path, "-B", tmp_path / "build", f"-Dnpugraph_DIR={package}", "-DCMAKE_CXX_FLAGS=-Werror")
    printed(cmake, "--build", tmp_path / "build")
    schemas = npugraph.load_library(tmp_path / "build/libhalves.so")
    assert sorted(schemas) == ["test_package::halves(Tensor x) -> Tensor", "test_package::thirds(Tensor x) -> Tensor"]
    for name in ("halves", "thirds"):
        torch.library.register_fake(f"test_package::{name}", torch.empty_like)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.test_package.thirds(torch.ops.test_package.halves(x * 6) + 1)

    with torch.no_grad():
        (artifact,) = check_captured(fn, lambda: (torch.randn(5000),))
    assert {"test_package.halves", "test_package.thirds"} <= set(task_names(artifact))


def test_the_directories_of_headers_and_package_are_printed() -> None:
    include, cmake = (printed(sys.executable, "-m", "npugraph", "paths", option) for option in ("--include", "--cmake"))
    assert (include, cmake) == (npugraph.include_path(), npugraph.cmake_path())
    assert (Path(include) / "npugraph/kernel.h").is_file()
    assert (Path(include) / "npugraph/torch.h").is_file()
    assert (Path(cmake) / "npugraphConfig.cmake").is_file()
    assert printed(sys.executable, "-m", "npugraph", "paths") == f"include  {include}\ncmake    {cmake}"
