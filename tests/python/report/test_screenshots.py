# SPDX-License-Identifier: Apache-2.0
"""The page on a desk and on a phone: pictures for people, in build/screenshots, and checks of its layout."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
import torch

import npugraph
from tests.python.report.browser import look, picture

PICTURES = Path(__file__).resolve().parents[3] / "build/screenshots"
WIDTHS = {"desktop": 1440, "phone": 390}
HEIGHT = 4000

# Finds texts that cannot be read: cut off at the sides of the page, smaller than 10 pixels, or covered.
QUESTION = """
  const seen = (item) => { const box = item.getBoundingClientRect(); return box.width > 0 && box.height > 0; };
  const scrolls = (item) => item.closest(".rows") !== null;
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  const width = document.documentElement.clientWidth;
  const texts = "p, td, th, h1, h2, h3, a, button, .tile b, .tile span, .legend span, svg text";
  const words = [...document.querySelectorAll(texts)].filter(seen);
  const isCut = (box) => box.right > width + 1 || box.left < -1;
  const cut = words.filter((item) => !scrolls(item) && isCut(item.getBoundingClientRect()));
  const scale = (svg) => svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
  const size = (item) => parseFloat(getComputedStyle(item).fontSize) * scale(item.ownerSVGElement);
  const small = words.filter((item) => size(item) < 10);
  const covered = [...document.querySelectorAll("#graph .row")].filter((row) => {
    const badge = row.querySelector(".badge");
    const label = [...row.querySelectorAll("text")].find((text) => /aten|npugraph/.test(text.textContent));
    return badge && label && meet(badge.getBoundingClientRect(), label.getBoundingClientRect());
  });
  const inPictures = [...document.querySelectorAll("svg")].flatMap((svg) => {
    const texts = [...svg.querySelectorAll("text:not(.row text)")].map((text) => text.getBoundingClientRect());
    return texts.filter((a, i) => texts.slice(i + 1).some((b) => meet(a, b)));
  });
  const say = (items) => items.map((item) => item.textContent.slice(0, 40));
  return {
    wide: document.documentElement.scrollWidth > width,
    cut: say(cut), small: say(small), covered: say(covered), overlapping: inPictures.length,
    badges: document.querySelectorAll("#graph .badge").length,
    verdict: document.getElementById("verdict").textContent,
    modules: [...document.querySelectorAll("#time .origin b")].map((item) => item.textContent),
    run: document.getElementById("run").textContent,
    rates: [...document.querySelectorAll("#time .rate")].map((item) => item.textContent),
  };
"""


class Attention(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.in_projection = torch.nn.Linear(width, 3 * width)
        self.out_projection = torch.nn.Linear(width, width)

    def forward(self, x):
        heads = self.in_projection(x).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        mixed = torch.nn.functional.scaled_dot_product_attention(*heads.unbind(0), is_causal=True)
        return self.out_projection(mixed.transpose(1, 2).flatten(2))


class Block(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.attention = Attention(width)
        self.feed = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)
        )

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.feed(x)


class Transformer(torch.nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(width) for _ in range(3)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x.sort(-1).values


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    torch._dynamo.reset()
    with torch.no_grad():
        run = torch.compile(Transformer().eval(), backend="npugraph_ex", dynamic=True)
        for _ in range(6):
            run(torch.randn(2, 48, 64))
    artifact = npugraph.artifacts()[-1]
    assert artifact.name.startswith("Transformer_")
    path = tmp_path_factory.mktemp("report") / "page.html"
    artifact.report(str(path))
    return path


@pytest.mark.parametrize("device", WIDTHS)
def test_all_of_it_can_be_read(device: str, page: Path, tmp_path: Path) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    out = PICTURES / f"report_{device}.png"
    out.unlink(missing_ok=True)
    picture(page, tmp_path, WIDTHS[device], HEIGHT, out)
    head = out.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">2I", head[16:24]) == (WIDTHS[device], HEIGHT)

    seen = look(page, QUESTION, tmp_path, WIDTHS[device])
    told = seen.answer
    assert seen.console == []
    assert told["badges"] > 10
    assert (told["wide"], told["cut"], told["small"], told["covered"], told["overlapping"]) == (False, [], [], [], 0)
    assert "this model: " in told["verdict"]
    assert all(re.fullmatch(r"(Transformer|blocks\.\d\S*)( \+\d)?", module) for module in told["modules"])
    assert any(module.startswith("blocks.") for module in told["modules"])
    units = {re.fullmatch(r"[\d.]+ (GB/s|GFLOP/s)(?:\D*[\d.]+\s*%|caches)", rate)[1] for rate in told["rates"]}
    assert units == {"GB/s", "GFLOP/s"}
    assert "before the first task" in told["run"] and "The shortest of 5 runs" in told["run"]
