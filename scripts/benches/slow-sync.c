/* A slow disk: each sync takes SLOW_SYNC_US microseconds more. Servers start with it (LD_PRELOAD). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

static long delay_us;
static int (*real_sync)(int);
static int (*real_data_sync)(int);

__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("SLOW_SYNC_US");
    delay_us = text ? atol(text) : 0;
    real_sync = dlsym(RTLD_NEXT, "fsync");
    real_data_sync = dlsym(RTLD_NEXT, "fdatasync");
}

static void wait_for_disk(void)
{
    struct timespec left = {delay_us / 1000000, delay_us % 1000000 * 1000};
    while (nanosleep(&left, &left) == -1 && errno == EINTR)
        ;
}

int fsync(int file)
{
    wait_for_disk();
    return real_sync(file);
}

int fdatasync(int file)
{
    wait_for_disk();
    return real_data_sync(file);
}
