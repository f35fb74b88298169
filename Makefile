# netrig: two commands for a newcomer, `make run` and `make test`. Both set the machine up first.

.PHONY: setup run test bench lint release clean
SHELL := /bin/bash


# Results that a run leaves in the folder it is started in.
OUT ?= netrig-report/link-down.html

setup:
	@scripts/setup

release: setup
	@. scripts/env && cargo build --release --locked

# The link-down study on the simulator: the paper's tables beside ours, and the report.
run: release
	@mkdir -p $(dir $(OUT))
	target/release/netrig run link-down --store netrig-report/netrig.db --out $(OUT)

# Everything that CI runs, in its order.
test: setup
	@. scripts/env && scripts/test

lint: setup
	@. scripts/env && scripts/lint

# What ns-2 and ns-3 need for one delivered packet on this machine.
bench: setup
	@. scripts/env && bench/peers/run.sh

clean:
	rm -rf target netrig-report
