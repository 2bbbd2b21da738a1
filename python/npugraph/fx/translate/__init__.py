# SPDX-License-Identifier: Apache-2.0
"""FX graph <-> C++ graph."""
