/* Preloaded into a writer: logs every write, sync and change of a name below one folder, in order. Each prefix of the
   log is a power cut (disk.py rebuilds what the disk then held). Can also let the n-th such call fail. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { WRITE = 1, TRUNCATE, SYNC, CREATE, RENAME, UNLINK, LINK, SYNC_FOLDER };
enum { FILES = 4096 };

struct head {
    uint32_t kind, size;
    uint64_t inode;
    int64_t offset;
};

static char folder[1024];
static size_t folder_length;
static int log_file = -1;
static char tracked[FILES];
static long fail_after, passed;
static int fail_mask, fail_errno;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define NEXT(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

/* mask: bit per kind that may fail; after: the n-th of them (0: none). */
int recorder_arm(const char *path, const char *log, int mask, long after, int number) {
    snprintf(folder, sizeof folder, "%s/", path);
    folder_length = strlen(folder);
    log_file = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    fail_mask = mask, fail_after = after, fail_errno = number, passed = 0;
    return log_file;
}

static int below(const char *path) {
    return log_file >= 0 && (!strncmp(path, folder, folder_length) ||
                             (strlen(path) + 1 == folder_length && !strncmp(path, folder, folder_length - 1)));
}

static const char *name_of(const char *path) { return strlen(path) >= folder_length ? path + folder_length : ""; }

static int watched(int file) { return log_file >= 0 && file >= 0 && file < FILES && tracked[file]; }

static void note(enum kind kind, int file, int64_t offset, const void *data, size_t size) {
    struct stat found = {0};
    if (file >= 0) syscall(SYS_fstat, file, &found);
    struct head head = {kind, size, found.st_ino, offset};
    struct iovec parts[2] = {{&head, sizeof head}, {(void *)data, size}};
    syscall(SYS_writev, log_file, parts, 2);
}

static int fails(enum kind kind) {
    if (!fail_after || !(fail_mask >> kind & 1)) return 0;
    pthread_mutex_lock(&lock);
    long now = ++passed;
    pthread_mutex_unlock(&lock);
    if (now != fail_after) return 0;
    errno = fail_errno;
    return 1;
}

static int opened(int file, const char *path, int flags, int was_there) {
    if (file < 0 || file >= FILES || !below(path)) return file;
    tracked[file] = 1;
    if (!was_there) note(CREATE, file, 0, name_of(path), strlen(name_of(path)));
    else if (flags & O_TRUNC) note(TRUNCATE, file, 0, "", 0);
    return file;
}

#define OPEN(name)                                                              \
    int name(const char *path, int flags, ...) {                                \
        va_list rest;                                                           \
        va_start(rest, flags);                                                  \
        int mode = va_arg(rest, int), there = !syscall(SYS_access, path, F_OK); \
        va_end(rest);                                                           \
        return opened(NEXT(name)(path, flags, mode), path, flags, there);       \
    }
OPEN(open)
OPEN(open64)

int close(int file) {
    if (file >= 0 && file < FILES) tracked[file] = 0;
    return NEXT(close)(file);
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t offset) {
    if (!watched(file)) return NEXT(pwrite64)(file, data, size, offset);
    if (fails(WRITE)) return -1;
    note(WRITE, file, offset, data, size);
    return NEXT(pwrite64)(file, data, size, offset);
}

ssize_t write(int file, const void *data, size_t size) {
    if (!watched(file)) return NEXT(write)(file, data, size);
    if (fails(WRITE)) return -1;
    note(WRITE, file, syscall(SYS_lseek, file, 0, SEEK_CUR), data, size);
    return NEXT(write)(file, data, size);
}

int ftruncate64(int file, off64_t size) {
    if (watched(file) && fails(TRUNCATE)) return -1;
    if (watched(file)) note(TRUNCATE, file, size, "", 0);
    return NEXT(ftruncate64)(file, size);
}

static int synced(int file, int done) {
    struct stat found = {0};
    if (done || !watched(file)) return done;
    syscall(SYS_fstat, file, &found);
    note(S_ISDIR(found.st_mode) ? SYNC_FOLDER : SYNC, file, 0, "", 0);
    return 0;
}

/* The machine does not lose power here, so the real sync is left out: the log alone says what is durable. */
int fdatasync(int file) { return watched(file) && fails(SYNC) ? -1 : synced(file, 0); }
int fsync(int file) { return watched(file) && fails(SYNC) ? -1 : synced(file, 0); }

static void note_names(enum kind kind, int file, const char *from, const char *to) {
    char names[2048];
    int size = snprintf(names, sizeof names, "%s%c%s", name_of(from), 0, name_of(to));
    note(kind, file, 0, names, size);
}

int rename(const char *from, const char *to) {
    if (below(from)) note_names(RENAME, -1, from, to);
    return NEXT(rename)(from, to);
}

int link(const char *from, const char *to) {
    int done = NEXT(link)(from, to);
    if (!done && below(from)) note_names(LINK, -1, from, to);
    return done;
}

int unlink(const char *path) {
    if (below(path)) note(UNLINK, -1, 0, name_of(path), strlen(name_of(path)));
    return NEXT(unlink)(path);
}
