#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the library of kernels. usage: bash build.sh [FOLDER]      default: build; $PYTHON is the Python that has
# npugraph
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${1:-$here/build}
cmake -S "$here" -B "$folder" "-Dnpugraph_DIR=$("${PYTHON:-python}" -m npugraph paths --cmake)"
cmake --build "$folder"
