# `make demo` and `make test` are all anyone needs: each makes .venv where it is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: install demo test bench clean

install: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --disable-pip-version-check -q -c constraints.txt -e '.[dev]'
	touch $@

demo: $(READY)
	$(BIN)/mpae demo --out demo --overwrite

test: $(READY)
	$(BIN)/ruff check src tests benchmarks scripts
	$(BIN)/mypy
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

bench: $(READY)
	$(BIN)/mpae bench

# make experiments/cub_k8 ROOT=path/to/CUB_200_2011
experiments/%: $(READY)
	$(BIN)/mpae fit --config $@.yaml --root $(ROOT) --out runs/$*
	$(BIN)/mpae evaluate runs/$* --dataset cub --root $(ROOT) --json runs/$*/test.json

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .mypy_cache build demo
