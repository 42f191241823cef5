# On a fresh clone with Python 3.11 or newer, git and make, each target does its own set-up. PYTHON=... picks a Python.
BIN := .venv/bin
ARGS ?=

.PHONY: help demo test test-unit lint format bench pictures lock weights clean run-tools dev-tools

help:
	@echo 'make demo       open the workbench on the built-in engine (ARGS="--simulated" for the simulator)'
	@echo 'make test       the whole test suite (ARGS="-k NAME" picks tests)'
	@echo 'make test-unit  the fast tests only'
	@echo 'make lint       style, types and import contracts'
	@echo 'make format     put the code into the house style'
	@echo 'make bench      CPU time per streamed token, beside the openai SDK on the same work'
	@echo 'make pictures   take the pictures in docs/ anew, from the running screen'
	@echo 'make weights    fetch the weights of the built-in engine (93 MB, once)'
	@echo 'make lock       choose newer versions and pin them in lock/'
	@echo 'make clean      remove the environment and what the tools left; sessions and weights stay'

demo: weights
	@$(BIN)/workbench demo $(ARGS)

test: dev-tools weights
	$(BIN)/python -m pytest $(ARGS)

test-unit: dev-tools
	$(BIN)/python -m pytest tests/unit tests/hygiene $(ARGS)

lint: dev-tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: dev-tools
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: dev-tools
	$(BIN)/python benchmarks/client_cost.py

pictures: dev-tools
	$(BIN)/python scripts/pictures.py

weights: run-tools
	@$(BIN)/python -m workbench.engines.weights

COMPILE = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header

lock: dev-tools
	$(COMPILE) --group installer --output-file lock/installer.txt
	$(COMPILE) pyproject.toml --extra local --group build --output-file lock/run.txt
	$(COMPILE) --group test --group lint --constraints lock/run.txt --output-file lock/dev.txt

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist build
	find workbench tests -name __pycache__ -type d -prune -exec rm -rf {} +

run-tools:
	@scripts/set-up.sh run

dev-tools:
	@scripts/set-up.sh dev
