#!/bin/sh
# run-tests.sh PROGRAM... -- runs the test programs and scripts in order, shows what each says, and sums up. A cmocka program
# reports by cmocka's closing lines; a script by lines "ok NAME", "not ok NAME", "skip NAME: reason". Nonzero if anything failed, a
# program died, ran nothing or took longer than LIMIT seconds. ORDER is by layers, so that a failure points at the lowest one.
LIMIT=${LIMIT:-900}
out=$(mktemp) totals=$(mktemp)
trap 'rm -f "$out" "$totals"' EXIT
layer() {
    case ${1##*/} in
        *.sh) echo 1 ;; header_*) echo 2 ;; lib_*) echo 3 ;; emu_*) echo 4 ;; cli_*) echo 6 ;; kernels) echo 7 ;; *) echo 5 ;;
    esac
}
for program in $(for p; do echo "$(layer "$p") $p"; done | sort -s -k1,1n | cut -d' ' -f2); do
    printf '== %s\n' "$program"
    start=$(date +%s)
    { timeout "$LIMIT" "$program" 2>&1; echo "exit status $?"; } | tee "$out" | sed '/^exit status 0$/d'
    status=$(sed -n '$s/.*exit status //p' "$out")
    awk -v program="$program" -v status="$status" -v seconds="$(($(date +%s) - start))" '
        /^\[  PASSED  \] [0-9]+ test\(s\)/ { passed += $4 }
        /^\[  SKIPPED \] [0-9]+ test\(s\)/ { skipped += $4 }
        /^\[  FAILED  \] [0-9]+ test\(s\)/ { failed += $4 }
        /^ok /     { passed++ }
        /^not ok / { failed++ }
        /^skip /   { skipped++ }
        END {
            if (status != 0 && !failed) failed++
            if (passed + failed + skipped == 0) { failed = 1; note = "  (ran no test)" }
            printf "%d %d %d %d %s%s%s\n", passed, failed, skipped, seconds, program, status == 124 ? "  (time ran out)" : "", note
        }' "$out" >> "$totals"
done
echo
printf '%8s %8s %8s %8s\n' passed failed skipped seconds
awk '{ p += $1; f += $2; s += $3; t += $4; printf "%8d %8d %8d %8d  %s\n", $1, $2, $3, $4, substr($0, index($0, $5)) }
     END { printf "\n%d passed, %d failed, %d skipped\n", p, f, s; exit f > 0 }' "$totals"
