# What a person types. Everything below is a thin cover over cmake, ctest and a few scripts;
# CMakePresets.json says what the presets are.

SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
.DEFAULT_GOAL := all
MAKEFLAGS += --no-print-directory

PREFIX ?= /usr/local
PYTHON ?= /usr/bin/python3
# Warnings are errors in CI only.
KP_WERROR ?= OFF
# Seconds for each fuzz target.
KP_FUZZ_SECONDS ?= 10
# What a debugger gets. -g1 is enough for stack traces; -g also shows variables, and takes a quarter more time to build.
KP_DEBUG_INFO ?= -g1
JOBS ?= $(shell nproc)
# Taken up by cmake when it configures; expanded late, as set-up may just have installed it.
export CMAKE_CXX_COMPILER_LAUNCHER = $(shell command -v ccache)
# What ccache needs for precompiled headers.
export CCACHE_SLOPPINESS = pch_defines,time_macros
# How far, of how much, how long so far.
export NINJA_STATUS = [%f/%t, %e s] 

# Cases that failed and passed alone are kept here until a report tells them.
export KP_FLAKY_DIR ?= $(CURDIR)/build/flaky
CI = PYTHONPATH=tools $(PYTHON) -B -m ci

FUZZ_TARGETS = $(filter-out fuzz_replay_main,$(basename $(notdir $(wildcard tests/fuzz/fuzz_*.cpp))))

# $(call stage,NAME,COMMAND): runs COMMAND, and says how it ended, how long it took, and how much CPU (user and system).
stage = @echo "== $(1)"; times=$$(mktemp); TIMEFORMAT="%0R %U %S"; { time { ( $(2) ) 2>&3; }; } 3>&2 2>"$$times"; status=$$?; \
  read -r seconds user kernel <"$$times"; rm -f "$$times"; \
  if [ $$status = 0 ]; then end=done; else end=FAILED; fi; \
  cpu=$$(awk "BEGIN { printf \"%.0f\", $$user + $$kernel }"); echo "== $(1): $$end, $$seconds s, $$cpu CPU s"; exit $$status

# $(call build,PRESET,FOLDER,TARGET,WERROR): configure and build; without TARGET everything, tests included.
# cmake's chatter is shown only if it fails.
build = mkdir -p $(2) && echo "configuring $(2)" && \
  { cmake --preset $(1) -DKP_WERROR=$(or $(4),$(KP_WERROR)) -DKP_FUZZ_SECONDS=$(KP_FUZZ_SECONDS) \
      -DCMAKE_CXX_FLAGS_DEBUG=$(KP_DEBUG_INFO) -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O2 $(KP_DEBUG_INFO) -DNDEBUG" \
      >$(2)/configure.log 2>&1 || \
    { cat $(2)/configure.log; exit 1; }; } && \
  cmake --build --preset $(1) --parallel $(JOBS) $(if $(3),--target $(3))

# $(call ctest,FOLDER,WHICH): a test without a time limit of its own gets ten minutes.
ctest = ctest --test-dir $(1) --output-on-failure --no-tests=error --timeout 600 -j $(JOBS) $(2)

.PHONY: help
help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

## make               install what the build needs, then build build/kube-proxy
.PHONY: all
all: setup-build
	$(call stage,build,$(call build,release,build,kube-proxy))

## make run           build, then show the proxy at work in a small cluster of network namespaces (root)
##   KEEP=1           leave that cluster up, to play with; make run-stop removes it
.PHONY: run run-stop
run: all setup-run
	@PYTHONPATH=tools $(PYTHON) -B -m demo $(if $(KEEP),--keep)
run-stop:
	@PYTHONPATH=tools $(PYTHON) -B -m demo --stop

## make test          every test: release build, sanitizers, a brief fuzz run, virtual machines
##   ONLY=unit        one label in the release build: unit golden kernel behaviour check packaging vm, or a mode
.PHONY: test test-all test-release test-dev test-fuzz test-vm build-tests
test: setup-test
	@echo "make test: $$($(CI) estimate $(if $(ONLY),'$(ONLY)'))"; $(CI) flaky clear; \
	  $(MAKE) test-all; status=$$?; $(CI) flaky && exit $$status
build-tests: setup-test
	$(call stage,build with tests,$(call build,release,build))
ifdef ONLY
test-all: build-tests
	$(call stage,tests labelled $(ONLY),$(call ctest,build,-L '^($(ONLY))$$'))
else
test-all: test-release test-dev test-fuzz $(if $(SKIP_VM),,test-vm)
endif
# One after the other, also under make -j: they share the cores, and some share the kernel.
test-release: setup-test
	$(call stage,build with tests,$(call build,release,build))
	$(call stage,tests,$(call ctest,build,-LE '^(vm|conformance|packaging-slow)$$'))
# One build for both. clang warns about what g++ 12's headers do; those warnings must not stop it.
test-dev: setup-test
	$(call stage,build with ASan and UBSan,$(call build,dev,build-dev,unit_tests kube-proxy,OFF))
	$(call stage,unit tests with ASan and UBSan,$(call ctest,build-dev,-L '^unit$$'))
test-fuzz: setup-test
	$(call stage,build fuzz targets,$(call build,dev,build-dev,$(FUZZ_TARGETS),OFF))
	$(call stage,fuzz ($(KP_FUZZ_SECONDS) s a target),$(call ctest,build-dev,-L '^fuzz$$'))
test-vm: setup-test setup-vm
	$(call stage,build with tests,$(call build,release,build))
	$(call stage,tests in a virtual machine,$(call ctest,build,-V -L '^vm$$'))
.NOTPARALLEL:

## make check         before every commit: the program, unit and golden tests, and the checks of the tree
.PHONY: check
check: setup-test
	$(call stage,build with unit tests,$(call build,release,build,kube-proxy unit_tests))
	$(call stage,unit tests golden tests and checks,$(call ctest,build,-L '^(unit|golden|check)$$'))

## make ci-record     after bash .ci/run: write what has passed to tests/last-passed.txt
##   PASSED="soak"    these suites instead, which you have run by hand and seen pass
.PHONY: ci-record control-plane
ci-record:
	@$(CI) record $(PASSED)
control-plane: setup-conformance
	@PYTHONPATH=tools $(PYTHON) -B -m controlplane build

## make conformance   against a real Kubernetes control plane, built from source first (root, Go)
.PHONY: conformance test-conformance
# Status 77: the control plane cannot be built here, and a line has said why.
conformance: setup-test setup-conformance
	@PYTHONPATH=tools $(PYTHON) -B -m controlplane build; status=$$?; \
	  if [ $$status = 0 ]; then $(MAKE) test-conformance; elif [ $$status != 77 ]; then exit $$status; fi
test-conformance:
	$(call stage,build with tests,$(call build,release,build))
	$(call stage,conformance,$(call ctest,build,-L '^conformance$$'))

## make soak          one proxy under traffic, and everything that can happen to it, at random (root)
##   MINUTES=10       for how long; also MODE=nftables, VARIANT=nft or legacy, SOURCE=api or manifests, SEED=n to see the same chance again
.PHONY: soak
MINUTES ?= 10
soak: all setup-test
	$(call stage,soak,$(PYTHON) -B tests/soak/soak.py --minutes $(MINUTES) \
	  $(if $(MODE),--mode $(MODE)) $(if $(VARIANT),--variant $(VARIANT)) $(if $(SOURCE),--source $(SOURCE)) $(if $(SEED),--seed $(SEED)))

## make bench         build and run the benchmarks
.PHONY: bench
bench: all setup-bench
	$(call stage,build the benchmarks,cmake --build build --parallel $(JOBS) --target bench)
	$(call stage,benchmarks,$(PYTHON) -B bench/run)
	$(call stage,idling,$(PYTHON) -B bench/idle)
	$(call stage,mode userspace beside other TCP proxies,$(PYTHON) -B bench/relay)

## make bench-userspace   only the part of it that is about mode userspace: beside HAProxy and nginx (root)
##   ONLY=ours,haproxy    only these sides; see bench/relay --help
.PHONY: bench-userspace
bench-userspace: all setup-bench
	$(call stage,build the benchmarks,cmake --build build --parallel $(JOBS) --target relay_load)
	$(call stage,mode userspace beside other TCP proxies,$(PYTHON) -B bench/relay $(if $(ONLY),--only $(ONLY)))

## make bench-connections   mode userspace with 20,000 connections at once, in a virtual machine, where descriptors are not short
.PHONY: bench-connections
bench-connections: all setup-vm
	$(call stage,build the benchmarks,cmake --build build --parallel $(JOBS) --target relay_load)
	@PYTHONPATH=tools $(PYTHON) -B -m lab.vm prepare
	$(call stage,20000 connections,PYTHONPATH=tools $(PYTHON) -B -m lab.vm run -- sh -c 'ulimit -n 200000; \
	  sysctl -qw net.netfilter.nf_conntrack_max=262144; $(PYTHON) -B $(CURDIR)/bench/relay $(CURDIR)/build --only ours --rounds 1 --seconds 0.5')

## make bench-api     beside the real kube-proxy, on the objects of a real API server (root, Go)
##   MODE=nftables    only this mode, or iptables
.PHONY: bench-api
bench-api: all setup-test setup-conformance
	@PYTHONPATH=tools $(PYTHON) -B -m controlplane build
	$(call stage,build the benchmarks,cmake --build build --parallel $(JOBS) --target bench)
	$(call stage,benchmark beside the real kube-proxy,$(PYTHON) -B bench/api $(if $(MODE),--mode $(MODE)))
	$(if $(filter-out nftables,$(MODE)),,$(call stage,new connections beside the real kube-proxy,$(PYTHON) -B bench/connect))
	$(if $(filter-out iptables,$(MODE)),,$(call stage,conntrack clean-up beside the real kube-proxy,$(PYTHON) -B bench/conntrack))

## make bench-ipvs    mode ipvs beside the real kube-proxy, in a virtual machine (Go; half an hour)
.PHONY: bench-ipvs
bench-ipvs: all setup-test setup-vm setup-conformance
	@PYTHONPATH=tools $(PYTHON) -B -m controlplane build
	$(call stage,mode ipvs beside the real kube-proxy,$(PYTHON) -B bench/ipvs)

## make bench-build   CPU seconds of clean builds, here and at another commit, without ccache (half an hour)
##   BASE=HEAD^       the other commit
.PHONY: bench-build
bench-build: setup-test
	$(call stage,clean builds,$(PYTHON) -B bench/build $(BASE))

## make mutants       change conditions and constants of a file, one at a time: which changes does no unit test notice?
##   FILE=src/plan/plan.cpp   the file, or several; TESTS=NAME for another test program than that of its room
.PHONY: mutants
mutants: setup-build setup-mutants
	@[ -n "$(FILE)" ] || { echo "make mutants FILE=src/plan/plan.cpp"; exit 1; }
	$(call stage,mutants,PYTHONPATH=tools $(PYTHON) -B -m mutants --jobs $(JOBS) $(if $(TESTS),--tests $(TESTS)) $(FILE))

## make lint          tests/check, and clang-tidy on what changed since main
##   ALL=1            clang-tidy on everything
.PHONY: lint
lint: setup-lint all
	$(call stage,checks,$(call ctest,build,-L '^check$$'))
	$(call stage,clang-tidy,tools/lint $(if $(ALL),--all))

## make format        lay out src, tests and bench as .clang-format says
.PHONY: format
format: setup-lint
	@find src tests bench -name '*.cpp' -o -name '*.h' | xargs -r clang-format-19 -i

## make install       into PREFIX (default /usr/local), under DESTDIR if set
.PHONY: install
install: build/kube-proxy
	@DESTDIR=$(DESTDIR) cmake --install build --prefix $(PREFIX)
build/kube-proxy:
	@$(MAKE) all

## make deb           the Debian package: build/kube-proxy_1.36.4-1_amd64.deb
.PHONY: deb
deb: all setup-package
	$(call stage,Debian package,cd build && cpack -G DEB >cpack.log 2>&1 || { cat cpack.log; exit 1; })
	@ls build/kube-proxy_*.deb

## make image-check   build the container image, install and remove the Debian package: each in a Debian of its own (root)
.PHONY: image-check
image-check: setup-image
	$(call stage,build,$(call build,release,build,kube-proxy))
	$(call stage,packages in a Debian of their own,$(call ctest,build,-L '^packaging-slow$$'))

## make dev           build with ASan and UBSan in build-dev, by clang
## make tsan          build with ThreadSanitizer in build-tsan, and run the unit tests
## make fuzz          build the fuzz targets in build-dev, and run each for KP_FUZZ_SECONDS (default 10)
## make plain         build in build-plain without precompiled headers: does each file include what it uses? With all warnings, as errors
.PHONY: dev tsan fuzz plain
plain: setup-build
	$(call stage,build without precompiled headers,$(call build,plain,build-plain,,ON))
dev: setup-test
	$(call stage,build with ASan and UBSan,$(call build,dev,build-dev,,OFF))
tsan: setup-build
	$(call stage,build with ThreadSanitizer,$(call build,tsan,build-tsan))
	$(call stage,unit tests with ThreadSanitizer,$(call ctest,build-tsan,-L '^unit$$'))
fuzz: test-fuzz

## make clean         remove what was built
.PHONY: clean
clean:
	rm -rf build build-dev build-tsan build-plain build-coverage

# Installs the Debian packages that are missing; one line when none is. KP_SETUP=0 leaves it out.
.PHONY: setup-build setup-run setup-test setup-lint setup-mutants setup-bench setup-package setup-image setup-conformance setup-vm
setup-build:
	@tools/setup build
setup-run:
	@tools/setup run
setup-test:
	@tools/setup build run test lint package
setup-lint:
	@tools/setup build lint
setup-mutants:
	@tools/setup mutants
setup-bench:
	@tools/setup run bench
setup-package:
	@tools/setup package
setup-image:
	@tools/setup build run test package image
setup-conformance:
	@tools/setup conformance
# Status 77: there can be no kernel for a virtual machine here, and a line has said why.
setup-vm:
	@tools/setup vm
ifneq ($(KP_SETUP),0)
	@PYTHONPATH=tools $(PYTHON) -B -m lab.vm prepare || [ $$? = 77 ]
endif
