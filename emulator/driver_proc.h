// Between driver_proc.c, which must not see cuda.h, and the rest of the driver.
#ifndef EMU_DRIVER_PROC_H
#define EMU_DRIVER_PROC_H

// Finds the entry point that `name` means for a program built against CUDA `version`; `thread` asks
// for the forms whose default stream is the thread's own. The numbers are those of
// CUdriverProcAddressQueryResult.
enum { ENTRY_FOUND, ENTRY_UNKNOWN, ENTRY_TOO_NEW };
int driver_entry(const char *name, int version, int thread, int (**symbol)(void));

// Notes in the report that a program called an entry point that is not implemented.
void driver_missing(const char *symbol);

#endif
