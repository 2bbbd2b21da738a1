# SPDX-License-Identifier: Apache-2.0
"""Builds both extensions in this folder. Each has the kernels and its own functions that call them.

Usage: python setup.py build_ext --inplace
"""

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension
from torch_npu.utils.cpp_extension import NpuExtension

OPTIONS = ["-O2", "-g0"]  # debug information would take most of the build

setup(
    name="extensions",
    packages=[],
    ext_modules=[
        NpuExtension("torch_library_ops", ["kernels.cc", "torch_library/operators.cc"], extra_compile_args=OPTIONS),
        NpuExtension("pybind_functions", ["kernels.cc", "pybind/functions.cc"], extra_compile_args=OPTIONS),
    ],
    cmdclass={"build_ext": BuildExtension},
)
