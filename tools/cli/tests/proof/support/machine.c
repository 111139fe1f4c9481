/* Faults of the machine below a server, which it is started with (LD_PRELOAD). A file that the
 * test writes, mapped, says what happens:
 *   clock   nanoseconds by which the clock of the day is wrong
 *   syncs   calls of fsync and fdatasync that fail from now on
 *   failed  calls that have failed
 *   held    calls wait while it is not 0
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct faults {
    int64_t clock;
    int64_t syncs;
    int64_t failed;
    int64_t held;
};

static struct faults none;
static struct faults *faults = &none;
static int (*real_time)(clockid_t, struct timespec *);
static int (*real_sync)(int);
static int (*real_data_sync)(int);

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("STILLFRAME_FAULTS");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    real_time = dlsym(RTLD_NEXT, "clock_gettime");
    real_sync = dlsym(RTLD_NEXT, "fsync");
    real_data_sync = dlsym(RTLD_NEXT, "fdatasync");
    if (file < 0)
        return;
    void *map = mmap(NULL, sizeof *faults, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (map != MAP_FAILED)
        faults = map;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (!real_time)
        begin();
    int result = real_time(clock, time);
    int64_t wrong = __atomic_load_n(&faults->clock, __ATOMIC_RELAXED);
    if (result == 0 && clock == CLOCK_REALTIME && wrong != 0) {
        int64_t now = (int64_t)time->tv_sec * 1000000000 + time->tv_nsec + wrong;
        time->tv_sec = now / 1000000000;
        time->tv_nsec = now % 1000000000;
    }
    return result;
}

static int fails(void)
{
    struct timespec pause = {0, 1000000};
    while (__atomic_load_n(&faults->held, __ATOMIC_RELAXED) != 0)
        nanosleep(&pause, NULL);
    int64_t left = __atomic_load_n(&faults->syncs, __ATOMIC_RELAXED);
    while (left > 0) {
        if (__atomic_compare_exchange_n(&faults->syncs, &left, left - 1, 0, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
            __atomic_fetch_add(&faults->failed, 1, __ATOMIC_RELAXED);
            errno = EIO;
            return 1;
        }
    }
    return 0;
}

int fsync(int file)
{
    return fails() ? -1 : real_sync(file);
}

int fdatasync(int file)
{
    return fails() ? -1 : real_data_sync(file);
}
