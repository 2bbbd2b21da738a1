# SPDX-License-Identifier: Apache-2.0
"""The command line of the demo, which the package's docstring describes. Exit codes: 0 if the tokens are those of eager
mode or were not compared, 1 for an error of Python, 2 for arguments that it does not take, 3 for other tokens than in
eager mode, 4 for a missing package, 130 after an interrupt."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator
from typing import Any

import torch

import npugraph
from npugraph.demo import generate, packages, smollm2, summary
from npugraph.demo.terminal import Progress, TokenPrinter
from npugraph.gguf.reading import read_once

QUESTION = "Why is the sky blue?"
BACKEND = "npugraph_ex"
# A token that was said before counts as less likely by this factor. Otherwise a model of this size does not come to an
# end.
PENALTY = 1.2

USAGE, DIFFERENT, MISSING, INTERRUPTED = 2, 3, 4, 130  # exit codes


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    given = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(
        prog="python -m npugraph.demo",
        description="SmolLM2-135M-Instruct answers a question, eager and compiled.",
        epilog="Exit codes: 0 same tokens as eager, or not compared; 2 arguments that it does not take; 3 other tokens "
        "than eager; 4 a package is missing.",
    )
    parser.add_argument("question", nargs="*", help=f"what to ask, in quotes or not (default: {QUESTION})")
    parser.add_argument("--version", action="version", version=f"npugraph {npugraph.__version__}")
    parser.add_argument("--line", help="more arguments as one text, in which apostrophes need no care")
    parser.add_argument("--tokens", type=positive, default=200, help="longest answer (default: %(default)s)")
    parser.add_argument(
        "--penalty",
        type=above_zero,
        default=PENALTY,
        help="for tokens said again (default: %(default)s; 1: none)",
    )
    parser.add_argument("--no-eager", action="store_true", help="skip the comparison with eager")
    parser.add_argument("--backend", default=BACKEND, help="torch.compile backend, or torchair (default: %(default)s)")
    parser.add_argument("--device", default="cpu", choices=("cpu", "npu"), help="where it runs (default: %(default)s)")
    lines = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    lines.add_argument("--line", default="")
    found, others = lines.parse_known_args(given)
    parsed = parser.parse_intermixed_args([*others, *split_line(found.line)])
    parsed.question = " ".join(parsed.question) or QUESTION
    return parsed


def split_line(line: str) -> list[str]:
    """Returns the words of a line. Quotes around words hold these together; elsewhere quotes are text."""
    words = re.findall(r"""(?<!\S)(?:"([^"]*)"|'([^']*)')(?!\S)|(\S+)""", line)
    return [next(filter(None, parts), "") for parts in words]


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def above_zero(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError("must be above 0")
    return value


class Chat:
    """The loaded model, its compiled form, and one prompt."""

    def __init__(self, arguments: argparse.Namespace, backend: Any, progress: Progress) -> None:
        self.limit, self.penalty = arguments.tokens, arguments.penalty
        with read_once():
            with progress.stage("reading the tokenizer"):
                self.tokenizer = smollm2.load_tokenizer()
            with progress.stage("reading the weights"):
                self.model = smollm2.load_model().to(arguments.device)
        self.prompt = smollm2.chat_prompt(self.tokenizer, arguments.question).to(arguments.device)
        self.stop = {self.tokenizer.eos_token_id}
        self.cache = self.empty_cache()
        self.compiled = torch.compile(self.model, backend=backend)

    def compile(self, progress: Progress) -> float:
        """Compiles prompt processing and decode step by running each once; returns the seconds it took."""
        start = time.perf_counter()
        with progress.stage("compiling the prompt"):
            token = generate.next_token(self.compiled, self.cache, self.prompt)
        with progress.stage("compiling the decode step"):
            generate.next_token(self.compiled, self.cache, token)
        return time.perf_counter() - start

    def empty_cache(self) -> Any:
        return generate.static_cache(self.model, self.prompt.shape[1] + self.limit)

    def tokens(self, forward: generate.Forward, cache: Any) -> Iterator[int]:
        """Yields the tokens of one answer. Empties the cache first."""
        cache.reset()
        return generate.greedy(forward, cache, self.prompt, self.limit, self.stop, self.penalty)

    def answer(self, forward: generate.Forward, printer: TokenPrinter | None = None) -> generate.Timed:
        """Computes one answer. A ``printer`` shows it as it comes."""
        timed = generate.Timed()
        for token in timed.record(self.tokens(forward, self.cache)):
            if printer:
                printer.add(token)
        if printer:
            printer.end()
        return timed

    def answer_in_turns(self) -> tuple[generate.Timed, generate.Timed]:
        """Computes one answer compiled and one in eager mode, in turns, so that both see the same load of the
        machine."""
        compiled, eager = generate.Timed(), generate.Timed()
        generate.in_turns(
            compiled.record(self.tokens(self.compiled, self.cache)),
            eager.record(self.tokens(self.model, self.empty_cache())),
        )
        return compiled, eager


def run(arguments: argparse.Namespace) -> int:
    backend = packages.find_backend(arguments.backend)
    packages.require()
    if arguments.device == "npu":
        packages.require_npu()
    with Progress(stages=4) as progress:
        chat = Chat(arguments, backend, progress)
        compile_seconds = chat.compile(progress)
    print(f"\n> {arguments.question}\n")
    compiled = chat.answer(chat.compiled, TokenPrinter(chat.tokenizer))
    if len(compiled.tokens) == chat.limit:
        print(f"\n(cut after {chat.limit} tokens; --tokens takes another number)")
    same, rows = True, {}
    if not arguments.no_eager:
        same, compiled, rows = compare_with_eager(chat, compiled)
    ours = npugraph.artifacts()
    phases = summary.seconds_list(summary.compile_phases(ours))
    rows |= {
        "tokens/s, compiled": f"{compiled.tokens_per_second:.1f}",
        "time to first token": f"{compiled.first_token_seconds * 1e3:.0f} ms, once compiled",
        "compile time": f"{compile_seconds:.1f} s, first runs included: {phases}",
        "memory of the graphs": summary.bytes_list(summary.artifact_memory(ours)),
        "peak memory of the process": f"{summary.peak_memory_bytes() / summary.MIB:.0f} MiB",
    }
    print(f"\n{summary.table(rows)}")
    return 0 if same else DIFFERENT


def compare_with_eager(chat: Chat, shown: generate.Timed) -> tuple[bool, generate.Timed, dict[str, str]]:
    """Answers again, compiled and in eager mode in turns. Returns whether the ``shown`` tokens are those of eager mode,
    the times of the compiled side, and rows for the summary."""
    with Progress(stages=1) as progress, progress.stage("answering again, in turns with eager mode"):
        compiled, eager = chat.answer_in_turns()
    same, sentence = summary.same_tokens(shown, eager)
    return (
        same,
        compiled,
        {
            "same tokens as eager": sentence,
            "tokens/s, eager": f"{eager.tokens_per_second:.1f}",
            "time to first token, eager": f"{eager.first_token_seconds * 1e3:.0f} ms",
        },
    )


def main(arguments: list[str] | None = None) -> int:
    parsed = parse_arguments(arguments)
    try:
        return run(parsed)
    except (packages.MissingPackage, packages.UnknownBackend) as error:
        print(f"npugraph.demo: {error}", file=sys.stderr)
        return USAGE if isinstance(error, packages.UnknownBackend) else MISSING
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
