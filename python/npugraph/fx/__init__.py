# SPDX-License-Identifier: Apache-2.0
"""The code between torch.fx graphs and the C++ Graph: tracing, passes, preparation, import, and the way back."""
