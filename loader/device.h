/* device.h -- descriptions of devices. */
#ifndef LOADER_DEVICE_H
#define LOADER_DEVICE_H

#include "driver.h"

/* Asks the driver. */
enum ptxmm_status device_describe(const struct driver *driver, CUdevice handle,
                                  struct ptxmm_device *device, struct ptxmm_error *error);

/* Can selection reckon with it? The first member that is out of range is named. */
enum ptxmm_status device_check(const struct ptxmm_device *device, struct ptxmm_error *error);

#endif
