// SPDX-License-Identifier: GPL-2.0
/* Prints the rate of this machine's time stamp counter in kHz. QEMU without KVM shows it to guests. */
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

int main(void)
{
	double start = now(), ms;
	unsigned long long ticks = __rdtsc();

	while ((ms = now() - start) < 200)
		;
	printf("%.0f\n", (__rdtsc() - ticks) / ms);
	return 0;
}
