// SPDX-License-Identifier: GPL-2.0
/*
 * What fork costs a process, without a server around it:
 *   forks async[:THREADS]|odf|plain MEBIBYTES REPEATS [WRITES_A_SECOND]
 * One line of JSON for each repeat: the time of fork() in the parent, of the same with the memory
 * left out (MADV_DONTFORK), until the child runs, and of the parent's writes in the second after it.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE	4096ul
#define BELOW	40

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* Time of fork() in the parent and until the child runs; the child stays for a while. */
static pid_t timed_fork(uint64_t *fork_ns, volatile uint64_t *ready)
{
	uint64_t start = now();
	pid_t child = fork();

	if (!child) {
		*ready = now();
		sleep(2);
		_exit(0);
	}
	*fork_ns = now() - start;
	return child;
}

int main(int argc, char **argv)
{
	size_t size = argc > 3 ? strtoul(argv[2], NULL, 10) << 20 : 0;
	int repeats = argc > 3 ? atoi(argv[3]) : 0, rate = argc > 4 ? atoi(argv[4]) : 2000;
	volatile uint64_t *ready = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
					MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t seed = 88172645463325252ull;
	char *memory;

	if (!size)
		return 2;
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; i < size; i += PAGE)
		*(uint64_t *)(memory + i) = i;
	if (!strncmp(argv[1], "async", 5) &&
	    prctl(0x41464b00, argv[1][5] ? strtoul(argv[1] + 6, NULL, 10) : 1ul, 0, 0, 0))
		return 3;
	if (!strcmp(argv[1], "odf") && prctl(0x4f444600, 1, 0, 0, 0))
		return 3;
	for (int repeat = 0; repeat < repeats; repeat++) {
		uint64_t without, with, start, end, slow[BELOW] = { 0 }, max = 0;
		long writes = 0;
		pid_t child;

		*ready = 0;
		madvise(memory, size, MADV_DONTFORK);
		child = timed_fork(&without, ready);
		kill(child, 9);
		waitpid(child, NULL, 0);
		madvise(memory, size, MADV_DOFORK);
		usleep(200000);
		*ready = 0;
		start = now();
		child = timed_fork(&with, ready);
		end = now() + 1000000000ull;
		for (uint64_t next = now(); next < end; next += 1000000000ull / rate) {
			uint64_t a, ns;
			struct timespec t = { next / 1000000000ull, next % 1000000000ull };

			clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
			seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
			a = now();
			*(volatile uint64_t *)(memory + (seed >> 11) % (size / PAGE) * PAGE) += 1;
			ns = now() - a;
			if (ns > max)
				max = ns;
			slow[ns ? 63 - __builtin_clzll(ns) : 0]++;
			writes++;
		}
		while (!*ready)
			usleep(100);
		printf("{\"mode\":\"%s\",\"mib\":%zu,\"fork_us\":%.1f,\"rest_us\":%.1f,\"child_us\":%.1f,"
		       "\"writes\":%ld,\"max_us\":%.1f,\"above_64us\":%ld}\n", argv[1], size >> 20,
		       with / 1e3, without / 1e3, (*ready - start) / 1e3, writes, max / 1e3,
		       (long)(slow[16] + slow[17] + slow[18] + slow[19] + slow[20] + slow[21] +
			      slow[22] + slow[23] + slow[24] + slow[25] + slow[26] + slow[27]));
		fflush(stdout);
		kill(child, 9);
		waitpid(child, NULL, 0);
	}
	return 0;
}
