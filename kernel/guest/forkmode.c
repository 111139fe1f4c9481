// SPDX-License-Identifier: GPL-2.0
/*
 * Runs a program that forks in another way:   forkmode async[:THREADS]|odf|plain PROGRAM [ARGUMENT]...
 * The program need not know of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define PR_SET_ASYNC_FORK	0x41464b00
#define PR_SET_ON_DEMAND_FORK	0x4f444600

int main(int argc, char **argv)
{
	unsigned long threads = 1;
	int error = 0;

	if (argc < 3) {
		fprintf(stderr, "usage: forkmode async[:THREADS]|odf|plain PROGRAM [ARGUMENT]...\n");
		return 2;
	}
	if (!strncmp(argv[1], "async", 5)) {
		if (argv[1][5] == ':')
			threads = strtoul(argv[1] + 6, NULL, 10);
		error = prctl(PR_SET_ASYNC_FORK, threads, 0, 0, 0);
	} else if (!strcmp(argv[1], "odf")) {
		error = prctl(PR_SET_ON_DEMAND_FORK, 1, 0, 0, 0);
	} else {
		/* Against what its cgroup says, if the kernel knows of it at all. */
		prctl(PR_SET_ASYNC_FORK, 0, 0, 0, 0);
	}
	if (error) {
		perror("forkmode: this kernel cannot");
		return 1;
	}
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 127;
}
