/* report.h -- pieces of JSON and words that several commands print. */
#ifndef REPORT_H
#define REPORT_H

#include <jansson.h>

#include "check.h"

json_t *json_number(double x);  /* null for what JSON has no number for */
void json_print(json_t *object); /* on standard output, then frees it */

json_t *report_device(const struct ptxmm_device *device);
json_t *report_problem(const struct ptxmm_problem *problem);
json_t *report_kernel(const struct ptxmm_kernel_info *kernel);
json_t *report_candidate(const struct ptxmm_candidate *candidate);
json_t *report_check(const struct check_result *result);

const char *algorithm_name(enum ptxmm_algorithm algorithm);
const char *schedule_name(enum ptxmm_schedule schedule);
/* "12.3 us": a time in the unit that suits it, written into text, which is returned. */
const char *time_text(double seconds, char *text, size_t size);
/* ", K over clusters of 4 x 3 groups with 1.2 MB of workspace" of a split kernel, ", loads shared by 2x4 tiles, K over 3 groups with
 * 1.2 MB of workspace" of a multicast kernel; "" where K is whole and nothing is shared. */
const char *split_text(const struct ptxmm_candidate *candidate, char *text, size_t size);
/* "memory" or "compute": which side of the roofline is longer. */
const char *bound_name(const struct ptxmm_candidate *candidate);

#endif
