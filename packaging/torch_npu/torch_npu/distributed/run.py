# SPDX-License-Identifier: Apache-2.0
"""torchrun under the names ``torch_npu_run`` and ``python -m torch_npu.distributed.run``."""

from torch.distributed.run import main, parse_args

__all__ = ["parse_args"]

if __name__ == "__main__":
    main()
