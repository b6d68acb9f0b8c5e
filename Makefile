# The emulator and its tests. SAN=1: address and undefined-behaviour sanitizers, TSAN=1: thread.
MAKEFLAGS += -rR
.DELETE_ON_ERROR:

AR      := ar
CC      ?= cc
ifeq ($(origin CC),default)
CC      := gcc
endif
BUILD   ?= build$(if $(SAN),-san)$(if $(TSAN),-tsan)
CUDA    ?= /usr/local/cuda
CFLAGS  ?= -O2 -g
WARN    := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror
SANITIZE := $(if $(SAN),-fsanitize=address -fsanitize=undefined -fno-sanitize-recover=undefined) \
            $(if $(TSAN),-fsanitize=thread)
ALL_CFLAGS = -std=c11 $(CFLAGS) $(WARN) -fPIC -fvisibility=hidden -pthread -isystem $(CUDA)/include \
             -Iemulator -MMD -MP $(SANITIZE)

SRC     := $(wildcard emulator/*.c)
OBJ     := $(SRC:%.c=$(BUILD)/%.o)
TEST    := $(wildcard tests/emu_*.c)
TESTS   := $(TEST:tests/%.c=$(BUILD)/tests/%)
LIB     := $(BUILD)/lib/libptxmm_emulator

.PHONY: all test clean help
all: $(LIB).so $(LIB).a $(TESTS)

help:
	@echo "all | test | clean   variables: SAN=1 TSAN=1 BUILD=folder CFLAGS=..."

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	@echo "CC $<"
	@$(CC) $(ALL_CFLAGS) -c $< -o $@

$(LIB).a: $(OBJ)
	@mkdir -p $(@D)
	@echo "AR $@"
	@rm -f $@
	@$(AR) rcs $@ $^

$(LIB).so: $(OBJ)
	@mkdir -p $(@D)
	@echo "LD $@"
	@$(CC) -shared $(SANITIZE) -Wl,-z,defs,-soname,$(notdir $@) -o $@ $^ -lm -pthread

$(BUILD)/tests/%: $(BUILD)/tests/%.o $(LIB).a
	@echo "LD $@"
	@$(CC) $(SANITIZE) -o $@ $^ -lcmocka -lm -pthread

test: $(TESTS)
	@set -e; for t in $(TESTS); do echo "== $$t"; $$t; done

clean:
	rm -rf build build-san build-tsan

-include $(OBJ:.o=.d) $(TEST:tests/%.c=$(BUILD)/tests/%.d)
