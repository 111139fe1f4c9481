/* SPDX-License-Identifier: GPL-2.0 */
#ifndef PROOF_H
#define PROOF_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PR_SET_ASYNC_FORK	0x41464b00
#define PR_GET_ASYNC_FORK	0x41464b01
#define PR_ASYNC_FORK_INHERIT	0x10000
#define PR_SET_ON_DEMAND_FORK	0x4f444600
#ifndef MADV_HWPOISON
#define MADV_HWPOISON		100
#endif
#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE	101
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE		25
#endif

#define PAGE	4096ul
#define TABLE	(512 * PAGE)
#define COPY	(512ul << 20)

struct shared {
	int failures, expect_kill, done;
	char text[256], note[128];
	unsigned long words[64];
	char copy[COPY];
};

struct scene {
	char *at;
	size_t size;
	pid_t child;		/* 0: this is the child */
	int child_may_die;
	int fd;
	void *more;
};

struct test {
	const char *name;
	void (*act)(struct scene *);
	void (*before)(struct scene *);	/* before the region is filled */
	void (*filled)(struct scene *);	/* between that and fork() */
	void (*whole)(const struct test *);	/* instead of all that */
	size_t size;
	int huge;
	const char *only;		/* for one mode */
};

struct mutant {
	const char *name, *test;
	unsigned int skip;
	int reversed;
};

extern const struct test tests[];
extern const struct mutant mutants_async[], mutants_odf[];
extern struct shared *shared;
extern const char *debugfs;

/* What fails is told once; a check that fails ends the process. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define CHECK(condition, ...)			\
do {						\
	if (!(condition)) {			\
		fail(__VA_ARGS__);		\
		_exit(1);			\
	}					\
} while (0)

void knob(const char *name, unsigned long value);
long vmstat(const char *name);
/* How many tasks wait in the kernel where a knob holds them? */
int waiting(void);
void wait_for_waiting(void);
/* A case that this kernel cannot show. */
void skipped(const char *why);
void choose_fork(void);
uint64_t any(uint64_t below);
void seed(uint64_t value);
char *region(size_t size, int huge);
void witness(const char *at, size_t size, const char *who);
int status_of(pid_t pid);
int inject(long nth);
int injects(void);
void errors(const void *none, long on_demand);
int run_alone(void (*body)(const void *, long), const void *what, long how, int seconds);
int random_for(int seconds, uint64_t first);
void big(const void *none, long mebibytes);

#endif
