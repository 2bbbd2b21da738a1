# SPDX-License-Identifier: Apache-2.0
"""Remote calls (torch.distributed.rpc) of processes with npu."""
