# SPDX-License-Identifier: Apache-2.0
"""Compiled graphs that outlive the process.

All of them are saved Programs with a description, in one container (``container``), with one key that says what they
were made with (``key``), and are loaded by one loader (``programs``). ``graphs`` has compiled graphs as bytes. Who
keeps the bytes has an adapter: torch (``torch_caches``), vLLM (``npugraph.fx_compiler``), and ``cache_compile``
(``npugraph.inference``).
"""
