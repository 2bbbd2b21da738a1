# SPDX-License-Identifier: Apache-2.0
# Each target works alone on a fresh machine: it installs what is missing, builds incrementally, then runs.

PYTHON := .venv/bin/python
CXX_SOURCES = $$(find src tests examples -name '*.cc' -o -name '*.h')
PYTHON_SOURCES = python packaging tests benchmarks examples scripts/check_docs scripts/check_layers scripts/check_operators scripts/check_names scripts/check_file_size scripts/fit_math scripts/ge_converters scripts/join_wheels scripts/split_wheel scripts/minutes \
                 scripts/npu_operators scripts/options_page scripts/features_page scripts/stub_libraries scripts/stubs \
                 scripts/torchair_config_page

LONG = -m pytest -m long -n 2 --dist worksteal -o faulthandler_timeout=0

.DEFAULT_GOAL := help
.PHONY: help setup build demo test quick long bench bench-peers format lint docs asan tsan aarch64 aarch64-torch asan-torch red-zones wheel fresh fresh-wheel clean

help:  ## this list
	@sed -n 's/^\([a-z0-9 -]*\):.*## /  make \1\t/p' Makefile | expand -t 20

setup:  ## install what is missing: Debian packages, .venv, Python packages
	@scripts/setup $(lastword $(sort $(NEEDS)))

# A target that builds gets `dev` as well; the last name in the order of letters is the one that installs more.
build bench bench-peers format lint asan tsan aarch64 aarch64-torch wheel: NEEDS += dev
test quick long asan-torch red-zones: NEEDS += tests

build: setup  ## build the C++ half incrementally, with its tests and benchmarks
	@scripts/build release

# The modules of a tree are of one build: if there is _ascend, it is built again with _C. The words of a question are not for the
# shell, which would stop at the apostrophe of "What's".
demo: export DEMO_LINE = $(value ARGS)
demo:  ## a language model answers: make demo ARGS="What is a compiler?"; takes a wheel of this commit, if dist/ has one
	@scripts/setup $$(scripts/take_wheel --look && echo run)
	@scripts/take_wheel || scripts/build release $(if $(wildcard python/npugraph/torch-*/_ascend*),product,npugraph_C)
	@$(PYTHON) -m npugraph.demo --line "$$DEMO_LINE"

test: build  ## what CI runs; ARGS go to pytest
	@scripts/test -m 'not long' $(ARGS)

quick: build  ## for the work between commits, in three minutes: checks, C++ units, text IR, and the Python tests that take least
	@scripts/test --quick -m 'not long' $(ARGS)

long: build  ## the tests that are too slow for `make test`: all parts, whatever fails
	@failed=0; \
	OMP_WAIT_POLICY=PASSIVE $(PYTHON) $(LONG) --ignore=tests/python/device --ignore=tests/python/vllm $(ARGS) || failed=1; \
	OMP_WAIT_POLICY=PASSIVE scripts/npu_python $(LONG) $(ARGS) tests/python/device tests/python/vllm || failed=1; \
	OMP_WAIT_POLICY=PASSIVE ALL_CHECKS=1 scripts/npu_python $(LONG) -m 'not long' --dist loadfile $(ARGS) tests/python/device tests/python/vllm || failed=1; \
	.venv/bin/ctest --test-dir build/release -C long -R exhaustive --output-on-failure --no-tests=error || failed=1; \
	scripts/test_vllm || failed=1; \
	exit $$failed

bench: build  ## all benchmarks: a table; make bench ARGS="--json FILE" for JSON too
	@$(PYTHON) -m benchmarks $(ARGS)

bench-peers: build  ## the models against eager, Inductor, zentorch, OpenVINO and ONNX Runtime, in an environment of their own
	@scripts/bench_peers $(ARGS)

format: setup  ## rewrite sources in the project's style
	@.venv/bin/clang-format -i $(CXX_SOURCES)
	@.venv/bin/ruff check -q --fix $(wildcard $(PYTHON_SOURCES))
	@.venv/bin/ruff format -q $(wildcard $(PYTHON_SOURCES))

lint: setup  ## check style, layers and file sizes without changing anything
	@.venv/bin/clang-format --dry-run -Werror $(CXX_SOURCES)
	@.venv/bin/ruff check -q $(wildcard $(PYTHON_SOURCES))
	@.venv/bin/ruff format -q --check $(wildcard $(PYTHON_SOURCES))
	@scripts/check_layers
	@scripts/check_operators
	@scripts/check_names
	@scripts/check_file_size
	@$(PYTHON) scripts/check_docs

docs: setup  ## the site of docs/ in build/site, its links checked
	@scripts/docs

asan tsan: setup  ## the torch-free half under sanitizers
	@scripts/build $@
	@.venv/bin/ctest --preset $@ --no-tests=error
	@scripts/lit build/$@

aarch64: setup  ## the torch-free half for AArch64, built on x86-64 and tested under emulation
	@scripts/setup_aarch64
	@scripts/build aarch64
	@.venv/bin/ctest --preset aarch64 --no-tests=error
	@scripts/lit build/aarch64

aarch64-torch: setup  ## the wheel for AArch64, and Python tests of generated code with it, under emulation
	@scripts/setup_aarch64 torch
	@scripts/wheel_aarch64
	@scripts/aarch64_python $(ARGS)

asan-torch: build  ## the Python tests on a build with the address sanitizer; ARGS go to pytest
	@scripts/asan_torch $(ARGS)

red-zones: export NPUGRAPH_RED_ZONES = 1
red-zones: export NPUGRAPH_POISON = 1
red-zones: build  ## the Python tests and 20,000 random programs with watched bytes around and NaN in all memory of Programs
	@scripts/test_python -m 'not long and not no_red_zones' $(ARGS)
	@RANDOM_PROGRAMS=3500 OMP_WAIT_POLICY=PASSIVE $(PYTHON) $(LONG) tests/python/fuzz

wheel: setup  ## dist/: source distribution and wheels for Debian 11 and newer, checked in a fresh environment
	@scripts/wheel

fresh:  ## `make demo` and `make test` from a clone in a bare Debian 12 (debootstrap; needs root)
	@scripts/fresh

fresh-wheel:  ## the wheels of dist/ in a bare Debian 12 and a bare Debian 11 (debootstrap; needs root)
	@scripts/fresh_wheel

clean:  ## remove what was built; keeps .venv
	rm -rf build dist python/npugraph/*.so python/npugraph/torch-*
