# SPDX-License-Identifier: Apache-2.0
"""Writes the GGUF file FROM in another form: python -m benchmarks.samples.requantise FROM TO FTYPE. Prints JSON."""

from __future__ import annotations

import sys

import llama_cpp


def main(source: str, target: str, ftype: str) -> None:
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = int(ftype)
    parameters.allow_requantize = True
    if llama_cpp.llama_model_quantize(source.encode(), target.encode(), parameters):
        raise RuntimeError(f"llama.cpp cannot write {target}")
    print("{}")


if __name__ == "__main__":
    main(*sys.argv[1:])
