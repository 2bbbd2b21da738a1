# SPDX-License-Identifier: Apache-2.0
"""``python -m npugraph paths`` prints where the files are that a build of kernels needs."""

from __future__ import annotations

import argparse

from npugraph.libraries import cmake_path, include_path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--include", action="store_true", help="print only the directory of the headers")
    only.add_argument("--cmake", action="store_true", help="print only the directory of the CMake package")


def run(arguments: argparse.Namespace) -> int:
    if arguments.include:
        print(include_path())
    elif arguments.cmake:
        print(cmake_path())
    else:
        print(f"include  {include_path()}")
        print(f"cmake    {cmake_path()}")
    return 0
