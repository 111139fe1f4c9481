// SPDX-License-Identifier: GPL-2.0
/* Everything at once: random changes by several threads, several children at a time. */
#include "proof.h"

/* The region is a row of slots, which are mapped or not. */
#define SLOT	(16 * PAGE)
#define SLOTS	1024			/* 64 MiB */
#define SIZE	(SLOTS * SLOT)
#define COPIES	4

static char *at, *spare;
static uint8_t mapped[SLOTS];
/* Held for writing by what changes `mapped` or leaves pages undefined for a while. */
static pthread_rwlock_t layout = PTHREAD_RWLOCK_INITIALIZER;
static int stop;

static unsigned int roll(unsigned int *seed, unsigned int below)
{
	*seed = *seed * 1103515245 + 12345;
	return (*seed >> 8) % below;
}

static void scribble(unsigned int *seed, int pages)
{
	unsigned int slot = roll(seed, SLOTS);

	while (pages-- > 0) {
		if (mapped[slot])
			*(volatile uint64_t *)(at + slot * SLOT + roll(seed, 16) * PAGE +
					       8 * roll(seed, 512)) = *seed;
		slot = (slot + roll(seed, 40)) % SLOTS;
	}
}

static int run_of(unsigned int *seed, unsigned int *slot, int want)
{
	unsigned int n, length = 1 + (roll(seed, 4) ? roll(seed, 8) : roll(seed, 200));

	*slot = roll(seed, SLOTS);
	for (n = 0; n < length && *slot + n < SLOTS && mapped[*slot + n] == want; n++)
		;
	return n;
}

static void change_layout(unsigned int *seed)
{
	unsigned int slot, other, n;
	char *from;

	switch (roll(seed, 8)) {
	case 0:
	case 1:
		n = run_of(seed, &slot, 1);
		munmap(at + slot * SLOT, n * SLOT);
		memset(mapped + slot, 0, n);
		break;
	case 2:
	case 3:
	case 4:
		n = run_of(seed, &slot, 0);
		if (n && mmap(at + slot * SLOT, n * SLOT, PROT_READ | PROT_WRITE, MAP_PRIVATE |
			      MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED)
			memset(mapped + slot, 1, n);
		break;
	case 5:
		n = run_of(seed, &slot, 1);
		other = roll(seed, SLOTS);
		from = at + slot * SLOT;
		if (!n || other + n > SLOTS || (other < slot + n && slot < other + n))
			break;
		/* Pieces with different attributes do not move at once. */
		if (mremap(from, n * SLOT, n * SLOT, MREMAP_MAYMOVE | MREMAP_FIXED,
			   at + other * SLOT) == MAP_FAILED) {
			/* What was at the target may be gone. */
			mmap(at + other * SLOT, n * SLOT, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
			memset(mapped + other, 1, n);
			break;
		}
		memset(mapped + slot, 0, n);
		memset(mapped + other, 1, n);
		break;
	case 6:
		/* The pages are undefined until they are written again. */
		n = run_of(seed, &slot, 1);
		if (!n)
			break;
		madvise(at + slot * SLOT, n * SLOT, MADV_FREE);
		if (roll(seed, 2))
			madvise(at + slot * SLOT, n * SLOT, MADV_PAGEOUT);
		for (size_t i = 0; i < n * 16; i++)
			*(volatile uint64_t *)(at + slot * SLOT + i * PAGE) = *seed + i;
		break;
	case 7:
		n = run_of(seed, &slot, 1);
		mprotect(at + slot * SLOT, n * SLOT, PROT_READ);
		mprotect(at + slot * SLOT, n * SLOT, PROT_READ | PROT_WRITE);
		break;
	}
}

static void change(unsigned int *seed, int memory)
{
	unsigned int slot, n;
	uint64_t word = *seed;
	volatile char sum = 0;
	int fd;

	switch (roll(seed, 14)) {
	default:
		scribble(seed, 1 + roll(seed, 30));
		break;
	case 0:
		slot = roll(seed, SLOTS);
		if (mapped[slot])
			sum += at[slot * SLOT + roll(seed, SLOT)];
		break;
	case 1:
		n = run_of(seed, &slot, 1);
		madvise(at + slot * SLOT + PAGE, n ? n * SLOT - PAGE : 0, MADV_DONTNEED);
		break;
	case 2:
		n = run_of(seed, &slot, 1);
		madvise(at + slot * SLOT, n * SLOT, roll(seed, 3) ? MADV_COLD : MADV_PAGEOUT);
		break;
	case 3:
		slot = roll(seed, SLOTS);
		if (mapped[slot] && pwrite(memory, &word, 8, (uintptr_t)at + slot * SLOT + 64) != 8)
			fail("/proc/self/mem: %s", strerror(errno));
		break;
	case 4:
		slot = roll(seed, SLOTS) & ~31;
		madvise(at + slot * SLOT, TABLE, roll(seed, 2) ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
		if (roll(seed, 2))
			madvise(at + slot * SLOT, TABLE, MADV_COLLAPSE);
		break;
	case 5:
		if (roll(seed, 20))
			break;
		fd = open("/proc/sys/vm/compact_memory", O_WRONLY);
		if (fd >= 0 && write(fd, "1", 1) < 0)
			fail("compact_memory");
		close(fd);
		break;
	case 6:
		n = run_of(seed, &slot, 1);
		mlock(at + slot * SLOT, n * SLOT);
		munlock(at + slot * SLOT, n * SLOT);
		break;
	case 7:
		n = 1 + roll(seed, 64);
		munmap(spare, n * PAGE);
		mmap(spare, n * PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		break;
	}
}

static void changes(unsigned int *seed, int count)
{
	int memory = open("/proc/self/mem", O_RDWR);

	while (count-- > 0) {
		if (roll(seed, 6)) {
			pthread_rwlock_rdlock(&layout);
			change(seed, memory);
			pthread_rwlock_unlock(&layout);
		} else {
			pthread_rwlock_wrlock(&layout);
			change_layout(seed);
			pthread_rwlock_unlock(&layout);
		}
		if (!roll(seed, 40))
			usleep(roll(seed, 300));
	}
	close(memory);
}

static void *changer(void *seed)
{
	unsigned int state = (uintptr_t)seed;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		changes(&state, 1 + roll(&state, 30));
		usleep(roll(&state, 500));
	}
	return NULL;
}

static void compare(const char *copy, const char *who)
{
	unsigned char resident[16];

	for (int slot = 0; slot < SLOTS; slot++) {
		char *p = at + slot * SLOT;

		if (!mapped[slot]) {
			if (mincore(p, SLOT, resident) != -1)
				fail("%s: slot %d is mapped", who, slot);
		} else {
			for (size_t i = 0; i < SLOT; i += PAGE)
				if (memcmp(p + i, copy + slot * SLOT + i, PAGE)) {
					fail("%s: slot %d page %zu: is %lx, was %lx", who, slot,
					     i / PAGE, *(uint64_t *)(p + i),
					     *(uint64_t *)(copy + slot * SLOT + i));
					return;
				}
		}
	}
}

static void child(const char *copy, unsigned int seed)
{
	/* The threads are gone; one of them may have held it, in another life. */
	pthread_rwlock_init(&layout, NULL);
	if (!roll(&seed, 8))
		_exit(0);
	if (!roll(&seed, 3))
		usleep(roll(&seed, 20000));
	if (!roll(&seed, 4)) {
		pid_t grandchild = fork();

		if (!grandchild) {
			compare(copy, "a grandchild");
			_exit(0);
		}
		if (roll(&seed, 2)) {
			changes(&seed, 50);
			status_of(grandchild);
			_exit(0);
		}
		compare(copy, "a child that forked");
		status_of(grandchild);
		_exit(0);
	}
	compare(copy, "a child");
	changes(&seed, roll(&seed, 50));
	_exit(0);
}

static void round_of(const void *none, long first)
{
	unsigned int seed = first * 2654435761u;
	pthread_t threads[3];
	int forks = 4 + roll(&seed, 12), n = 1 + roll(&seed, 3), alive = 0;
	struct { pid_t pid; int killed; } children[COPIES] = { };

	at = mmap(NULL, SIZE + 2 * TABLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		  -1, 0);
	spare = mmap(NULL, TABLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(at != MAP_FAILED && spare != MAP_FAILED, "mmap");
	/* Not always in step with page tables. */
	at = (char *)(((uintptr_t)at + TABLE - 1) & ~(TABLE - 1)) + (roll(&seed, 2) ? 0 : 5 * PAGE);
	memset(mapped, 1, SLOTS);
	for (size_t i = 0; i < SIZE; i += PAGE)
		if (roll(&seed, 10))
			*(uint64_t *)(at + i) = i + seed;
	choose_fork();
	knob("delay_us", (unsigned int[]){ 0, 0, 50, 300, 2000 }[roll(&seed, 5)]);
	/* A stack must not come to lie where another thread has made a hole. */
	pthread_rwlock_wrlock(&layout);
	for (int i = 0; i < n; i++)
		pthread_create(&threads[i], NULL, changer, (void *)(uintptr_t)(seed + i));
	pthread_rwlock_unlock(&layout);
	for (int i = 0; i < forks; i++) {
		char *copy = shared->copy + (i % COPIES) * SIZE;
		int turn = i % COPIES, status;

		if (children[turn].pid) {
			status = status_of(children[turn].pid);
			if (status && !children[turn].killed)
				fail("a child ended with status %x", status);
			alive--;
		}
		pthread_rwlock_wrlock(&layout);
		for (int slot = 0; slot < SLOTS; slot++)
			if (mapped[slot])
				memcpy(copy + slot * SLOT, at + slot * SLOT, SLOT);
		children[turn].killed = 0;
		children[turn].pid = fork();
		if (!children[turn].pid)
			child(copy, seed + i);
		pthread_rwlock_unlock(&layout);
		CHECK(children[turn].pid > 0, "fork: %s", strerror(errno));
		shared->words[0]++;
		alive++;
		usleep(roll(&seed, 8000));
		if (!roll(&seed, 6)) {
			children[turn].killed = 1;
			kill(children[turn].pid, SIGKILL);
		}
		/* Now and then the parent ends in the middle. */
		if (!roll(&seed, 60))
			_exit(0);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	for (int turn = 0; turn < COPIES; turn++)
		if (children[turn].pid) {
			int status = status_of(children[turn].pid);

			if (status && !children[turn].killed)
				fail("a child ended with status %x", status);
		}
}

int random_for(int seconds, uint64_t first)
{
	time_t end = time(NULL) + seconds;
	uint64_t now = first;

	shared->words[0] = 0;
	for (; time(NULL) < end; now++)
		if (run_alone(round_of, NULL, now, 120)) {
			printf("seed %llu: %s\n", (unsigned long long)now, shared->text);
			return 1;
		}
	knob("delay_us", 0);
	printf("%llu rounds from seed %llu, %lu forks\n", (unsigned long long)(now - first),
	       (unsigned long long)first, shared->words[0]);
	return 0;
}

/* Many pages: page i holds a number made of i and of how often it was written. */
static uint64_t *pages;
static long count;

static uint64_t value(long i, unsigned char version)
{
	return i * 0x9e3779b97f4a7c15ull + version;
}

static void *write_pages(void *seed)
{
	unsigned int state = (uintptr_t)seed;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		/* Each thread has a third of the pages to itself. */
		long i = (((long)roll(&state, 1 << 20) << 10 | roll(&state, 1024)) % (count / 3)) * 3
			 + (uintptr_t)seed % 3;

		pthread_rwlock_rdlock(&layout);
		pages[i * (PAGE / 8)] = value(i, ++shared->copy[i]);
		pthread_rwlock_unlock(&layout);
	}
	return NULL;
}

void big(const void *none, long mebibytes)
{
	pthread_t threads[3];
	unsigned char *versions;

	count = mebibytes * 256;
	CHECK(2 * count < (long)COPY, "too large");
	versions = (unsigned char *)shared->copy + COPY / 2;
	pages = (void *)region(mebibytes << 20, 0);
	for (long i = 0; i < count; i++) {
		shared->copy[i] = 0;
		pages[i * (PAGE / 8)] = value(i, 0);
	}
	choose_fork();
	for (long i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, write_pages, (void *)(i + 3000));
	for (int round = 0; round < 3; round++) {
		struct timespec a, b;
		int status;
		pid_t pid;

		usleep(100000);
		pthread_rwlock_wrlock(&layout);
		memcpy(versions, shared->copy, count);
		clock_gettime(CLOCK_MONOTONIC, &a);
		pid = fork();
		if (!pid) {
			for (long i = 0; i < count; i++)
				CHECK(pages[i * (PAGE / 8)] == value(i, versions[i]),
				      "page %ld of %ld", i, count);
			_exit(0);
		}
		clock_gettime(CLOCK_MONOTONIC, &b);
		pthread_rwlock_unlock(&layout);
		printf("fork of %ld pages: %ld us\n", count,
		       (b.tv_sec - a.tv_sec) * 1000000 + (b.tv_nsec - a.tv_nsec) / 1000);
		status = status_of(pid);
		CHECK(!status, "the child ended with status %x", status);
	}
	_exit(0);
}

/* Out of memory, by Linux's fault injection, at each allocation in turn. */
int inject(long nth)
{
	/* Opened once: while a failure is due, opening it would be what fails. */
	static int fd = -1;
	char text[32];
	int n, left;

	if (fd < 0)
		fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0, "fail-nth: %s", strerror(errno));
	n = pread(fd, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = 0;
	left = atoi(text);
	n = snprintf(text, sizeof(text), "%ld", nth);
	CHECK(pwrite(fd, text, n, 0) == n, "fail-nth: %s", strerror(errno));
	return left;
}

static void set(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	CHECK(fd >= 0 && write(fd, text, strlen(text)) > 0, "%s: %s", path, strerror(errno));
	close(fd);
}

/* Can the kernel make allocations fail? */
int injects(void)
{
	if (access("/proc/thread-self/fail-nth", F_OK))
		return 0;
	set("/sys/kernel/debug/fail_page_alloc/min-order", "0");
	set("/sys/kernel/debug/fail_page_alloc/ignore-gfp-wait", "N");
	set("/sys/kernel/debug/fail_page_alloc/verbose", "0");
	set("/sys/kernel/debug/failslab/ignore-gfp-wait", "N");
	set("/sys/kernel/debug/failslab/verbose", "0");
	return 1;
}

void errors(const void *none, long on_demand)
{
	const size_t size = 8 * TABLE;
	int failed[3] = { }, passed[3] = { };
	long refused = vmstat("odf_fail");
	char *region_at;

	if (!injects()) {
		printf("SKIPPED: the kernel has no fault injection\n");
		_exit(0);
	}
	region_at = region(size, 0);
	choose_fork();
	inject(0);
	for (int phase = 0; phase < 3; phase++)
		for (long nth = 1; nth < 2000; nth++) {
			int left = 0, status;
			pid_t pid;

			if (phase == 1)
				knob("fail_nth", nth);
			if (phase == 2)
				knob("hold", 1);
			memcpy(shared->copy, region_at, size);
			if (phase == 0)
				inject(nth);
			pid = fork();
			if (!pid) {
				witness(region_at, size, "the child");
				_exit(0);
			}
			if (phase == 0)
				left = inject(0);
			if (phase == 2) {
				inject(nth);
				for (char *p = region_at; p < region_at + size; p += TABLE)
					*(volatile uint64_t *)(p + nth % 512 * PAGE) += 1;
				left = inject(0);
				knob("hold", 0);
			}
			if (pid > 0) {
				status = status_of(pid);
				CHECK(!status || (phase && status == SIGKILL),
				      "phase %d: child ended with status %x", phase, status);
				status ? failed[phase]++ : passed[phase]++;
			} else {
				CHECK(errno == ENOMEM, "fork: %s", strerror(errno));
				failed[phase]++;
			}
			if (phase == 1)
				knob("fail_nth", 0);
			if (phase != 2)
				witness(region_at, size, "the parent");
			/* All pages of the parent can be written, none is left with a mark. */
			for (size_t i = 0; i < size; i += PAGE)
				*(volatile uint64_t *)(region_at + i) += nth;
			if (left || (phase == 1 && nth > 40))
				break;
		}
	printf("failed in fork() %d, in the child %d, in the parent %d; passed %d, %d, %d\n",
	       failed[0], failed[1], failed[2], passed[0], passed[1], passed[2]);
	CHECK(failed[0], "nothing failed in fork()");
	if (on_demand) {
		/* A fault that cannot copy a table comes again. */
		refused = vmstat("odf_fail") - refused;
		printf("copies of a table that failed, and came again: %ld\n", refused);
		CHECK(refused, "no copy of a table failed");
	} else {
		CHECK(failed[1] && failed[2], "nothing failed in a child or a parent");
	}
}
