/* Counts every call that asks the disk to keep something, and can make each one slower.
 *
 *   LD_PRELOAD=slowsync.so SLOWSYNC_COUNTS=FILE [SLOWSYNC_DELAY_US=1000] program …
 *
 * FILE is mapped shared, so one file sums a whole process tree and keeps its numbers when a
 * process is killed. It holds seven native 64-bit words: a mark that the shim was loaded, then
 * fsync, fdatasync, sync_file_range, msync(MS_SYNC), syncfs, and the microseconds added.
 * The delay comes after the real call: the disk has the bytes, the caller only learns it later.
 * Not seen: statically linked programs, io_uring, O_SYNC and O_DSYNC descriptors.
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

enum { LOADED, FSYNC, FDATASYNC, SYNC_FILE_RANGE, MSYNC, SYNCFS, ADDED_US, WORDS };

static uint64_t private_words[WORDS];
static uint64_t *words = private_words;
static long delay_us;

static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_sync_file_range)(int, off64_t, off64_t, unsigned int);
static int (*real_msync)(void *, size_t, int);
static int (*real_syncfs)(int);

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("SLOWSYNC_COUNTS");
    const char *delay = getenv("SLOWSYNC_DELAY_US");
    if (delay) delay_us = strtol(delay, NULL, 10);
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_sync_file_range = dlsym(RTLD_NEXT, "sync_file_range");
    real_msync = dlsym(RTLD_NEXT, "msync");
    real_syncfs = dlsym(RTLD_NEXT, "syncfs");
    if (path && *path) {
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        if (fd >= 0) {
            if (lseek(fd, 0, SEEK_END) >= (off_t)sizeof private_words ||
                ftruncate(fd, sizeof private_words) == 0) {
                void *shared = mmap(NULL, sizeof private_words, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
                if (shared != MAP_FAILED) words = shared;
            }
            close(fd);
        }
    }
    __atomic_add_fetch(&words[LOADED], 1, __ATOMIC_RELAXED);
}

static int counted(int kind, int result) {
    int kept = errno;
    __atomic_add_fetch(&words[kind], 1, __ATOMIC_RELAXED);
    if (delay_us > 0) {
        struct timespec pause = {delay_us / 1000000, delay_us % 1000000 * 1000};
        while (clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, &pause) == EINTR) {
        }
        __atomic_add_fetch(&words[ADDED_US], (uint64_t)delay_us, __ATOMIC_RELAXED);
    }
    errno = kept;
    return result;
}

int fsync(int fd) { return counted(FSYNC, real_fsync(fd)); }

int fdatasync(int fd) { return counted(FDATASYNC, real_fdatasync(fd)); }

int sync_file_range(int fd, off64_t offset, off64_t bytes, unsigned int flags) {
    return counted(SYNC_FILE_RANGE, real_sync_file_range(fd, offset, bytes, flags));
}

int msync(void *start, size_t length, int flags) {
    int result = real_msync(start, length, flags);
    return flags & MS_SYNC ? counted(MSYNC, result) : result;
}

int syncfs(int fd) { return counted(SYNCFS, real_syncfs(fd)); }
