# `make help` lists the targets.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Folder of other projects' CRD schemas, read by chart tests; they say so loudly when it is absent.
CRDS ?= ../shared/crds
export CRDS

.DEFAULT_GOAL := help
.PHONY: help install demo test check format stubs bench clean

help: ## Say what each target does
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

demo: $(VENV)/.demo ## Install what the demonstration needs and run it: FP32 against INT8 on this machine's CPU
	$(BIN)/bakeoff demo

test: $(VENV)/.dev ## Install what the tests need and run them all
	$(BIN)/python -m pytest

check: $(VENV)/.dev ## Lint, check formatting, types and import direction
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

install: $(VENV)/.dev ## Install everything for development

format: $(VENV)/.dev ## Format the code and mend what the linter can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

stubs: $(VENV)/.dev ## Generate the gRPC message classes from serve/protocol/inference.proto
	cd serve/protocol && ../../$(BIN)/python -m grpc_tools.protoc -I. --python_out=stubs --grpc_python_out=stubs inference.proto
	sed -i 's/^import inference_pb2 as/from serve.protocol.stubs import inference_pb2 as/' serve/protocol/stubs/inference_pb2_grpc.py

bench: $(VENV)/.dev ## Measure overhead and batching beside plain Ray Serve
	$(BIN)/python -m benchmarks.overhead
	$(BIN)/python -m benchmarks.batching

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info build

$(VENV)/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "bakeoff needs Python 3.11 or newer; say which with make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq python3-venv; } || { echo "Python lacks venv: sudo apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(VENV)/bin/pip
	@echo "installing the demonstration into $(VENV) (PyTorch's package brings CUDA: about 7 GB, minutes)"
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[demo]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/pip
	@echo "installing everything into $(VENV) (PyTorch's package brings CUDA: about 7 GB, minutes)"
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.demo
