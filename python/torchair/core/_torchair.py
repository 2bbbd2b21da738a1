# SPDX-License-Identifier: Apache-2.0
"""The functions of Ascend's module in C++."""

import importlib

from npugraph.facade import lazy_names
from npugraph.ge.executor import TorchNpuGraphBase
from npugraph.ge.executor import finish as FinalizeGraphEngine
from npugraph.ge.executor import start as InitializeGraphEngine
from npugraph.ge.ir import check_cann_compat, get_registered_ir_def

__all__ = [
    "FinalizeGraphEngine",
    "GetSocName",
    "InitializeGraphEngine",
    "TorchNpuGraphBase",
    "check_cann_compat",
    "get_registered_ir_def",
]

_NO_ACL = "graphs run generated code, and no operators of ACL that could be watched"

__getattr__ = lazy_names(
    "torchair.core._torchair",
    {},
    {
        "AclmdlSetDump": _NO_ACL,
        "AclopStartDumpArgs": _NO_ACL,
        "AclopStopDumpArgs": _NO_ACL,
        "CheckAclnnAvaliable": "graphs run generated code, and no operators of aclnn",
        "InitDeviceStdoutChannel": "operators print to the standard output of the process themselves",
        "SetDebugLogPath": "the engine writes no files of logs; torchair.logger takes handlers",
        "TorchDataType": "element types are those of torch and torchair.ge.DataType",
        "as_torch_tensors": "results of the engine are tensors of torch already",
        "export": "torchair.dynamo_export writes models to files",
    },
)


def GetSocName() -> str:
    """The product name of the npu devices."""
    return importlib.import_module("npugraph._ascend").facts()["name"]
