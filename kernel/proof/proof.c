// SPDX-License-Identifier: GPL-2.0
/*
 * The proof of Async-fork and On-Demand-Fork: after fork() the child sees the memory as it was,
 * whatever the parent does, and the other way round.
 *
 *   proof MODE cases [NAME]	each case alone, the child held in the kernel before it copies
 *   proof MODE mutants [NUMBER]	each checkpoint left out: a case must fail. On-Demand-Fork's need a guest each:
 *				the kernel may not survive
 *   proof MODE errors		out of memory in fork(), in the child, in the parent
 *   proof MODE random SECONDS [SEED]
 *   proof MODE big MEBIBYTES	many pages, writers in several threads
 * MODE is async, async:THREADS, odf, or plain. Exits with 0 if all is well.
 *
 * A case has an actor, which changes its memory, and a witness, which compares what it sees with a
 * copy taken before the fork. The copy lies in shared memory, which fork() does not copy.
 */
#include "proof.h"

struct shared *shared;
const char *debugfs = "";
static int threads = 1, on_demand;

void fail(const char *format, ...)
{
	va_list list;

	if (__atomic_fetch_add(&shared->failures, 1, __ATOMIC_SEQ_CST))
		return;
	va_start(list, format);
	vsnprintf(shared->text, sizeof(shared->text), format, list);
	va_end(list);
}

void knob(const char *name, unsigned long value)
{
	char path[128], text[32];
	int fd, n = snprintf(text, sizeof(text), "%lu", value);

	if (!*debugfs)
		return;
	snprintf(path, sizeof(path), "%s/%s", debugfs, name);
	fd = open(path, O_WRONLY);
	/* Each series has knobs that the other has not. */
	if (fd < 0 && errno == ENOENT)
		return;
	CHECK(fd >= 0 && write(fd, text, n) == n, "%s: %s", path, strerror(errno));
	close(fd);
}

long vmstat(const char *name)
{
	char line[128];
	size_t n = strlen(name);
	long value = -1;
	FILE *f = fopen("/proc/vmstat", "r");

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, n) && line[n] == ' ')
			value = atol(line + n);
	if (f)
		fclose(f);
	return value;
}

int waiting(void)
{
	char path[128], digit;
	int fd;

	snprintf(path, sizeof(path), "%s/waiting", debugfs);
	fd = open(path, O_RDONLY);
	CHECK(fd >= 0 && read(fd, &digit, 1) == 1, "%s: %s", path, strerror(errno));
	close(fd);
	return digit - '0';
}

void wait_for_waiting(void)
{
	while (!waiting())
		usleep(1000);
}

void skipped(const char *why)
{
	snprintf(shared->note, sizeof(shared->note), " (SKIPPED: %s)", why);
}

/* From here on the process forks the way that is on trial. */
void choose_fork(void)
{
	if (on_demand)
		CHECK(!prctl(PR_SET_ON_DEMAND_FORK, 1, 0, 0, 0), "prctl: %s", strerror(errno));
	else if (threads)
		CHECK(!prctl(PR_SET_ASYNC_FORK, threads, 0, 0, 0), "prctl: %s", strerror(errno));
}

static uint64_t state = 88172645463325252ull;

uint64_t any(uint64_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state >> 11) % below;
}

void seed(uint64_t value)
{
	state = value * 0x9e3779b97f4a7c15ull + 88172645463325252ull;
}

/* A region of whole page tables, of small pages unless @huge, filled, and its copy. */
char *region(size_t size, int huge)
{
	char *at = mmap(NULL, size + 2 * TABLE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *aligned = (char *)(((uintptr_t)at + TABLE - 1) & ~(TABLE - 1));

	CHECK(at != MAP_FAILED, "mmap: %s", strerror(errno));
	munmap(at, aligned - at);
	munmap(aligned + size, at + 2 * TABLE - aligned);
	madvise(aligned, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	for (size_t i = 0; i < size; i += PAGE)
		*(uint64_t *)(aligned + i) = i * 2654435761u + 1;
	if (size <= COPY)
		memcpy(shared->copy, aligned, size);
	return aligned;
}

void witness(const char *at, size_t size, const char *who)
{
	for (size_t i = 0; i < size; i += PAGE)
		if (memcmp(at + i, shared->copy + i, PAGE)) {
			fail("%s: page %zu of %zu: is %lx, was %lx", who, i / PAGE, size / PAGE,
			     *(uint64_t *)(at + i), *(uint64_t *)(shared->copy + i));
			return;
		}
}

int status_of(pid_t pid)
{
	int status = -1;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

/* One case: the actor is the parent or, with @reversed, the child. */
static void play(const struct test *test, int reversed)
{
	size_t size = test->size ? test->size : 16 * TABLE;
	struct scene scene = { .size = size, .child = 0 };
	int go[2], status;
	char byte;

	alarm(0);
	if (test->before)
		test->before(&scene);
	scene.at = region(size, test->huge);
	if (test->filled)
		test->filled(&scene);
	CHECK(!pipe(go), "pipe");
	choose_fork();
	knob("hold", !reversed);
	scene.child = fork();
	CHECK(scene.child >= 0, "fork: %s", strerror(errno));
	if (!scene.child) {
		close(go[1]);
		if (reversed) {
			test->act(&scene);
		} else {
			if (read(go[0], &byte, 1) < 0)
				fail("read");
			witness(scene.at, size, "the child");
		}
		_exit(0);
	}
	close(go[0]);
	if (!reversed)
		test->act(&scene);
	knob("hold", 0);
	close(go[1]);
	status = status_of(scene.child);
	if (!scene.child_may_die && status)
		fail("the child ended with status %x", status);
	if (reversed)
		witness(scene.at, size, "the parent");
	_exit(0);
}

/* What the kernel complained of since the last call counts as a failure. */
static void kernel_complains(void)
{
	static int fd = -1;
	char line[1024];
	int n, first = fd < 0;

	if (first) {
		fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
		if (fd >= 0)
			lseek(fd, 0, SEEK_END);
	}
	while (fd >= 0 && ((n = read(fd, line, sizeof(line) - 1)) > 0 || errno == EPIPE)) {
		if (n <= 0)
			continue;
		line[n] = 0;
		line[strcspn(line, "\n")] = 0;
		/* Races of data are judged at the guest's end, by where they are. */
		if (strstr(line, "KCSAN"))
			continue;
		if (strstr(line, "BUG") || strstr(line, "WARNING") || strstr(line, "INFO: task") ||
		    strstr(line, "Oops") || strstr(line, "possible"))
			fail("the kernel says: %.200s", strchr(line, ';') ? strchr(line, ';') + 1 : line);
	}
}

static void release_all(void)
{
	knob("hold", 0);
	knob("hold_fork", 0);
	knob("hold_alloc", 0);
	knob("hold_copy", 0);
	knob("hold_helpers", 0);
	knob("hold_install", 0);
	knob("hold_migrate", 0);
}

/* Runs @body in a process of its own, which a minute must suffice for. Returns failures. */
int run_alone(void (*body)(const void *, long), const void *what, long how, int seconds)
{
	pid_t pid;
	int status = -1, waited;

	kernel_complains();
	shared->failures = 0;
	shared->text[0] = 0;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		setpgid(0, 0);
		body(what, how);
		_exit(0);
	}
	for (waited = 0; waitpid(pid, &status, WNOHANG) == 0; waited++) {
		if (waited > seconds * 1000) {
			fail("hangs");
			release_all();
			kill(-pid, SIGKILL);
			status_of(pid);
			return shared->failures;
		}
		usleep(1000);
	}
	release_all();
	if (shared->expect_kill) {
		/* The witness goes on when the actor is dead. */
		for (waited = 0; !__atomic_load_n(&shared->done, __ATOMIC_SEQ_CST); waited++) {
			if (waited > seconds * 1000) {
				fail("no witness");
				break;
			}
			usleep(1000);
		}
		shared->expect_kill = shared->done = 0;
	} else if (status) {
		fail("ended with status %x", status);
	}
	kill(-pid, SIGKILL);
	kernel_complains();
	return shared->failures;
}

static void body(const void *test, long reversed)
{
	play(test, reversed);
}

static int run_case(const struct test *test, int reversed)
{
	memset(shared->words, 0, sizeof(shared->words));
	return test->whole ? run_alone((void *)test->whole, test, reversed, 60)
			   : run_alone(body, test, reversed, 60);
}

static int cases(const char *only)
{
	int bad = 0;

	for (const struct test *test = tests; test->name; test++)
		for (int reversed = 0; reversed < (test->whole ? 1 : 2); reversed++) {
			if (only && strcmp(only, test->name))
				continue;
			if (test->only && strcmp(test->only, on_demand ? "odf" : threads ? "async" : "plain"))
				continue;
			int failed = run_case(test, reversed);

			printf("%-4s %s%s%s%s\n", failed ? "BAD" : "ok", test->name,
			       reversed ? ", by the child" : "", failed ? ": " : "",
			       failed ? shared->text : shared->note);
			shared->note[0] = 0;
			bad += !!failed;
		}
	return bad;
}

static int mutants(const char *number)
{
	const struct mutant *all = on_demand ? mutants_odf : mutants_async, *mutant;
	int bad = 0;

	for (mutant = all; mutant->test; mutant++) {
		const struct test *test = tests;
		int failed;

		if (number && mutant - all != atol(number))
			continue;

		while (strcmp(test->name, mutant->test))
			test++;
		knob("skip", mutant->skip);
		shared->note[0] = 0;
		failed = run_case(test, mutant->reversed);
		knob("skip", 0);
		if (strstr(shared->note, "SKIPPED")) {
			printf("--   without %s, mutant %ld: %s%s\n", mutant->name,
			       (long)(mutant - all), mutant->test, shared->note);
			shared->note[0] = 0;
			continue;
		}
		printf("%-4s without %s, mutant %ld: %s %s (%s)\n", failed ? "ok" : "BAD", mutant->name,
		       (long)(mutant - all), mutant->test, failed ? "fails" : "PASSES", shared->text);
		bad += !failed;
	}
	return bad;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[1] : "", *what = argc > 2 ? argv[2] : "";
	int bad = 2;

	setvbuf(stdout, NULL, _IOLBF, 0);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!strncmp(mode, "async", 5)) {
		debugfs = "/sys/kernel/debug/async_fork";
		threads = mode[5] == ':' ? atoi(mode + 6) : 1;
	} else if (!strcmp(mode, "odf")) {
		debugfs = "/sys/kernel/debug/on_demand_fork";
		on_demand = 1;
	} else {
		threads = 0;
	}
	if (*debugfs && access(debugfs, F_OK))
		debugfs = "";
	if (!strcmp(what, "cases"))
		bad = cases(argc > 3 ? argv[3] : NULL);
	else if (!strcmp(what, "mutants") && *debugfs)
		bad = mutants(argc > 3 ? argv[3] : NULL);
	else if (!strcmp(what, "errors"))
		bad = run_alone((void *)errors, NULL, on_demand, 500);
	else if (!strcmp(what, "random") && argc > 3)
		bad = random_for(atoi(argv[3]), argc > 4 ? strtoull(argv[4], NULL, 0) : time(NULL));
	else if (!strcmp(what, "big") && argc > 3)
		bad = run_alone((void *)big, NULL, atol(argv[3]), 500);
	else
		fprintf(stderr, "usage: see the head of proof.c\n");
	if (*shared->text && strcmp(what, "mutants"))
		printf("%s\n", shared->text);
	printf("proof %s %s: %s\n", mode, what, bad ? "FAILED" : "ok");
	return bad ? 1 : 0;
}
