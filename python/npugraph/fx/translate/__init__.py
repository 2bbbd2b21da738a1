# SPDX-License-Identifier: Apache-2.0
"""The import of FX graphs into the C++ Graph, and the way back."""
