// What the emulator exports beside the driver API.
#ifndef EMU_DRIVER_EXTRA_H
#define EMU_DRIVER_EXTRA_H

// Text of the last trap or load error of the calling thread's current context (without one: of
// cuInit), or "". Valid until the thread's next call of this function.
__attribute__((visibility("default"))) const char *ptxmmEmulatorReport(void);

#endif
