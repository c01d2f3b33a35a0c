# SPDX-License-Identifier: GPL-3.0-or-later
# mosaic: `make help` lists the targets.
#
# Every source under src/ but src/cli goes into the library, src/cli into the program.
#   FLAVOUR=release|clang|asan|tsan|fuzz   objects in build/$(FLAVOUR)/
#   WERROR=1    warnings are errors
#   DEPS=0      only name missing packages, install none
#   CUDA=       unset: probe when nvcc is there; 0: never; 1: must be
#   OPENBLAS=0  the host probe multiplies by its own loops
#   V=1         show commands

VERSION := 0.1.0

PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DATADIR ?= $(PREFIX)/share
MANDIR ?= $(DATADIR)/man

FLAVOUR ?= release
WERROR ?= 0
CUDA ?=
OPENBLAS ?=
V ?= 0
PLAN ?= configs/p6-b200-32n-20d.yaml
FUZZ_SECONDS ?= 60

.DEFAULT_GOAL := all
.SUFFIXES:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

ifeq ($(V),1)
quiet = @:
Q :=
else
quiet = @printf '  %-7s %s\n' '$(1)' '$(2)' >&2
Q := @
endif

# ---- files ------------------------------------------------------------------------------------

O := build/$(FLAVOUR)
# The release flavour's products are the ones people use, so they sit at the top.
B := $(if $(filter release,$(FLAVOUR)),build,$(O))

lib_src := $(sort $(filter-out src/cli/%,$(wildcard src/*/*.c)) $(wildcard src/*.c))
cli_src := $(sort $(wildcard src/cli/*.c))
test_src := $(sort $(wildcard tests/unit/test_*.c tests/oracle/test_*.c))
support_src := $(sort $(filter-out $(test_src),$(wildcard tests/unit/*.c tests/oracle/*.c)))
fuzz_src := $(sort $(wildcard tests/fuzz/fuzz_*.c))
bench_src := $(sort $(wildcard bench/*.c))
# Documents compiled into the library.
builtin := $(sort $(wildcard src/doc/*.yaml configs/laws/*.yaml configs/engines/*.yaml \
  configs/clusters/*.yaml calibration/data/*.yaml))
cuda_src := $(sort $(wildcard calibration/*.cu))
host_src := $(sort $(wildcard calibration/host/*.c))

objects = $(patsubst %.c,$(O)/%.o,$(1))
lib_obj := $(call objects,$(lib_src)) $(O)/builtin.o
cli_obj := $(call objects,$(cli_src))

# internal.a keeps the names that files share among themselves; libmosaic.a, for users, does not.
internal := $(O)/internal.a
library := $(B)/libmosaic.a
program := $(if $(cli_src),$(B)/mosaic)
tests := $(patsubst tests/%.c,$(O)/tests/%,$(test_src))
fuzzers := $(patsubst tests/fuzz/%.c,$(O)/fuzz/%,$(fuzz_src))
benches := $(patsubst bench/%.c,$(O)/bench/%,$(bench_src))

# ---- tools and flags --------------------------------------------------------------------------

ifeq ($(origin CC),default)
CC := $(if $(filter clang fuzz,$(FLAVOUR)),clang,gcc)
endif
OBJCOPY ?= objcopy
PKG_CONFIG ?= pkg-config
is_clang := $(findstring clang,$(shell $(CC) --version 2>/dev/null))
is_x86 := $(filter x86_64 i%86,$(shell uname -m))

# GLPK and libcsv bring no .pc file.  The second list serves where pkg-config is missing.
packages := gsl yaml-0.1 jansson smartcols libmd talloc
pc_libs := $(shell $(PKG_CONFIG) --libs $(packages) 2>/dev/null)
LIBS := -lglpk -lcsv $(or $(pc_libs),-lgsl -lgslcblas -lyaml -ljansson -lsmartcols -lmd -ltalloc) -lm
lib_cflags := $(patsubst -I%,-isystem %,$(shell $(PKG_CONFIG) --cflags $(packages) 2>/dev/null))
blas_libs := $(if $(filter-out 0,$(or $(OPENBLAS),auto)),\
  $(shell $(PKG_CONFIG) --libs openblas 2>/dev/null))
blas_cflags := $(if $(blas_libs),-DMOSAIC_HAS_OPENBLAS \
  $(patsubst -I%,-isystem %,$(shell $(PKG_CONFIG) --cflags openblas 2>/dev/null)))

warnings := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wdouble-promotion \
  -Wformat=2 -Wcast-qual -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes \
  -Wold-style-definition -Wwrite-strings -Wundef -Wvla -Wswitch-enum -Wnull-dereference \
  -Wimplicit-fallthrough
ifeq ($(is_clang),)
warnings += -Wformat-signedness -Wcast-align=strict -Wduplicated-cond -Wduplicated-branches \
  -Wlogical-op
else ifeq ($(FLAVOUR),clang)
warnings += -Weverything -Wno-unknown-warning-option -Wno-padded -Wno-declaration-after-statement \
  -Wno-disabled-macro-expansion -Wno-unsafe-buffer-usage -Wno-float-equal -Wno-switch-default \
  -Wno-covered-switch-default -Wno-pre-c11-compat -Wno-pre-c2x-compat \
  -Wno-bad-function-cast -Wno-double-promotion
# (The last: INFINITY and NAN are floats in clang's eyes.)
endif
# cmocka's macros do not stand the stricter ones.
test_warnings := -Wno-conversion -Wno-sign-conversion -Wno-cast-qual
ifneq ($(is_clang),)
test_warnings += -Wno-everything -Wall -Wextra
endif

sanitize_asan := -fsanitize=address,undefined,float-divide-by-zero,float-cast-overflow \
  -fno-sanitize-recover=all -fno-omit-frame-pointer
sanitize_tsan := -fsanitize=thread -fno-omit-frame-pointer
sanitize_fuzz := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all \
  -fno-omit-frame-pointer
sanitize := $(sanitize_$(FLAVOUR))
harden := $(if $(sanitize),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -fstack-protector-strong \
  $(if $(is_x86),-fstack-clash-protection -fcf-protection))

CFLAGS ?= $(if $(sanitize),-O1 -g1,-O2 -g)
base_cflags := -std=c17 -D_POSIX_C_SOURCE=200809L -Isrc -DMOSAIC_VERSION='"$(VERSION)"' \
  $(lib_cflags) $(warnings) $(if $(filter 1,$(WERROR)),-Werror) \
  -ffp-contract=off -fno-math-errno -fvisibility=hidden -fPIE -pthread \
  -ffile-prefix-map=$(CURDIR)=. $(harden) $(sanitize)
link_flags := $(CFLAGS) -pthread -pie -Wl,-z,relro,-z,now -Wl,--as-needed $(sanitize) $(LDFLAGS)
compile = $(CC) $(base_cflags) $(CPPFLAGS) $(CFLAGS)

# Same tree, same string: a commit, or "release" outside a checkout of our own.
build_id := $(shell [ "$$(git rev-parse --show-toplevel 2>/dev/null)" = "$(CURDIR)" ] && \
  git describe --always --dirty --abbrev=12 --match 'v*' 2>/dev/null || echo release)
# Only the files that ask for them are compiled anew when these change.
identified := $(call objects,$(shell grep -lsE 'MOSAIC_(BUILD|DATADIR)' $(lib_src) $(cli_src)))
identity := -DMOSAIC_BUILD='"$(build_id)"' -DMOSAIC_DATADIR='"$(DATADIR)/mosaic"'

# ---- building ---------------------------------------------------------------------------------

.PHONY: all tests benches fuzzers probe host-probe replay-probe FORCE
all: $(if $(sanitize),,$(library)) $(program) probe host-probe replay-probe
tests: all $(tests) $(if $(filter fuzz,$(FLAVOUR)),,$(fuzzers))
benches: $(benches)
fuzzers: $(fuzzers)

# A stamp changes only when its text does: new flags, or a source gone, rebuild what they touch.
stamp = @mkdir -p $(@D); printf '%s\n' '$(subst ','\'',$(1))' | cmp -s - $@ || \
  printf '%s\n' '$(subst ','\'',$(1))' >$@
$(O)/flags: FORCE
	$(call stamp,$(filter-out -Werror,$(compile)) $(test_warnings) $(link_flags) $(LIBS))
$(O)/sources: FORCE
	$(call stamp,$(lib_src) $(cli_src) $(support_src) $(builtin))
$(O)/identity: FORCE
	$(call stamp,$(identity))

$(identified): private CPPFLAGS += $(identity)
$(identified): $(O)/identity

$(O)/builtin.c: src/doc/embed.sh $(builtin) $(O)/sources
	$(call quiet,EMBED,$(words $(builtin)) documents)
	$(Q)sh src/doc/embed.sh $(builtin) >$@
$(O)/builtin.o: $(O)/builtin.c $(O)/flags
	$(Q)$(compile) -MMD -MP -c -o $@ $<

$(O)/src/%.o: src/%.c $(O)/flags
	$(call quiet,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(compile) -MMD -MP -c -o $@ $<

$(O)/tests/%.o: tests/%.c $(O)/flags
	$(call quiet,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(compile) $(test_warnings) -Itests -Itests/unit -MMD -MP -c -o $@ $<

$(O)/bench/%.o: bench/%.c $(O)/flags
	$(call quiet,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(compile) -MMD -MP -c -o $@ $<

$(internal): $(lib_obj) $(O)/sources
	$(call quiet,AR,$@)
	$(Q)rm -f $@ && $(AR) rcsD $@ $(lib_obj)

$(library): $(lib_obj) $(O)/sources
	$(call quiet,AR,$@)
	$(Q)$(CC) -r -nostdlib -o $(O)/mosaic.o $(lib_obj) && \
	  $(OBJCOPY) --localize-hidden $(O)/mosaic.o && rm -f $@ && $(AR) rcsD $@ $(O)/mosaic.o

$(B)/mosaic: $(cli_obj) $(internal) $(O)/sources
	$(call quiet,LD,$@)
	$(Q)$(CC) $(link_flags) -o $@ $(cli_obj) $(internal) $(LIBS)

$(O)/tests/support.a: $(call objects,$(support_src)) $(O)/sources
	@mkdir -p $(@D)
	$(Q)rm -f $@ && $(AR) rcsD $@ $(call objects,$(support_src))

$(tests): $(O)/tests/%: $(O)/tests/%.o $(O)/tests/support.a $(internal)
	$(call quiet,LD,$@)
	$(Q)$(CC) $(link_flags) -o $@ $^ $(LIBS) -lcmocka

# libFuzzer brings main with clang; elsewhere replay.c runs each file of a corpus once.
replay := $(if $(filter fuzz,$(FLAVOUR)),,$(O)/tests/fuzz/replay.o)
$(fuzzers): $(O)/fuzz/%: $(O)/tests/fuzz/%.o $(replay) $(internal)
	$(call quiet,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(link_flags) $(if $(replay),,-fsanitize=fuzzer) -o $@ $^ $(LIBS)

$(benches): $(O)/bench/%: $(O)/bench/%.o $(internal)
	$(call quiet,LD,$@)
	$(Q)$(CC) $(link_flags) -o $@ $^ $(LIBS)

# The host probe: of the library it takes what its objects ask for, which is none of GLPK and GSL.
host_obj := $(call objects,$(host_src))
host_archive := $(O)/calibration/host.a
host_libs := $(or $(shell $(PKG_CONFIG) --libs jansson 2>/dev/null),-ljansson) $(blas_libs) -lm

host-probe: $(if $(filter fuzz,$(FLAVOUR)),,$(B)/mosaic-probe-host)
$(O)/host-flags: FORCE
	$(call stamp,$(blas_cflags) $(blas_libs) $(host_src))
$(O)/calibration/host/%.o: calibration/host/%.c $(O)/flags $(O)/host-flags
	$(call quiet,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(compile) $(blas_cflags) -MMD -MP -c -o $@ $<
$(host_archive): $(filter-out %/main.o,$(host_obj)) $(O)/host-flags
	$(Q)rm -f $@ && $(AR) rcsD $@ $(filter %.o,$^)
$(B)/mosaic-probe-host: $(O)/calibration/host/main.o $(host_archive) $(internal)
	$(call quiet,LD,$@)
	$(Q)$(CC) $(link_flags) -o $@ $^ $(host_libs)

# This test measures by the probe itself.
$(O)/tests/unit/test_host_truth: $(host_archive)
$(O)/tests/unit/test_host_truth: private LIBS := $(internal) $(LIBS) $(blas_libs)
$(O)/tests/unit/test_host_truth.o: private CPPFLAGS += -Icalibration/host

# Plays journals; of the library it takes what its object asks for, none of GLPK and GSL either.
replay-probe: $(if $(filter fuzz,$(FLAVOUR)),,$(B)/mosaic-probe-replay)
$(O)/calibration/replay.o: calibration/replay.c $(O)/flags
	$(call quiet,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(compile) -MMD -MP -c -o $@ $<
$(B)/mosaic-probe-replay: $(O)/calibration/replay.o $(internal)
	$(call quiet,LD,$@)
	$(Q)$(CC) $(link_flags) -o $@ $^ $(host_libs)

# The CUDA probe is a program of its own, in the release flavour alone: of the library it links the
# samples and the executors that checks compare with.  It needs a toolkit that knows the
# architectures, and cuBLAS; without NCCL it has no collectives.  -fmad=false: the same digits as
# the executors.
nvcc := $(if $(filter-out 0,$(or $(CUDA),auto)),$(firstword $(shell command -v nvcc 2>/dev/null) \
  $(wildcard /usr/local/cuda/bin/nvcc)))
cuda_root := $(abspath $(dir $(realpath $(nvcc)))/..)
cuda_arch := $(if $(nvcc),$(filter 80 90 100,$(subst compute_,,$(shell $(nvcc) --list-gpu-arch))))
cublas := $(wildcard $(cuda_root)/include/cublas_v2.h /usr/include/cublas_v2.h)
nccl := $(firstword $(wildcard $(cuda_root)/include/nccl.h /usr/include/nccl.h))
ifeq ($(CUDA)$(nvcc),1)
$(error CUDA=1, but there is no nvcc)
else ifeq ($(CUDA)$(and $(cuda_arch),$(cublas)),1)
$(error CUDA=1, but $(nvcc) lacks $(if $(cuda_arch),cuBLAS,sm_80))
endif
nvcc_compile = $(nvcc) -std=c++17 -O2 -lineinfo -fmad=false -Isrc $(lib_cflags) \
  -DMOSAIC_VERSION='"$(VERSION)"' $(if $(nccl),-DPROBE_NCCL) \
  $(foreach a,$(cuda_arch),-gencode=arch=compute_$a,code=sm_$a) \
  -gencode=arch=compute_$(lastword $(cuda_arch)),code=compute_$(lastword $(cuda_arch)) \
  $(if $(filter 1,$(WERROR)),-Werror all-warnings) -Xcompiler=-Wall,-Wextra,-Wformat=2
probe_obj := $(patsubst %.cu,$(O)/%.o,$(cuda_src)) $(patsubst %,$(O)/src/%.o,base/status \
  base/suggest base/units machine/sample exec/adamw_stream exec/copy_stream exec/expert_ffn \
  exec/ledger exec/ring_strip)

probe: $(if $(and $(filter release,$(FLAVOUR)),$(cuda_arch),$(cublas),$(cuda_src)),\
  $(B)/mosaic-probe-cuda)
$(O)/nvcc-flags: FORCE
	$(call stamp,$(filter-out -Werror all-warnings,$(nvcc_compile)) $(cuda_src))
$(O)/calibration/%.o: calibration/%.cu $(O)/nvcc-flags
	$(call quiet,NVCC,$<)
	@mkdir -p $(@D)
	$(Q)$(nvcc_compile) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<
$(B)/mosaic-probe-cuda: $(probe_obj)
	$(call quiet,LD,$@)
	$(Q)$(nvcc) -o $@ $(probe_obj) -lcublas -lcublasLt $(if $(nccl),-lnccl) -ldl \
	  $(or $(shell $(PKG_CONFIG) --libs jansson 2>/dev/null),-ljansson) \
	  $(if $(wildcard $(cuda_root)/lib64/libcublas*),-Xlinker -rpath -Xlinker $(cuda_root)/lib64)

# The same program on the processor, for tests: sources are translated, libraries are tests/cuda's.
emulated := $(O)/emulated
emulated_src := $(cuda_src:calibration/%.cu=%) $(filter-out $(if $(nccl),,nccl),\
  $(patsubst tests/cuda/%.cc,%,$(wildcard tests/cuda/*.cc)))
emulated_headers := $(patsubst %,$(emulated)/%,$(notdir $(wildcard calibration/*.h tests/cuda/*.h)))
vpath %.cc tests/cuda
.PHONY: emulated-probe
.SECONDARY: $(emulated_headers) $(patsubst %,$(emulated)/%.cc,$(emulated_src))
emulated-probe: $(if $(and $(filter release,$(FLAVOUR)),$(cuda_arch),$(cublas),$(cuda_src)),\
  $(B)/emulated-probe $(if $(wildcard $(cuda_root)/include/cudnn.h),$(B)/fake-cudnn/libcudnn.so.9))
$(emulated)/%.cc: calibration/%.cu tests/cuda/translate.awk
	@mkdir -p $(@D)
	$(Q)awk -f tests/cuda/translate.awk $< >$@
$(emulated)/%.cc: tests/cuda/%.cc
	@mkdir -p $(@D)
	$(Q)cp $< $@
$(emulated)/%.h: tests/cuda/%.h
	@mkdir -p $(@D)
	$(Q)cp $< $@
$(emulated)/%.h: calibration/%.h tests/cuda/translate.awk
	@mkdir -p $(@D)
	$(Q)awk -f tests/cuda/translate.awk $< >$@
$(emulated)/%.o: $(emulated)/%.cc $(emulated_headers) $(O)/nvcc-flags
	$(call quiet,EMULATE,$*)
	$(Q)$(CXX) -std=c++17 -O2 -w -ffp-contract=off -I$(emulated) -Isrc $(lib_cflags) \
	  -isystem $(cuda_root)/include -DMOSAIC_VERSION='"$(VERSION)"' $(if $(nccl),-DPROBE_NCCL) \
	  -MMD -MP -c -o $@ $<
$(B)/emulated-probe: $(patsubst %,$(emulated)/%.o,$(emulated_src)) $(filter $(O)/src/%,$(probe_obj))
	$(call quiet,LD,$@)
	$(Q)$(CXX) -o $@ $^ $(or $(shell $(PKG_CONFIG) --libs jansson 2>/dev/null),-ljansson) -ldl -lm
$(B)/fake-cudnn/libcudnn.so.9: tests/cuda/cudnn.c
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c17 -O2 -Wall -Wextra -D_POSIX_C_SOURCE=200809L -isystem $(cuda_root)/include \
	  -shared -fPIC -o $@ $< -lm

-include $(patsubst %.o,%.d,$(lib_obj) $(cli_obj) $(probe_obj) $(wildcard $(emulated)/*.o) $(host_obj) $(call objects,calibration/replay.c $(test_src) $(support_src) \
  $(fuzz_src) tests/fuzz/replay.c $(bench_src)))

# ---- the two commands of the README -----------------------------------------------------------

# make reads pkg-config before packages are installed, so building is left to a fresh make.
jobs = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc 2>/dev/null || echo 2))
again = $(MAKE) $(jobs) FLAVOUR=$(FLAVOUR)
# A failed build ends on the packages that are missing, if any.
build = { $(again) $(1) >&2 || { DEPS=0 .ci/deps $(2); exit 2; }; }

.PHONY: plan test check-unit check-cli asan tsan
plan:
	@.ci/deps build
	@$(call build,all,build)
	@build/mosaic plan $(PLAN)

run_tests = MAKE_OVERRIDES='$(filter-out FLAVOUR=%,$(MAKEOVERRIDES))' tests/run --build $(B) \
  --flavour $(FLAVOUR)

test:
	@.ci/deps build test
	@$(call build,tests,build test)
	@$(run_tests)

check-unit check-cli: check-%: tests
	@$(run_tests) $*

# Sanitizers and thread checker; TSAN_TESTS narrows the second to what runs threads.
TSAN_TESTS ?= pool search plan exec
tsan_programs = $(foreach t,$(wildcard tests/unit/test_*.c tests/oracle/test_*.c),$(if $(strip \
  $(foreach w,$(TSAN_TESTS),$(findstring $w,$(notdir $t)))),build/tsan/$(t:.c=)))
asan:
	@$(MAKE) $(jobs) FLAVOUR=asan tests >&2
	@$(MAKE) FLAVOUR=asan run-sanitized KINDS='unit cli fuzz'
tsan:
	@$(MAKE) $(jobs) FLAVOUR=tsan $(tsan_programs) >&2
	@$(MAKE) FLAVOUR=tsan run-sanitized KINDS='unit $(addprefix --only ,$(TSAN_TESTS))'
.PHONY: run-sanitized
run-sanitized:
	@$(run_tests) $(KINDS)

# ---- checking ---------------------------------------------------------------------------------

formatted := $(sort $(wildcard src/*.[ch] src/*/*.[ch] tests/*/*.[ch] tests/cuda/*.cc bench/*.[ch] \
  calibration/*.[ch] calibration/host/*.[ch] calibration/*.cu))
scripts := $(sort $(shell grep -lsE '^\#!.*sh$$' tests/* tests/*/* bench/* .ci/*) tests/tap.sh)
pages := $(sort $(wildcard man/*.[157]))

.PHONY: lint lint-format lint-tidy lint-cppcheck lint-shell lint-man fuzz soak bench golden-update
lint: lint-format lint-shell lint-man lint-cppcheck lint-tidy
lint-format:
	$(call quiet,FORMAT,$(words $(formatted)) files)
	$(Q)clang-format --dry-run -Werror $(formatted)
lint-tidy:
	$(call quiet,TIDY,$(words $(lib_src) $(cli_src)) files)
	$(Q)ls -S $(lib_src) $(cli_src) | xargs -n 1 -P "$$(nproc)" sh -c 'clang-tidy --quiet \
	  "$$@" -- -std=c17 -D_POSIX_C_SOURCE=200809L -Isrc $(lib_cflags) -DMOSAIC_VERSION=\"\" -DMOSAIC_BUILD=\"\" -DMOSAIC_DATADIR=\"\" 2>&1' tidy | \
	  { ! grep -vE '^[0-9]+ warnings? (generated|treated)|^Suppressed|^Use -header-filter'; }
lint-cppcheck:
	$(call quiet,CPPCHECK,src)
	$(Q)cppcheck -q -j $$(nproc) --std=c11 --enable=warning,performance,portability \
	  --inline-suppr --error-exitcode=1 --suppress=missingIncludeSystem -Isrc \
	  -DMOSAIC_VERSION='""' src
lint-shell:
	$(call quiet,SHELL,$(scripts))
	$(Q)shellcheck -x $(scripts) && shellcheck -x -e SC2154 $(wildcard tests/cli/*.ba*)
lint-man:
	$(call quiet,MANDOC,$(pages))
	$(Q)$(if $(pages),mandoc -T lint -W warning $(pages))

# Replays the corpus first, then looks for new inputs; findings stay in build/fuzz.
fuzz soak:
	@$(MAKE) $(jobs) FLAVOUR=fuzz CFLAGS='-O1 -g' fuzzers >&2
	@.ci/fuzz build/fuzz/fuzz $(FUZZ_SECONDS)

bench: all benches
	@for b in $(benches); do $$b || exit 1; done

golden-update: tests
	@GOLDEN_UPDATE=1 $(run_tests) cli

# ---- installing -------------------------------------------------------------------------------

D = $(DESTDIR)
shells := bash zsh fish
completion_bash = $(DATADIR)/bash-completion/completions/mosaic
completion_zsh = $(DATADIR)/zsh/site-functions/_mosaic
completion_fish = $(DATADIR)/fish/vendor_completions.d/mosaic.fish
data_files := $(shell find configs calibration/data -type f 2>/dev/null | LC_ALL=C sort)
schema_files := $(sort $(wildcard src/report/schema/*.json))

$(B)/completion.%: $(B)/mosaic
	$(Q)$< completion $* >$@
$(O)/mosaic.pc: .ci/mosaic.pc.in FORCE
	@mkdir -p $(@D)
	@sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' \
	  -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' -e 's|@PACKAGES@|$(packages)|' $< >$@

.PHONY: install uninstall clean dist help
install: all $(addprefix $(B)/completion.,$(shells)) $(O)/mosaic.pc
	$(call quiet,INSTALL,$(D)$(PREFIX))
	$(Q)install -d $(D)$(BINDIR) $(D)$(LIBDIR)/pkgconfig $(D)$(INCLUDEDIR) $(D)$(DATADIR)/mosaic
	$(Q)install -m 755 $(B)/mosaic $(wildcard $(B)/mosaic-probe-*) $(D)$(BINDIR)
	$(Q)install -m 644 $(library) $(D)$(LIBDIR)
	$(Q)install -m 644 $(O)/mosaic.pc $(D)$(LIBDIR)/pkgconfig
	$(Q)install -m 644 src/mosaic.h $(D)$(INCLUDEDIR)
	$(Q)$(foreach f,$(pages),install -D -m 644 -t $(D)$(MANDIR)/man$(subst .,,$(suffix $f)) $f &&) :
	$(Q)$(foreach s,$(shells),install -D -m 644 $(B)/completion.$s $(D)$(completion_$s) &&) :
	$(Q)for f in $(data_files); do install -D -m 644 $$f $(D)$(DATADIR)/mosaic/$$f || exit 1; done
	$(Q)$(if $(schema_files),install -D -m 644 -t $(D)$(DATADIR)/mosaic/schema $(schema_files))

uninstall:
	$(call quiet,REMOVE,$(D)$(PREFIX))
	$(Q)rm -f $(addprefix $(D)$(BINDIR)/,mosaic mosaic-probe-cuda mosaic-probe-host \
	  mosaic-probe-replay) $(D)$(LIBDIR)/libmosaic.a $(D)$(LIBDIR)/pkgconfig/mosaic.pc \
	  $(D)$(INCLUDEDIR)/mosaic.h $(foreach s,$(shells),$(D)$(completion_$s)) \
	  $(foreach f,$(pages),$(D)$(MANDIR)/man$(subst .,,$(suffix $f))/$(notdir $f))
	$(Q)rm -rf $(D)$(DATADIR)/mosaic

clean:
	rm -rf build

dist:
	@mkdir -p build
	git archive --prefix=mosaic-$(VERSION)/ -o build/mosaic-$(VERSION).tar.gz HEAD

help:
	@printf '%s\n' \
	  'make plan            install what is missing, build, plan $$(PLAN)' \
	  'make test            install what is missing, build, run every test' \
	  'make                 build build/mosaic and build/libmosaic.a' \
	  'make check-unit      unit tests            make check-cli   command line tests' \
	  'make asan            ASan and UBSan        make tsan        thread checker' \
	  'make lint            format, tidy, cppcheck, shellcheck, mandoc' \
	  'make fuzz            FUZZ_SECONDS=60 for each fuzzer (soak: the same)' \
	  'make bench           speed                 make golden-update  accept new outputs' \
	  'make install         PREFIX=$(PREFIX) DESTDIR=    make uninstall' \
	  'make clean           remove build/         make dist        source archive' \
	  'Variables: FLAVOUR=release|clang|asan|tsan|fuzz WERROR=1 DEPS=0 CUDA=0|1 OPENBLAS=0 V=1'
