#!/bin/sh
# run-tests.sh COMMAND... -- runs the test programs and scripts, lowest layer first, shows what each says, and sums up. A
# command is a path, or several words in one argument ("env PART=b200 build/tests/kernels sm100/*"; nothing is expanded). A
# cmocka program reports by cmocka's closing lines; a script by lines "ok NAME", "not ok NAME", "skip NAME: reason". Nonzero if
# anything failed, a program died, ran no test, or took longer than LIMIT seconds.
LIMIT=${LIMIT:-900}
set -f
out=$(mktemp) totals=$(mktemp)
trap 'rm -f "$out" "$totals"' EXIT
layer() {
    case $1 in
        *.sh) echo 1 ;; */header_*) echo 2 ;; */lib_*) echo 3 ;; */emu_*) echo 4 ;; */cli_*) echo 6 ;; */kernels*) echo 7 ;;
        *) echo 5 ;;
    esac
}
for command; do printf '%s %s\n' "$(layer "$command")" "$command"; done | sort -s -k1,1n | cut -d' ' -f2- |
while IFS= read -r command; do
    printf '== %s\n' "$command"
    start=$(date +%s)
    # shellcheck disable=SC2086
    { timeout "$LIMIT" $command 2>&1 < /dev/null; echo "exit status $?"; } | tee "$out" | sed '/^exit status 0$/d'
    awk -v command="$command" -v seconds="$(($(date +%s) - start))" '
        # "[  PASSED  ] 3 test(s)."; newer versions: "[  SKIPPED ] group: 3 test(s), listed below:".
        /^\[  (PASSED|SKIPPED|FAILED) +\] (.*: )?[0-9]+ test\(s\)/ {
            n = $0; sub(/ test\(s\).*/, "", n); sub(/.* /, "", n)
            if ($2 == "PASSED") passed += n; else if ($2 == "SKIPPED") skipped += n; else failed += n
        }
        /^ok /     { passed++ }
        /^not ok / { failed++ }
        /^skip /   { skipped++ }
        { last = $0 }
        END {
            sub(/.*exit status /, "", last)
            if (last != 0 && !failed) failed++
            if (passed + failed + skipped == 0) { failed = 1; note = "  (ran no test)" }
            if (last == 124) note = "  (time ran out)"
            printf "%d %d %d %d %s%s\n", passed, failed, skipped, seconds, command, note
        }' "$out" >> "$totals"
done
echo
printf '%8s %8s %8s %8s\n' passed failed skipped seconds
awk '{ p += $1; f += $2; s += $3; name = $0; sub(/^[0-9]+ [0-9]+ [0-9]+ [0-9]+ /, "", name)
       printf "%8d %8d %8d %8d  %s\n", $1, $2, $3, $4, name }
     END { printf "\n%d passed, %d failed, %d skipped\n", p, f, s; exit f > 0 || p + s == 0 }' "$totals"
