/* Processor time and percentiles: the figures about the figures. */
#define _GNU_SOURCE
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

double ownSeconds(void) { return seconds(CLOCK_PROCESS_CPUTIME_ID); }

double threadSeconds(void) { return seconds(CLOCK_THREAD_CPUTIME_ID); }

/* The clock of another process counts in nanoseconds, with threads that have ended. */
static double processSeconds(int pid) {
    clockid_t clock;
    struct timespec t;
    if (!pid || clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t)) return -1;
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

double serverSeconds(void) {
    double near = processSeconds(opt.serverPid), far = processSeconds(opt.farPid);
    return near < 0 || !opt.farPid ? near : far < 0 ? -1 : near + far;
}

double settledSeconds(void) {
    double last = serverSeconds();
    for (int i = 0, idle = 0; i < 100 && idle < 4; i++) {
        usleep(50000);
        double time = serverSeconds();
        idle = time - last < 0.001 ? idle + 1 : 0;
        last = time;
    }
    return last;
}

double share(double before, double after, double wall) {
    return before < 0 || after < 0 || wall <= 0 ? -1 : (after - before) / wall;
}

static int compare(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;
    return (x > y) - (x < y);
}

void sortSamples(uint32_t *samples, long count) { qsort(samples, (size_t) count, sizeof *samples, compare); }

double microseconds(const uint32_t *sorted, long count, double quantile) {
    if (!count) return -1;
    long place = (long) ((double) count * quantile);
    return sorted[place < count ? place : count - 1] / 100.0;
}
