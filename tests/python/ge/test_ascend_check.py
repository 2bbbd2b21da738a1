# SPDX-License-Identifier: Apache-2.0
"""``python -m npugraph ascend-check`` and ``NPUGRAPH_STRICT=ascend``: what works here and not on Ascend."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import torch

import torchair
from npugraph.ge.backend import ascend_rules
from tests.python.forks import run_python
from tests.python.ge import seed_script

_HEAD = """\
import torch
import torchair
from torchair import scope
from torchair.inference import set_dim_gears

torch.library.define("mine::twice", "(Tensor x) -> Tensor")
torch.library.impl("mine::twice", "CPU", lambda x: x * 2)
torch.library.register_fake("mine::twice", lambda x: torch.empty_like(x))


def compiled(function, **options):
    return torch.compile(function, backend=torchair.get_npu_backend(), **options)


"""
# Each of the lines that end in a word after "#!" has a fault, and the finding of the line has this word.
_FAULTS = """\
@torch.no_grad()
def operators(x, i):
    y = torch.digamma(x)  #! aten.digamma.default
    y = y + torch.amax(y, 0)  #! aten.amax.default
    y = torch.index_put(y, (i,), x[i])  #! aten.index_put.default
    return torch.ops.mine.twice(y)  #! mine.twice.default

@torch.no_grad()
def types(x):
    y = x @ x  #! double
    return torch.nn.functional.conv2d(y[None, None], x[None, None])  #! Conv2D

@torch.no_grad()
def scopes(x):
    with scope.npu_stream_switch("side"):  #! ENABLE_DYNAMIC_SHAPE_MULTI_STREAM
        y = torch.relu(x)
    with scope.super_kernel("block"):  #! super_kernel
        return torch.tanh(y) * 2

x = torch.randn(4, 4) + 2
compiled(operators)(x, torch.tensor([0, 2]))
compiled(types)(x.double())
compiled(scopes, dynamic=True)(x)
z = torch.randn(4, 4, requires_grad=True)
compiled(lambda z: torch.nn.functional.silu(z) * 2)(z).sum().backward()  #! silu_backward

g = torch.randn(2, 4)
set_dim_gears(g, {0: [1, 2]})  #! gear
compiled(torch.relu, dynamic=True, fullgraph=True)(g)
"""


def _check(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    path = folder / "script.py"
    path.write_text(text, encoding="utf-8")
    return run_python("-m", "npugraph", "ascend-check", path, cwd=folder)


def _planted(text: str) -> dict[int, str]:
    lines = enumerate(text.splitlines(), 1)
    return {number: line.rpartition("#! ")[2] for number, line in lines if "#! " in line}


def test_each_fault_is_found_at_its_line(tmp_path: Path) -> None:
    text = _HEAD + _FAULTS
    done = _check(tmp_path, text)
    assert done.returncode == 1, done.stderr
    found = re.findall(rf"^{re.escape(str(tmp_path))}/script\.py:(\d+) in \S+: (.*)$", done.stdout, re.MULTILINE)
    planted = _planted(text)
    assert len(planted) >= 10
    assert {int(line) for line, _ in found} == planted.keys()
    for line, word in planted.items():
        assert any(word in text for number, text in found if int(number) == line), (line, found)
    assert len(done.stdout.splitlines()) == len(found)


def test_scripts_that_ascend_runs_have_no_finding(tmp_path: Path) -> None:
    text = seed_script.SCRIPT.read_text(encoding="utf-8").replace("import torch_npu\n", "").replace(".npu()", "")
    done = _check(tmp_path, text)
    assert done.returncode == 0, done.stderr
    assert "script.py" not in done.stdout.replace(f"{tmp_path}/script.py in <module>", "")
    assert _check(tmp_path, "print('nothing is compiled')\n").stdout == "nothing is compiled\n"


def test_a_script_that_fails_cannot_be_judged(tmp_path: Path) -> None:
    done = _check(tmp_path, "raise ValueError('no')\n")
    assert done.returncode == 2
    assert "ValueError: no" in done.stderr and "ends with exit code 1" in done.stderr


def test_the_environment_makes_findings_errors(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(_HEAD + _FAULTS, encoding="utf-8")
    done = run_python(path, cwd=tmp_path, env={**os.environ, "NPUGRAPH_STRICT": "ascend"})
    assert done.returncode != 0
    lines = done.stderr.partition("NotOnAscend: this does not work on Ascend:\n")[2].splitlines()
    first = min(_planted(_HEAD + _FAULTS))
    assert lines[0] == (
        f"  {path}:{first} in operators: torch.ops.aten.digamma.default: torchair has no ge_converter for it"
    )


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("{float16,float}", {"float16", "float"}),
        ("{fp16,float32,bfloat16}", {"float16", "float", "bf16"}),
        ("IndexNumberType", {"int32", "int64"}),
        ("T1", None),
        ("ALL", None),
    ],
)
def test_texts_of_element_types(text: str, types: set[str] | None) -> None:
    assert ascend_rules.allowed_types(text) == types


def test_nothing_is_looked_for_unless_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ascend_rules, "of_operators", lambda *_: pytest.fail("nobody asked"))
    fast = torch.compile(torch.digamma, backend=torchair.get_npu_backend())
    torch._dynamo.reset()
    x = torch.rand(3) + 1
    torch.testing.assert_close(fast(x), torch.digamma(x))
