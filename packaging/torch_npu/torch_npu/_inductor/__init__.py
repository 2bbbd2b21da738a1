# SPDX-License-Identifier: Apache-2.0
"""The vendor's Inductor backend has no part here: torch.compile works on npu with the backend ``npugraph_ex``."""
