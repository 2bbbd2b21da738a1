# SPDX-License-Identifier: Apache-2.0
"""``python -m npugraph serve`` configures vLLM for the npu device, which is the host CPU, and hands over to ``vllm
serve``."""

from __future__ import annotations

import argparse
import errno
import importlib.metadata
import json
import os
import shlex
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PAIRS = {"0.14.1": "0.14.0rc1", "0.30.0": "0.30.0rc2"}  # version of vllm: the version of vllm-ascend tested with it
_PLUGINS = ("npugraph-vllm", "torch_npu")
_USAGE = 2
_PORT = 8000  # vLLM's default

# What differs from vLLM's own defaults, which are those of a server that has an accelerator for itself.
_MEMORY = "0.5"
_REQUESTS = "64"
_DEFAULTS = {"gpu_memory_utilization": _MEMORY, "max_num_seqs": _REQUESTS}
# Seconds. A server that closes an idle connection before its client does loses a request that is on its way then.
# Clients close theirs after up to a minute; vLLM's 5 seconds can pass unnoticed on a host that is busy.
_KEPT_OPEN = ("VLLM_HTTP_TIMEOUT_KEEP_ALIVE", "75")
# How vLLM makes its other processes. One that is spawned imports vLLM again, which takes as long as all the rest of a
# start. Parallel regions run in a forked process, too, because npugraph ends torch's threads before the fork.
_FORKED = ("VLLM_WORKER_MULTIPROC_METHOD", "fork")
_DESCRIPTION = f"""
Serves a model through vLLM's OpenAI-compatible server, with the CPU of this host as the device. The command checks that
vLLM, vllm-ascend and npugraph-vllm are installed in versions that are tested together. Then it runs "vllm serve" with
these options, unless you give them yourself:

  --gpu-memory-utilization {_MEMORY}  weights and KV cache take this part of the free memory of the host
  --max-num-seqs {_REQUESTS}             so many requests are decoded at once; others wait

It also sets npugraph_ex_config.enable in --additional-config, so that decode steps are captured as graphs, and these
variables of the environment:

  {_KEPT_OPEN[0]}={_KEPT_OPEN[1]}    idle connections are closed after so many seconds
  {_FORKED[0]}={_FORKED[1]}  processes of the engine start without importing vLLM again

"python -m npugraph serve MODEL --help=all" lists the options of vLLM. docs/serving.md is the guide.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = _DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.usage = "python -m npugraph serve MODEL [options of vllm serve]"
    parser.add_argument("model", metavar="MODEL", help="a folder, or a name on the Hugging Face Hub")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="options of vllm serve, as vLLM documents them")


def run(arguments: argparse.Namespace) -> int:
    problem = missing(_versions())
    if problem:
        print(f"serve: {problem}", file=sys.stderr)
        return _USAGE
    try:
        options = with_defaults(arguments.options)
        _check_port(arguments.options)
    except ValueError as error:
        print(f"serve: {error}", file=sys.stderr)
        return _USAGE
    command = ["serve", arguments.model, *options]
    print("serve: vllm", shlex.join(command), file=sys.stderr, flush=True)
    for variable in (_KEPT_OPEN, _FORKED):
        os.environ.setdefault(*variable)
    # The server takes the place of this process, so signals and the exit code are the server's own.
    os.execv(sys.executable, [sys.executable, "-m", "vllm.entrypoints.cli.main", *command])


def missing(versions: dict[str, str]) -> str:
    """Returns what keeps the packages of ``versions`` from serving and what to do, or an empty text. The versions are
    those of the distributions that are installed."""
    absent = [name for name in ("vllm", "vllm-ascend", *_PLUGINS) if name not in versions]
    if absent:
        what = f"{', '.join(absent)} {'is' if len(absent) == 1 else 'are'} not installed in {sys.prefix}."
    elif PAIRS.get(versions["vllm"]) != versions["vllm-ascend"]:
        what = f"vllm {versions['vllm']} with vllm-ascend {versions['vllm-ascend']} is not tested with npugraph."
    else:
        return ""
    pairs = ", ".join(f"vllm {vllm} with vllm-ascend {ascend}" for vllm, ascend in PAIRS.items())
    newest = list(PAIRS)[-1].rpartition(".")[0]
    return (
        f"{what} The pairs that are tested: {pairs}. In the source tree of npugraph, scripts/setup_vllm {newest} makes "
        f".venv-vllm-{newest}, an environment that has all; run this command with its bin/python. docs/serving.md says "
        "what the script does."
    )


def _versions() -> dict[str, str]:
    found = {}
    for name in ("vllm", "vllm-ascend", *_PLUGINS):
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        found[name] = version.partition("+")[0]  # "+empty" is how vLLM marks a build without kernels
    return found


def with_defaults(options: Sequence[str]) -> list[str]:
    """Returns the options of ``vllm serve`` with ours before those of the user. Options in a file of ``--config`` count
    as given by the user. Raises ``ValueError`` for an ``--additional-config`` that is no object of JSON."""
    given, others = _pick(options, "config", "additional_config", *_DEFAULTS)
    in_file = _read(given.config) if given.config else {}

    result = _graphs(given.additional_config or in_file.get("additional_config"))
    for name, default in _DEFAULTS.items():
        value = getattr(given, name)
        if value is not None or name not in in_file:
            result += [f"--{name.replace('_', '-')}", value or default]
    if given.config:
        result += ["--config", given.config]
    return [*result, *others]


def _pick(options: Sequence[str], *names: str) -> tuple[argparse.Namespace, list[str]]:
    """Returns the values of some options of vLLM, which are None where they are not given, and the other options."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in names:
        parser.add_argument(*{f"--{name}", f"--{name.replace('_', '-')}"}, dest=name)
    return parser.parse_known_args(list(options))


def _check_port(options: Sequence[str]) -> None:
    """Raises ``ValueError`` if the port of the server is taken. vLLM would say so late, without the port, or share the
    port with another server of vLLM."""
    given, _ = _pick(options, "config", "host", "port", "uds")
    in_file = _read(given.config) if given.config else {}
    host = given.host or in_file.get("host") or ""
    port = str(given.port or in_file.get("port") or _PORT)
    if given.uds or not port.isdecimal():
        return
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as vLLM does
        try:
            probe.bind((host, int(port)))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise ValueError(f"port {port} is taken by another program; give another one with --port") from None


def _graphs(additional: Any) -> list[str]:
    """Returns the option that has decode steps captured, in addition to the user's ``additional`` settings. Without
    such settings it is in the form that vLLM merges with single settings of the user."""
    if additional is None:
        return ["--additional-config.npugraph_ex_config.enable=true"]
    settings = _parse(additional) if isinstance(additional, str) else additional
    ours = settings.get("npugraph_ex_config", {}) if isinstance(settings, dict) else None
    if not isinstance(ours, dict):
        raise ValueError(
            f"--additional-config is {additional!r}; it must be an object of JSON, and so must its npugraph_ex_config, "
            'such as \'{"npugraph_ex_config": {"enable": true}}\''
        )
    merged = settings | {"npugraph_ex_config": {"enable": True} | ours}
    return ["--additional-config", json.dumps(merged)]


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return None


def _read(path: str) -> dict[str, Any]:
    """Returns the options in a file of vLLM's ``--config``, by their names with underscores. vLLM refuses files that
    this cannot read, and says why."""
    import yaml

    try:
        content = yaml.safe_load(Path(path).read_text())
    except (OSError, yaml.YAMLError):
        return {}
    entries = content.items() if isinstance(content, dict) else ()
    return {str(name).replace("-", "_"): value for name, value in entries}
