#!/bin/sh
# Links of the docs lead to files and their quotes still stand in the sources (tools/quotes.awk says how they are marked), and the check notices when not.
cd "$(dirname "$0")/.." || exit 1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
awk -f tools/quotes.awk README.md $(find docs -name '*.md' | sort) > "$dir/said" && echo "ok docs/quotes: $(cat "$dir/said")" || { echo "not ok docs/quotes"; cat "$dir/said"; }

for page in README.md $(find docs -name '*.md' | sort); do
    grep -o '](\([^)#]*\)' "$page" | sed 's/^](//' | while read -r target; do
        case $target in '' | http*) continue ;; esac
        [ -e "$(dirname "$page")/$target" ] || echo "$page: there is no $target"
    done
done > "$dir/said"
[ -s "$dir/said" ] && { echo "not ok docs/links"; cat "$dir/said"; } || echo "ok docs/links"

cat > "$dir/k.ptx" <<'EOF'
#define STEP(n) add.u32 n, n, 1;
fill:
    add.u32             k0, k0, BK;

    setp.ge.u32         last, k0, k;        // why
@!last bra              fill;
drain:
    exit;
EOF
quote() { # quote INFO, lines on standard input
    { echo "\`\`\`$1"; cat; echo '```'; } > "$dir/q.md"
    awk -f tools/quotes.awk "$dir/q.md" > "$dir/said"
}
good() { name=$1; shift; if quote "$@"; then echo "ok docs/$name"; else echo "not ok docs/$name"; cat "$dir/said"; fi; }
bad() { name=$1 words=$2; shift 2; if ! quote "$@" && grep -q "$words" "$dir/said"; then echo "ok docs/$name"; else echo "not ok docs/$name"; cat "$dir/said"; fi; }
file="ptx file=$dir/k.ptx"
printf 'add.u32             k0, k0, BK;\n  setp.ge.u32         last, k0, k;        // why\n' | good after_label "$file label=fill"
printf 'fill:\n...\n@!last bra              fill;\n' | good left_out "$file label=fill"
printf '#define STEP(n) add.u32 n, n, 1;\n' | good macro "$file label=STEP"
printf 'exit;\n' | good anywhere "$file"
printf 'add.u32             k0, k0, 64;\n' | bad changed 'not in .* after fill: add.u32 *k0, k0, 64' "$file label=fill"
printf 'add.u32             k0, k0, BK;\n@!last bra              fill;\n' | bad lines_between 'not in .*: @!last' "$file label=fill"
printf 'add.u32             k0, k0, BK;\n' | bad before_label 'not in' "$file label=drain"
printf 'exit;\n' | bad no_label 'has no label flush' "$file label=flush"
printf 'exit;\n' | bad no_file 'there is no file' "ptx file=$dir/none.ptx"
printf 'exit;\n' | bad unmarked 'needs file=' ptx
printf '' | bad empty 'the quote is empty' "$file"
