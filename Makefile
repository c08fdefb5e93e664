# Everything lives in .venv (with RUNTIME=gpu, in .venv-gpu); uv makes it where uv is installed, plain Python and pip where it is not.
PYTHON ?= python3
RUNTIME ?= cpu
# How long `make soak` takes, and `make fuzz` with each parser.
MINUTES ?= 60
# onnxruntime and onnxruntime-gpu must not be installed together: each runtime has an environment of its own.
VENV := .venv$(patsubst %,-%,$(filter-out cpu,$(RUNTIME)))
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)

.PHONY: demo test lint bench soak fuzz kafka rivals lock latest metrics dashboards clean

demo: $(VENV)/$(RUNTIME).stamp ## run the whole path on real text, about two minutes
	$(BIN)/leadline demo

test: $(VENV)/test.stamp ## run every test
	$(BIN)/python -m pytest

lint: $(VENV)/dev.stamp ## style, types and the direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/$(RUNTIME).stamp $(VENV)/test.stamp ## the benchmarks behind the figures in docs/benchmarks/
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/knn.py
	$(BIN)/python benchmarks/ood.py
	$(BIN)/python benchmarks/drop.py
	$(BIN)/python benchmarks/estimate_cost.py
	$(BIN)/python benchmarks/intake.py
	$(BIN)/python benchmarks/labels.py

soak: $(VENV)/test.stamp ## the reliability suite for about MINUTES minutes, with a report at the end (docs/RELIABILITY.md)
	LEADLINE_SOAK=$(MINUTES) LEADLINE_REQUIRE_SERVICES=1 $(BIN)/python -m pytest tests/reliability

fuzz: $(VENV)/test.stamp ## every parser of payloads for about MINUTES minutes each
	LEADLINE_FUZZ_SECONDS=$$(( $(MINUTES) * 60 )) $(BIN)/python -m pytest tests/agent/payloads/test_fuzz.py

kafka: $(VENV)/test.stamp ## a Kafka broker on localhost:9092 with the topic TOPIC, until Ctrl-C (needs Java 17 and Maven)
	@$(BIN)/python -m deploy.kafka_here $(TOPIC)

rivals: ## beside sentence-transformers, pytorch-ood (which bring torch) and river, in a separate environment
	test -d .venv-rivals || $(PYTHON) -m venv .venv-rivals
	.venv-rivals/bin/pip install --quiet --require-hashes --requirement requirements/bench.txt
	.venv-rivals/bin/pip install --quiet --no-deps --no-build-isolation --editable .
	.venv-rivals/bin/python benchmarks/speed.py --rivals
	.venv-rivals/bin/python benchmarks/events.py
	.venv-rivals/bin/python benchmarks/alarms.py

metrics: $(VENV)/$(RUNTIME).stamp ## regenerate docs/METRICS.md
	$(BIN)/python -m exporters.metrics > docs/METRICS.md

dashboards: $(VENV)/$(RUNTIME).stamp ## regenerate deploy/grafana/dashboards
	$(BIN)/python -m deploy.grafana

latest: ## test against the newest versions of every dependency, in a separate environment
	rm -rf .venv-latest && $(PYTHON) -m venv .venv-latest
	.venv-latest/bin/pip install --quiet --upgrade '.[cpu]' 'pytest' 'hypothesis'
	.venv-latest/bin/python -m pytest

clean: ## remove what the targets above made
	rm -rf .venv .venv-gpu .venv-latest .venv-rivals demo

# One environment, installed in layers: each set of requirements is hashed, and each stamp says that it is in.
$(VENV)/%.stamp: requirements/%.txt pyproject.toml
	@echo "Installing requirements/$*.txt into $(VENV)"
ifdef UV
	@test -x $(BIN)/python || $(UV) venv --quiet --seed --python '>=3.11' $(VENV)
	@$(UV) pip install --quiet --python $(BIN)/python --require-hashes --requirement requirements/$*.txt
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
else
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV) || { \
	  echo "Python could not make $(VENV): on Debian or Ubuntu, apt install python3-venv"; rm -rf $(VENV); exit 1; }
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/$*.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
endif
	@touch $@

COMPILE = uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header \
  --no-emit-index-url --no-emit-find-links --group build --quiet

lock: ## recompile requirements/*.txt (needs uv)
	$(COMPILE) --extra cpu --output-file requirements/cpu.txt
	$(COMPILE) --extra gpu --output-file requirements/gpu.txt
	$(COMPILE) --extra cpu --group test --constraint requirements/cpu.txt --output-file requirements/test.txt
	$(COMPILE) --extra cpu --group dev --constraint requirements/test.txt --output-file requirements/dev.txt
	$(COMPILE) --extra cpu --group bench --constraint requirements/cpu.txt --output-file requirements/bench.txt
