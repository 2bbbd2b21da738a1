# SPDX-License-Identifier: Apache-2.0
"""Takes the place of the compiled module ``vllm_ascend.vllm_ascend_C``, which defines the operators of namespace
``_C_ascend`` when it is imported. It lacks the functions of that module for sleep mode, which is not offered, so that
vllm-ascend says so."""

import npugraph_vllm.ascend_operators  # noqa: F401
