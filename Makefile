# netrig: two commands for a newcomer, `make run` and `make test`. Both set the machine up first.

.PHONY: setup run test validate budget bench bench-sip lint fuzz release clean
SHELL := /bin/bash

# The report of `make run`. What was measured is in netrig.db, where every netrig command here looks for it.
OUT ?= netrig-report/link-down.html

setup:
	@scripts/setup

release: setup
	@. scripts/env && cargo build --release --locked

# The link-down study on the simulator: the paper's tables beside ours, and the report.
run: release
	@mkdir -p $(dir $(OUT))
	target/release/netrig run link-down --out $(OUT)

# All tests and lint. CI builds the release before.
test:
	@scripts/test

# What takes minutes or needs a quiet machine: run it before a release, as root, with nothing else to do on the machine.
validate: setup
	@scripts/validate

# The instructions that a packet and a message cost, held against bench/budget.toml.
budget: release
	@scripts/setup --budget
	@. scripts/env && cargo build --release --locked -p netrig-sip --examples && scripts/budget

lint: setup
	@. scripts/env && scripts/lint

# Side by side on this machine: what a delivered packet costs in netrig, ns-2 and ns-3; and as root sources, receivers and
# connections of real sockets beside MGEN, D-ITG, nuttcp, irtt and iperf3; calls beside SIPp; SIP servers beside SIPp's and Kamailio's.
bench: release
	@scripts/setup --bench
	@. scripts/env && cargo build --release --locked -p netrig-host -p netrig-agent -p netrig-netns --examples
	@rm -f target/ratios
	@export NETRIG_RATIOS=$(CURDIR)/target/ratios; failed=0; \
	  bench/run || failed=1; bench/sip udp || failed=1; bench/sip tcp || failed=1; bench/sip-servers || failed=1; bench/sip-reordering || failed=1; \
	  if [ "$$(id -u)" = 0 ]; then bench/sources || failed=1; bench/router || failed=1; bench/speed || failed=1; \
	  else echo "bench: bench/sources, bench/router and bench/speed are left out: they need root" >&2; fi; \
	  echo; bench/ratios table; exit $$failed

# What holds of the SIP tester by itself: how near its delays are to a capture, what a million users take, what keeping messages costs,
# at which rate of calls nothing is sent again, whether it grows, and
# whether it finds the same capacity of Kamailio again, and planted limits with their causes. About 100 minutes, with nothing else to do on the machine.
bench-sip: release
	@scripts/setup --bench
	@bench/sip-accuracy
	@bench/sip-users
	@bench/sip-keep
	@bench/sip-clean
	@bench/sip-endurance
	@bench/sip-capacity
	@bench/sip-capacity-planted

# Seconds that each target is fuzzed for.
SECONDS_EACH ?= 600

# Feeds what the parsers must survive.
fuzz: setup
	@scripts/setup --fuzz
	@scripts/fuzz $(SECONDS_EACH)

# Leaves netrig.db: what was measured may have cost a day.
clean:
	rm -rf target netrig-report
