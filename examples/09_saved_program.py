# SPDX-License-Identifier: Apache-2.0
"""Step 9: save a Program, load it again without compiling, and run it without Python and torch.

Usage: python examples/09_saved_program.py [folder]
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import torch

import npugraph

# The build leaves npugraph-run in the first place; a wheel installs it next to python.
PLACES = (Path(__file__).parents[1] / "build/release/bin", Path(sys.executable).parent)


class Scale(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * self.weight, -1)


@torch.no_grad()
def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    model, x = Scale(), torch.randn(3, 4)
    wanted = torch.compile(model, backend="npugraph_ex")(x)
    (artifact,) = npugraph.artifacts()
    artifact.save(folder / "scale.ngp", torch_free=True)

    # Parameters are inputs like any other: a Program holds no weights.
    program = npugraph.load(folder / "scale.ngp")
    by_name = {"L['x']": x} | {f"L['self']._parameters['{name}']": p for name, p in model.named_parameters()}
    given = [by_name[text.split(": ")[0]] for text in program.inputs]
    print("inputs:", "; ".join(program.inputs))
    torch.testing.assert_close(program(given)[0], wanted)
    print("npugraph.load: the same result")

    # With the model, a loaded Program takes and returns what the model does.
    torch.testing.assert_close(npugraph.load(folder / "scale.ngp", model)(x), wanted)

    tool = next(path / "npugraph-run" for path in PLACES if (path / "npugraph-run").exists())
    command = [tool, folder / "scale.ngp", "--output", folder / "result.npy"]
    for i, tensor in enumerate(given):
        numpy.save(folder / f"input{i}.npy", tensor.detach().numpy())
        command += ["--input", folder / f"input{i}.npy"]
    subprocess.run(command, check=True)
    torch.testing.assert_close(torch.from_numpy(numpy.load(folder / "result.npy")), wanted)
    print("npugraph-run: the same result")


if __name__ == "__main__":
    main()
