#!/bin/sh
# The public headers by themselves, in C and C++, with every warning an error; the argument block as the kernels see it.
cd "$(dirname "$0")/.." || exit 1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
check() { # check NAME COMMAND...
    name=$1
    shift
    if "$@" > "$dir/said" 2>&1; then echo "ok $name"; else echo "not ok $name"; cat "$dir/said"; fi
}
strict='-fsyntax-only -Iinclude -Wall -Wextra -Wpedantic -Wconversion -Werror'
for header in include/*.h; do
    header=$(basename "$header")
    printf '#include "%s"\n#include "%s"\n' "$header" "$header" > "$dir/alone.c"
    printf 'struct ptxmm_gemm_args block_%s; enum ptxmm_type type_of(void); int file_is_not_empty;\n' "${header%.h}" >> "$dir/alone.c"
    for cc in gcc clang; do
        if ! command -v $cc > /dev/null; then echo "skip headers/$cc/$header: no $cc here"; continue; fi
        for std in c11 c17; do check "headers/$cc/$std/$header" $cc -std=$std -Wshadow -Wstrict-prototypes $strict "$dir/alone.c"; done
        if ! echo '#include <cstdint>' | $cc -fsyntax-only -x c++ - 2> /dev/null; then
            echo "skip headers/$cc/c++/$header: no C++ compiler here"
            continue
        fi
        for std in c++11 c++17 c++20; do check "headers/$cc/$std/$header" $cc -x c++ -std=$std $strict "$dir/alone.c"; done
    done
done

# Every offset of ptx/common/args.inc against the C structure: ARGS_TILES_M is offsetof(struct ptxmm_gemm_args, tiles_m). Both files have
# the same flags.
offsets() { # offsets ARGS.INC > C
    echo '#include "ptxmm_abi.h"'
    echo "#include \"$1\""
    echo '_Static_assert(ABI_VERSION == PTXMM_ABI_VERSION, "ABI_VERSION");'
    echo '_Static_assert(COUNTERS == PTXMM_WORKSPACE_COUNTERS, "COUNTERS");'
    sed -n 's/^#define \(ARGS_[A-Z0-9_]*\).*/\1/p' "$1" | while read -r name; do
        field=$(echo "${name#ARGS_}" | tr A-Z a-z)
        case $field in
            bytes) echo "_Static_assert($name == sizeof(struct ptxmm_gemm_args), \"$name\");" ;;
            abi) echo "_Static_assert($name == offsetof(struct ptxmm_gemm_args, abi_version), \"$name\");" ;;
            *) echo "_Static_assert($name == offsetof(struct ptxmm_gemm_args, $field), \"$name\");" ;;
        esac
    done
    sed -n 's/^#define \(FLAG_[A-Z0-9_]*\).*/\1/p; s/^#define PTXMM_\(FLAG_[A-Z0-9_]*\).*/\1/p' "$1" include/ptxmm_abi.h |
        sort -u | while read -r name; do echo "_Static_assert($name == PTXMM_$name, \"$name\");"; done
}
offsets ptx/common/args.inc > "$dir/abi.c"
check headers/args.inc ${CC:-gcc} -std=c11 -fsyntax-only -Iinclude -I. "$dir/abi.c"
[ "$(grep -c offsetof "$dir/abi.c")" -ge 18 ] && echo "ok headers/args.inc/all" || { echo "not ok headers/args.inc/all"; cat "$dir/abi.c"; }
notices() { # notices NAME CHANGE WORD: a change of args.inc that is an error
    sed "$2" ptx/common/args.inc > "$dir/args.inc"
    offsets "$dir/args.inc" > "$dir/moved.c"
    if ${CC:-gcc} -std=c11 -fsyntax-only -Iinclude "$dir/moved.c" 2> "$dir/said"; then echo "not ok headers/args.inc/$1"
    elif grep -q "$3" "$dir/said"; then echo "ok headers/args.inc/$1"; else echo "not ok headers/args.inc/$1"; fi
}
notices moved 's/^#define ARGS_RASTER .*/#define ARGS_RASTER 404/' ARGS_RASTER
notices flag 's/^#define FLAG_CONSTANT_B .*/#define FLAG_CONSTANT_B 2/' FLAG_CONSTANT_B
notices no_flag '/^#define FLAG_CONSTANT_A /d' FLAG_CONSTANT_A
