# SPDX-License-Identifier: Apache-2.0
"""Takes the place of the package ``fla_npu``, recurrent layers in kernels of Ascend C, for vllm-ascend."""
