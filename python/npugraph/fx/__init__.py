# SPDX-License-Identifier: Apache-2.0
"""Between torch.fx and the C++ graph: preparation, import, and the way back."""
