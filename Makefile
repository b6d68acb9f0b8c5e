# ptxmm. `make help` says what there is. Needs make 4.3; everything made lies in build/.
MAKEFLAGS += -rR
.DELETE_ON_ERROR:
.SUFFIXES:
.SECONDARY:
.DEFAULT_GOAL := all

# ---- settings ------------------------------------------------------------------------------------
CFLAGS    ?= -O2 -g
PREFIX    ?= /usr/local
LIBDIR    ?= $(PREFIX)/lib
DESTDIR   ?=
SAN       ?=#      1: address and undefined-behaviour sanitizers, in build/san
TSAN      ?=#      1: the thread sanitizer, in build/tsan
LINEINFO  ?=#      1: cubins carry the source lines of the PTX
V         ?=#      1: show every command
SM90_MB   ?= 25#   budget of the sm90 cubins, and of all
ALL_MB    ?= 60

ifeq ($(origin CC),default)
CC := gcc
endif
ifeq ($(origin AR),default)
AR := ar
endif
OBJCOPY   ?= objcopy
JANSSON   ?= -l:libjansson.a# static: the command travels to machines that have no jansson

# Set-up comes before all else, because it decides what is found below.
ifneq ($(filter demo test setup,$(MAKECMDGOALS)),)
ifeq ($(MAKE_RESTARTS),)
$(shell CC='$(CC)' CUDA_HOME='$(CUDA_HOME)' tools/setup.sh $(if $(filter-out demo,$(MAKECMDGOALS)),test) 1>&2)
ifneq ($(.SHELLSTATUS),0)
$(error set-up did not finish, and said why above)
endif
endif
endif
CUDA     := $(shell CUDA_HOME='$(CUDA_HOME)' tools/find-cuda.sh)
PTXAS    ?= $(filter-out -,$(word 1,$(CUDA)))
CUDA_INC ?= $(filter-out -,$(word 2,$(CUDA)))

# ---- lists ---------------------------------------------------------------------------------------
OUT   := build$(if $(SAN),/san)$(if $(TSAN),/tsan)#  what the C compiler makes
GEN   := build/gen
$(shell mkdir -p $(GEN))
include $(GEN)/kernels.mk#        KERNELS, SOURCE_<kernel>, ARCH_<kernel>: made of ptx/kernels.def below

CUBINS := $(KERNELS:%=build/cubin/%.cubin)
PTX    := $(KERNELS:%=build/ptx/%.ptx)
LOADER := $(patsubst %.c,$(OUT)/obj/%.o,$(wildcard loader/*.c))
EMU    := $(patsubst %.c,$(OUT)/obj/%.o,$(wildcard emulator/*.c))
CLI    := $(patsubst %.c,$(OUT)/obj/%.o,$(wildcard cli/*.c))
BENCH  := $(patsubst %.c,$(OUT)/obj/%.o,$(wildcard bench/*.c))
SHARED_TEST := $(wildcard tests/gemm_*.c)# of the programs that run kernels
DRIVERS := $(wildcard tests/*_driver.c)# driver libraries made for tests
TESTS  := $(patsubst tests/%.c,$(OUT)/tests/%,$(filter-out $(DRIVERS) $(SHARED_TEST),$(wildcard tests/*.c)))

VERSION := $(shell awk '/define PTXMM_VERSION_/ { v = v s $$3; s = "." } END { print v }' include/ptxmm.h)
SONAME  := libptxmm.so.$(firstword $(subst ., ,$(VERSION)))
LIBS    := $(OUT)/lib/libptxmm.a $(OUT)/lib/libptxmm.so
EMULIBS := $(if $(EMU),$(OUT)/lib/libptxmm_emulator.a $(OUT)/lib/libptxmm_emulator.so)
# The CUDA runtime's calls on the emulator, where the toolkit has their header whole.
RUNTIME := $(if $(and $(EMU),$(CUDA_INC),$(wildcard $(CUDA_INC)/crt/host_defines.h)),$(OUT)/lib/emulator/libcudart.so.13)
COMMAND := $(if $(CLI),$(OUT)/bin/ptxmm)
BENCHES := $(if $(BENCH),$(OUT)/bin/ptxmm-bench)

# ---- flags ---------------------------------------------------------------------------------------
comma := ,
WARN  := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes $(if $(CI),-Werror)
SANFLAGS := $(strip $(if $(SAN),-fsanitize=address$(comma)undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer) \
            $(if $(TSAN),-fsanitize=thread))
COMPILE = $(CC) -std=c11 $(CFLAGS) -fPIC -fvisibility=hidden -pthread $(WARN) $(SANFLAGS) -MMD -MP \
          -Iinclude -I. $(if $(CUDA_INC),-isystem $(CUDA_INC))
LINK    = $(CC) $(CFLAGS) $(SANFLAGS) $(LDFLAGS) -pthread
SHARED  = $(LINK) -shared $(if $(SANFLAGS),,-Wl$(comma)-z$(comma)defs) -Wl,-soname,
CPP_PTX = $(CC) -E -undef -nostdinc -x assembler-with-cpp -Wall -Wundef -Werror -Iptx/common
QUIET   = $(if $(V),,@echo "  $(1)  $@";)

# ---- kernels: ptx/kernels.def -> cpp -> ptxas ----------------------------------------------------
$(GEN)/kernels.mk: ptx/kernels.def tools/rows.sh
	$(call QUIET,ROWS )tools/rows.sh $< $(GEN)
$(GEN)/%.row: $(GEN)/kernels.mk ;

.SECONDEXPANSION:
# With line markers for ptxas, whose words then name our lines; without (-P) for a driver that compiles the text.
$(KERNELS:%=$(GEN)/%.i): $(GEN)/%.i: $$(SOURCE_$$*) $(GEN)/%.row
	$(call QUIET,CPP  )$(CPP_PTX) -I$(<D) @$(GEN)/$*.row -MMD -MP -MT $@ -MF $(GEN)/$*.d $< -o $@
$(PTX): build/ptx/%.ptx: $$(SOURCE_$$*) $(GEN)/%.i | build/ptx
	$(call QUIET,CPP  )$(CPP_PTX) -P -I$(<D) @$(GEN)/$*.row $< -o $@

# The bench's own: compiled by the driver.
$(GEN)/floor.ptx: bench/floor.ptx
	$(call QUIET,CPP  )$(CPP_PTX) -P -MMD -MP -MT $@ -MF $(GEN)/floor.d $< -o $@

# Names the assembler and its options, so that cubins are made again when either changes.
ASSEMBLER := $(PTXAS) $(if $(LINEINFO),-lineinfo) $(if $(PTXAS),$(lastword $(shell $(PTXAS) --version)))
$(GEN)/assembler: FORCE
	@echo '$(ASSEMBLER)' | cmp -s - $@ || echo '$(ASSEMBLER)' > $@
ASSEMBLE = $(if $(LINEINFO),awk -f tools/lineinfo.awk $< > $(@:.cubin=.i) &&) \
    tools/assemble.sh $(PTXAS) $(ARCH_$*) $(if $(LINEINFO),$(@:.cubin=.i),$<) $@ $(if $(LINEINFO),-lineinfo)
# Without ptxas a cubin is an empty file: the loader reports its kernel as missing, and PTX still serves.
$(CUBINS): build/cubin/%.cubin: $(GEN)/%.i $(GEN)/assembler tools/assemble.sh tools/lineinfo.awk | build/cubin
	$(call QUIET,PTXAS)$(if $(PTXAS),$(ASSEMBLE),: > $@)
$(GEN)/hashes.h: $(CUBINS) tools/pack.sh
	$(call QUIET,HASH )tools/pack.sh $(SM90_MB) $(ALL_MB) $(CUBINS) > $@

# ---- C -------------------------------------------------------------------------------------------
$(OUT)/obj/loader/images.o: $(GEN)/hashes.h# it includes the hashes and the cubins: -I and .incbin look in build/
$(OUT)/obj/loader/%.o: MORE = -DPTXMM_BUILD -I$(GEN) -Wa,-Ibuild
$(OUT)/obj/bench/floor.o: $(GEN)/floor.ptx# likewise
$(OUT)/obj/bench/floor.o: MORE = -Wa,-Ibuild
$(OUT)/obj/emulator/%.o $(OUT)/obj/tests/emu_%.o: MORE = -Iemulator
# Rounding modes change at run time there.
$(OUT)/obj/emulator/exec_float.o $(OUT)/obj/emulator/exec_cvt.o $(OUT)/obj/emulator/mma.o: MORE = -Iemulator -frounding-math -ffp-contract=off
$(OUT)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(call QUIET,CC   )$(COMPILE) $(MORE) -c $< -o $@

# The archive is one object whose hidden names are local, so that none can meet a name of the program that links it. Tests of
# the inner parts link libloader.a, where they are not.
$(OUT)/lib/libptxmm.a: $(OUT)/obj/ptxmm.o
$(OUT)/obj/ptxmm.o: $(LOADER)
	$(call QUIET,LINK )$(CC) -r -nostdlib -o $@ $^ && $(OBJCOPY) --localize-hidden $@
$(OUT)/obj/libloader.a: $(LOADER)
$(OUT)/lib/libptxmm_emulator.a: $(EMU)
$(OUT)/obj/libcli.a: $(filter-out %/main.o,$(CLI))
$(OUT)/lib/libptxmm.a $(OUT)/lib/libptxmm_emulator.a $(OUT)/obj/libcli.a $(OUT)/obj/libloader.a: | $(OUT)/lib
	$(call QUIET,AR   )rm -f $@ && $(AR) rcs $@ $^
$(OUT)/lib/libptxmm.so: $(LOADER) | $(OUT)/lib
	$(call QUIET,LINK )$(SHARED)$(SONAME) -o $@.$(VERSION) $^ && ln -sf $(@F).$(VERSION) $(@D)/$(SONAME) && ln -sf $(SONAME) $@
$(OUT)/lib/libptxmm_emulator.so: $(EMU) | $(OUT)/lib
	$(call QUIET,LINK )$(SHARED)$(@F) -o $@ $^ -lm -ldl

# A folder for LD_LIBRARY_PATH: the emulator by the driver's name, and the runtime on it.
$(RUNTIME): $(patsubst %.c,$(OUT)/obj/%.o,$(wildcard runtime/*.c)) $(OUT)/lib/libptxmm_emulator.so runtime/exports.map
	@mkdir -p $(@D) && ln -sf ../libptxmm_emulator.so $(@D)/libcuda.so.1
	$(call QUIET,LINK )$(SHARED)$(@F) -o $@ $(filter %.o %.so,$^) -Wl,--version-script=runtime/exports.map -Wl,-rpath,'$$ORIGIN/..'

# Programs need nothing of the machine they run on but libc; tests look for libcmocka beside them first.
PROGRAM = $(LINK) -o $@ $(filter %.o %.so.13,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(JANSSON) -lm -ldl
$(OUT)/bin/ptxmm: $(OUT)/obj/cli/main.o
$(OUT)/bin/ptxmm-bench: $(BENCH)
$(COMMAND): $(OUT)/obj/libcli.a $(OUT)/lib/libptxmm.a
$(BENCHES): $(OUT)/obj/libcli.a $(OUT)/obj/libloader.a
$(COMMAND) $(BENCHES): | $(OUT)/bin
	$(call QUIET,LINK )$(PROGRAM)
$(filter $(OUT)/tests/emu_%,$(TESTS)): $(OUT)/lib/libptxmm_emulator.a
$(filter-out $(OUT)/tests/emu_% $(OUT)/tests/runtime,$(TESTS)): $(OUT)/obj/libcli.a $(OUT)/obj/libloader.a
$(filter $(OUT)/tests/kernels $(OUT)/tests/compare_drivers,$(TESTS)): $(SHARED_TEST:%.c=$(OUT)/obj/%.o)
$(OUT)/obj/tests/runtime.o: MORE = $(if $(RUNTIME),-DWITH_RUNTIME)
$(filter $(OUT)/tests/runtime,$(TESTS)): $(RUNTIME)
$(TESTS): $(OUT)/tests/%: $(OUT)/obj/tests/%.o | $(OUT)/tests $(OUT)/ptx
	$(call QUIET,LINK )$(PROGRAM) -lcmocka -Wl,-rpath,'$$ORIGIN/../lib' -Wl,-rpath,'$$ORIGIN/../lib/emulator'
$(OUT)/tests/lib%_driver.so: $(OUT)/obj/tests/%_driver.o | $(OUT)/tests
	$(call QUIET,LINK )$(SHARED)$(@F) -o $@ $^ -lm

build/ptx build/cubin $(OUT)/lib $(OUT)/bin $(OUT)/tests:
	@mkdir -p $@
build/san/ptx build/tsan/ptx: | build/ptx
	@ln -sfn ../ptx $@

# ---- targets -------------------------------------------------------------------------------------
ALL := $(CUBINS) $(PTX) $(LIBS) $(EMULIBS) $(RUNTIME) $(COMMAND) $(BENCHES)
ALLTESTS := $(TESTS) $(DRIVERS:tests/%.c=$(OUT)/tests/lib%.so)

# Kernels and PTX programs run a second time on the emulator's Blackwell part; each skips what is for the other architecture.
RUNS = tests/*.sh $(TESTS) $(if $(EMU),'env PTXMM_EMU_PART=b200 $(OUT)/tests/ptx_run' \
       'env PTXMM_EMU_PART=b200 PTXMM_EMU_RULES=assume $(OUT)/tests/ptx_run' \
       'env PTXMM_EMU_PART=b200 PTXMM_EMU_RULES=strict$(comma)mixed-16bit $(OUT)/tests/kernels sm100/*')

all: $(ALL)
	@$(if $(PTXAS),,echo "No ptxas was found: the libraries hold no kernels. make setup gets one, or set PTXAS or CUDA_HOME.")
setup:
	@:
tests: $(ALL) $(ALLTESTS)
demo: all
	@tools/demo.sh $(OUT)
test: tests
	@CC='$(CC)' OUT=$(OUT) CUDA_INC='$(CUDA_INC)' PTXAS='$(PTXAS)' LINEINFO=$(LINEINFO) MAKEFLAGS= tools/run-tests.sh $(RUNS)
test-gpu: tests
	@tools/run-gpu-tests.sh $(OUT)
bench: all
	@$(OUT)/bin/ptxmm-bench $(ARGS)
gpu-bundle: tests
	@tools/gpu-bundle.sh $(OUT) build/gpu-bundle.tar.gz

K ?= $(firstword $(KERNELS))
show: $(GEN)/$(K).i
	@awk 'NF && !/^#/ { gsub(/; */, ";\n    "); gsub(/\n *$$/, ""); print }' $<
sass: build/cubin/$(K).cubin
	@tools/sass.sh $<

install: all
	@tools/install.sh $(OUT) '$(DESTDIR)' '$(PREFIX)' '$(LIBDIR)' $(VERSION)
uninstall:
	@tools/install.sh -u '$(DESTDIR)' '$(PREFIX)' '$(LIBDIR)' $(VERSION)
clean:
	rm -rf $(filter-out build/toolchain build/disassembler,$(wildcard build/*))
help:
	@sed -n 's/^#? \{0,1\}//p' Makefile

#? make            libraries, kernels, command and bench, in build/
#? make demo       sets the machine up and multiplies: on a GPU where one is, else on the emulator
#? make test       sets the machine up and runs every test that needs no GPU
#? make test-gpu   the tests that need a GPU (kernels, command, verify)
#? make gpu-bundle packs what test-gpu and bench need on another machine: build/gpu-bundle.tar.gz
#? make bench      times the kernels against cuBLASLt (ARGS= for ptxmm-bench)
#? make show K=    the text of a kernel after cpp; make sass K= its machine code, where a disassembler is found
#? make install    PREFIX=/usr/local LIBDIR=PREFIX/lib DESTDIR=; make uninstall takes the same away
#? make setup      only the set-up; make clean removes build/ but for what pip brought
#? Variables: SAN=1, TSAN=1 sanitizers (in build/san, build/tsan), LINEINFO=1 source lines in cubins, V=1 all commands, CC= CFLAGS=
#?            PTXAS= CUDA_HOME= CUDA_INC= JANSSON=-ljansson SM90_MB= ALL_MB=

FORCE:
.PHONY: all setup tests demo test test-gpu bench gpu-bundle show sass install uninstall clean help FORCE
-include $(wildcard $(GEN)/*.d $(OUT)/obj/*/*.d)
