/* Preloaded into a scheduler and its keepers: a wall clock with an offset that a test moves (nanoseconds in a mapped
   file, FAULTS_CLOCK). Timers at absolute wall time follow it, and those that ask for it ring when it is set. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { TIMERS = 4096 };
static const int64_t SECOND = 1000000000;

static volatile int64_t *offset;
static struct {
    int armed;
    struct itimerspec wanted;
} timers[TIMERS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define NEXT(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

static struct timespec moved(struct timespec at, int64_t by) {
    int64_t whole = at.tv_sec * SECOND + at.tv_nsec + by;
    if (whole < 1) whole = 1;
    return (struct timespec){whole / SECOND, whole % SECOND};
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    int done = syscall(SYS_clock_gettime, clock, at);
    if (!done && clock == CLOCK_REALTIME && offset) *at = moved(*at, *offset);
    return done;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *at = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}

static int set(int file, int flags, const struct itimerspec *wanted, struct itimerspec *old) {
    struct itimerspec real = *wanted;
    if ((flags & TFD_TIMER_ABSTIME) && (wanted->it_value.tv_sec || wanted->it_value.tv_nsec))
        real.it_value = moved(wanted->it_value, offset ? -*offset : 0);
    return NEXT(timerfd_settime)(file, flags, &real, old);
}

int timerfd_settime(int file, int flags, const struct itimerspec *wanted, struct itimerspec *old) {
    pthread_mutex_lock(&lock);
    if (file >= 0 && file < TIMERS) {
        timers[file].armed = (flags & TFD_TIMER_CANCEL_ON_SET) != 0;
        timers[file].wanted = *wanted;
    }
    int done = set(file, flags, wanted, old);
    pthread_mutex_unlock(&lock);
    return done;
}

int close(int file) {
    if (file >= 0 && file < TIMERS) timers[file].armed = 0;
    return NEXT(close)(file);
}

static void *watch(void *unused) {
    int64_t seen = *offset;
    const struct timespec pause = {0, 2000000};
    const struct itimerspec now = {{0, 0}, {0, 1}};
    for (;;) {
        nanosleep(&pause, NULL);
        if (*offset == seen) continue;
        seen = *offset;
        pthread_mutex_lock(&lock);
        for (int file = 0; file < TIMERS; file++)
            if (timers[file].armed) NEXT(timerfd_settime)(file, 0, &now, NULL);
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULTS_CLOCK");
    int file = path ? syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    syscall(SYS_close, file);
    if (mapped == MAP_FAILED) return;
    offset = mapped;
    pthread_t thread;
    pthread_create(&thread, NULL, watch, NULL);
    pthread_detach(thread);
}
