# `make demo` and `make test` are all anyone needs: each makes .venv where it is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: install demo test bench results clean

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
TEST = --dataset cub --root $(ROOT) --image-size 448 --nme-images 1500 --cache
experiments/%: $(READY)
	$(BIN)/mpae fit --preset laptop --config $@.yaml --root $(ROOT) --out runs/$*
	$(BIN)/mpae evaluate runs/$* $(TEST)

# make baselines/8 ROOT=path/to/CUB_200_2011: clustering of the same frozen features, K = 8
baselines/%: $(READY)
	$(BIN)/mpae evaluate --baseline dino-kmeans --parts $* $(TEST) --json runs/baselines/cub_k$*.json

# make results [ROOT=path/to/CUB_200_2011] [RUNS="runs/cub_k8 ..."]: docs/studies/results.md from the runs that are there
RUNS = $(patsubst %/config.yaml,%,$(wildcard runs/cub_*/config.yaml))
BASELINES = $(wildcard runs/baselines/*.json)
results: $(READY)
	$(BIN)/python scripts/make_results.py $(RUNS) $(if $(BASELINES),--baseline $(BASELINES)) $(if $(ROOT),--root $(ROOT))

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .mypy_cache build demo
