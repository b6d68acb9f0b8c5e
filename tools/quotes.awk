# quotes.awk FILE.md... -- checks that what the docs quote still stands in the sources.
#
# A quote is a fenced block that says where it comes from:
#
#     ```ptx file=ptx/sm90/gemm.ptx label=multiply
#
# Its lines stand in that file in this order and together, at or after the line that opens the label: `multiply:` at the
# head of a line, or `#define multiply`; without label=, or with label=-, anywhere. Spaces at either end, the backslash that
# continues a macro, and blank lines do not count; a line of `...` alone leaves lines out. Blocks of ```ptx without file= are
# refused: a sketch that is no quote is fenced as ```text.
function squeeze(s) { sub(/[ \t\r]*\\?[ \t\r]*$/, "", s); sub(/^[ \t]+/, "", s); return s }
function complain(why) { printf "%s:%d: %s\n", doc, opened, why; bad++ }
function check(   line, raw, n, i, j, at, start, gap, src) {
    while ((line = getline raw < source) > 0) {
        if (label != "" && !start && (raw ~ "^[ \t]*" label ":" || raw ~ "^#[ \t]*define[ \t]+" label "([ (\t]|$)")) start = n + 1
        if (squeeze(raw) != "") src[++n] = squeeze(raw)
    }
    close(source)
    if (line < 0) { complain("there is no file " source); return }
    if (label != "" && !start) { complain(source " has no label " label); return }
    # Each run of lines between gaps must follow the one before.
    at = start ? start : 1
    for (i = 1; i <= quoted; i = j) {
        for (j = i; j <= quoted && quote[j] != "..."; j++) ;
        if (j > i) {
            for (; at + (j - i) - 1 <= n; at++) {
                for (gap = 0; gap < j - i && src[at + gap] == quote[i + gap]; gap++) ;
                if (gap == j - i) break
                if (gap > best) { best = gap; stuck = quote[i + gap] }
            }
            if (at + (j - i) - 1 > n) {
                complain("not in " source (label == "" ? "" : " after " label) ": " (best ? stuck : quote[i]))
                return
            }
            at += j - i
        }
        if (j <= quoted) j++
    }
}
FNR == 1 { if (inside) complain("the fence is never closed"); inside = 0; doc = FILENAME }
/^[ \t]*```/ && !inside {
    inside = 1; opened = FNR; source = label = ""; quoted = best = 0
    for (i = 2; i <= NF; i++) {
        if ($i ~ /^file=/) source = substr($i, 6)
        if ($i ~ /^label=./ && $i != "label=-") label = substr($i, 7)
    }
    if ($1 ~ /```ptx$/ && source == "") complain("a ptx block needs file= (a sketch is fenced as ```text)")
    next
}
/^[ \t]*```/ { inside = 0; if (source != "") { quotes++; if (!quoted) complain("the quote is empty"); else check() }; next }
inside && squeeze($0) != "" { quote[++quoted] = squeeze($0) }
END { if (inside) complain("the fence is never closed"); if (!bad) printf "%d quotes stand in the sources\n", quotes; exit bad > 0 }
