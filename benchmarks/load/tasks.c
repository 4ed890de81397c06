/* Tasks: clients that wait for answers, all in one thread, so that many in flight do not measure the scheduler. Each has a stack
 * of its own, so that what a client does can be read from top to bottom. */
#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <ucontext.h>

enum { STACK = 256 << 10 };

struct task {
    ucontext_t context;
    void (*run)(void *);
    void *argument, *stack;
    bool serves, ended;
};

static ucontext_t scheduler;
static struct task *current;
static int ready = -1, running; /* how many run that do not serve */

bool inTask(void) { return current; }

static void enterTask(void) {
    current->run(current->argument);
    current->ended = true; /* the scheduler goes on */
}

static void resume(struct task *task) {
    current = task;
    swapcontext(&scheduler, &task->context);
    current = NULL;
    if (!task->ended) return;
    if (!task->serves) running--;
    free(task->stack);
    free(task);
}

void startTask(void (*run)(void *), void *argument, bool serves) {
    struct task *task = obtain(sizeof *task);
    *task = (struct task){.run = run, .argument = argument, .stack = obtain(STACK), .serves = serves};
    if (getcontext(&task->context)) fail("getcontext: %s", strerror(errno));
    task->context.uc_stack.ss_sp = task->stack;
    task->context.uc_stack.ss_size = STACK;
    task->context.uc_link = &scheduler;
    makecontext(&task->context, enterTask, 0);
    if (!serves) running++;
    resume(task);
}

void awaitReadable(int fd) {
    /* One event for one wait: nothing is left of it when the task has ended. */
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = current};
    if (ready < 0) ready = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_ctl(ready, EPOLL_CTL_MOD, fd, &event) && (errno != ENOENT || epoll_ctl(ready, EPOLL_CTL_ADD, fd, &event)))
        fail("epoll_ctl: %s", strerror(errno));
    swapcontext(&current->context, &scheduler);
}

void awaitTasks(void) {
    struct epoll_event events[256];
    while (running) {
        int many = epoll_wait(ready, events, 256, opt.timeout * 1000);
        if (many < 0 && errno == EINTR) continue;
        if (many <= 0) fail("no answer within %d seconds", opt.timeout);
        for (int i = 0; i < many; i++) resume(events[i].data.ptr);
    }
}
