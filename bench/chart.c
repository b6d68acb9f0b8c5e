/* chart.c -- one picture of a run: how many times as fast as cuBLASLt, by shape. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"

enum { LEFT = 170, WIDTH = 560, RIGHT = 190, ROW = 18, TOP = 62, BOTTOM = 34 };

#define LEAST 0.6   /* the scale's ends; what lies outside ends in an arrow and has its number */
#define MOST 1.4

static double place(double ratio)
{
    return LEFT + WIDTH * (fmin(fmax(ratio, LEAST), MOST) - LEAST) / (MOST - LEAST);
}

/* Text of a file may hold anything; names of shapes and kernels go into XML. */
static void escaped(FILE *f, const char *text)
{
    for (; *text; text++) switch (*text) {
        case '&': fputs("&amp;", f); break;
        case '<': fputs("&lt;", f); break;
        case '>': fputs("&gt;", f); break;
        case '"': fputs("&quot;", f); break;
        default: if ((unsigned char)*text >= ' ') fputc(*text, f);
        }
}

static double ratio_at(const json_t *result, const char *protocol, const char *key)
{
    return number_at(json_object_get(result, protocol), key);
}

static void bar(FILE *f, int row, const json_t *result, const char *protocol)
{
    const double first = ratio_at(result, protocol, "speed_to_first"), best = ratio_at(result, protocol, "speed_to_best");
    const double y = TOP + row * ROW, one = place(1), at = place(first);
    const char *kernel = text_at(result, "kernel"), *tile = strstr(kernel, "gemm_");
    fprintf(f, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">", LEFT - 8, y + 12);
    escaped(f, text_at(result, "shape"));
    fprintf(f, "</text><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>", fmin(one, at), y + 2,
            fabs(at - one), ROW - 5, first >= 1 ? "#3a7d44" : "#b5523b");
    if (best > 0)
        fprintf(f, "<path d=\"M%.1f %.1fv%d\" stroke=\"#222\" stroke-width=\"2\"/>", place(best), y + 1, ROW - 3);
    if (first > MOST || first < LEAST)
        fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" fill=\"#fff\"%s>%.2f %s</text>", first > MOST ? at - 6 : at + 6, y + 12,
                first > MOST ? " text-anchor=\"end\"" : "", first, first > MOST ? "&#8594;" : "&#8592;");
    fprintf(f, "<text x=\"%d\" y=\"%.1f\" class=\"k\">", LEFT + WIDTH + 10, y + 12);
    escaped(f, tile ? tile + strlen("gemm_") : kernel);
    fprintf(f, "</text>\n");
}

static void frame(FILE *f, const json_t *root, const char *protocol, int rows, double mean)
{
    const int width = LEFT + WIDTH + RIGHT, height = TOP + rows * ROW + BOTTOM, foot = TOP + rows * ROW;
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n<style>.k{font-size:10px;fill:#555}</style>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text x=\"%d\" y=\"20\" font-size=\"15\">",
            width, height, width, height, LEFT);
    escaped(f, text_at(root, "device"));
    fprintf(f, ", times as fast as cuBLASLt %s, %s protocol</text>\n<text x=\"%d\" y=\"38\" fill=\"#555\">bar: first heuristic "
               "(geometric mean %.3f of %d); tick: best of its 8; driver %s, %.10s</text>\n",
            text_at(root, "cublaslt_version"), protocol, LEFT, mean, rows, text_at(root, "driver"), text_at(root, "date"));
    for (int tenth = 6; tenth <= 14; tenth++)
        fprintf(f, "<path d=\"M%.1f %dV%d\" stroke=\"%s\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.1f</text>\n",
                place(tenth / 10.0), TOP - 6, foot + 4, tenth == 10 ? "#222" : "#ddd", place(tenth / 10.0), foot + 20, tenth / 10.0);
}

int bench_chart(const char *path, const char *svg)
{
    json_t *root = bench_results(path);
    if (!root) return -1;
    const json_t *results = json_object_get(root, "results"), *result;
    const char *protocol = NULL;
    double logs = 0;
    int rows = 0, failed = 0;
    size_t i;
    for (int p = 0; p < PROTOCOLS && !rows; p++) {
        protocol = protocol_names[p];
        json_array_foreach(results, i, result) {
            const double first = ratio_at(result, protocol, "speed_to_first");
            if (first > 0) logs += log(first), rows++;
        }
    }
    FILE *f = rows ? fopen(svg, "w") : NULL;
    if (!rows) {
        fprintf(stderr, "ptxmm-bench: %s: no result was timed beside cuBLASLt\n", path);
        failed = -1;
    } else if (!f) {
        fprintf(stderr, "ptxmm-bench: cannot write %s: %s\n", svg, strerror(errno));
        failed = -1;
    } else {
        int row = 0;
        frame(f, root, protocol, rows, exp(logs / rows));
        json_array_foreach(results, i, result)
            if (ratio_at(result, protocol, "speed_to_first") > 0) bar(f, row++, result, protocol);
        fprintf(f, "</svg>\n");
        failed = ferror(f) ? -1 : 0;
        if (fclose(f) || failed) {
            fprintf(stderr, "ptxmm-bench: cannot write %s\n", svg);
            failed = -1;
        }
    }
    json_decref(root);
    return failed;
}
