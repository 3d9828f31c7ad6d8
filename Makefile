# Everything works from a bare clone: the first target that needs it makes .venv.
.POSIX:
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-full coverage check format lock clean

demo: $(VENV)/.installed
	$(BIN)/reverie demo

test: $(VENV)/.tested
	$(BIN)/python -m pytest -n auto --dist worksteal

test-full: $(VENV)/.tested
	$(BIN)/python -m pytest -n auto --dist worksteal --run-slow

# The memory is what Reverie is trusted with: of its lines and branches no more than one in fifty goes untested.
coverage: $(VENV)/.tested
	rm -f .coverage .coverage.*
	$(BIN)/coverage run -m pytest -n auto --dist worksteal
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --include 'memory/*' --skip-covered --fail-under 98

check: $(VENV)/.checked
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.checked
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# requirements.lock holds versions and hashes of all groups; what each set-up installs of it is named by its group.
$(VENV)/.installed: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/.tested: $(VENV)/.installed
	touch $@

$(VENV)/.checked: $(VENV)/.installed
	touch $@

# Made with uv, whose own lock file records download addresses and therefore stays out of git.
lock:
	uv lock --upgrade
	uv export --quiet --no-emit-project --no-header --no-annotate --all-groups -o requirements.lock

clean:
	rm -rf $(VENV)
