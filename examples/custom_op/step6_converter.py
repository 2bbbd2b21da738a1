# SPDX-License-Identifier: Apache-2.0
"""Step 6: the converter to Ascend IR, for GE mode ("max-autotune") and for models in files. Operators with a kernel in
a library have one: the type of the IR operator is the operator's name without underlines, its inputs and attributes are
those of the schema. A converter of your own takes precedence, here for the functional operator.

Usage: bash build.sh; python step6_converter.py
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy
import step3_eager
import step4_meta
import step5_functionalisation
import torch

import torchair

# The build leaves npugraph-run in the first place; a wheel installs it next to python.
PLACES = (Path(__file__).parents[2] / "build/release/bin", Path(sys.executable).parent)


@torchair.register_fx_node_ge_converter(torch.ops.tutorial.scaled_add.default)
def convert(x: torchair.ge.Tensor, y: torchair.ge.Tensor, scale: float, *, meta_outputs: Any) -> Any:
    return torchair.ge.custom_op(
        "TutorialAdd",
        inputs={"x": x, "y": y},
        attrs={"scale": torchair.ge.attr.Float(scale)},
        outputs=["z"],
    )


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return step4_meta.fn(x, y)


@torch.no_grad()
def main() -> None:
    x, y = torch.randn(1000), torch.randn(1000)
    for mode in ("reduce-overhead", "max-autotune"):
        config = torchair.CompilerConfig()
        config.mode = mode
        backend = torchair.get_npu_backend(compiler_config=config)
        torch.testing.assert_close(torch.compile(step4_meta.fn, backend=backend)(x, y), step4_meta.fn(x, y))
        mine, written = x.clone(), x.clone()
        result = torch.compile(step5_functionalisation.fn, backend=backend)(written, y)
        torch.testing.assert_close(result, step5_functionalisation.fn(mine, y))
        torch.testing.assert_close(written, mine)
        print(f"{mode}: the same results")

    folder = Path(tempfile.mkdtemp())
    torchair.dynamo_export(x, y, model=Model(), export_path=folder, export_name="model")
    numpy.save(folder / "x.npy", x.numpy())
    numpy.save(folder / "y.npy", y.numpy())
    tool = next(path / "npugraph-run" for path in PLACES if (path / "npugraph-run").exists())
    command = [tool, folder / "model.air", "-i", folder / "x.npy", "-i", folder / "y.npy", "-o", folder / "result.npy"]
    subprocess.run([*command, "--library", step3_eager.BUILD / "libtutorial_ops.so"], check=True)
    torch.testing.assert_close(torch.from_numpy(numpy.load(folder / "result.npy")), step4_meta.fn(x, y))
    print("npugraph-run --library: the same result, without Python and torch")


if __name__ == "__main__":
    main()
