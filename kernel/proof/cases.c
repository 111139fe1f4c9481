// SPDX-License-Identifier: GPL-2.0
/* One thing at a time that changes page tables, and one case for each way a process can end. */
#include "proof.h"
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>

#define MOVE_FEATURE	(1 << 16)
struct move { uint64_t dst, src, len, mode, moved; };
#define NUMA		"/sys/kernel/debug/sched/numa_balancing/"
#define SCANS		"mm->numa_scan_seq"
#define UFFD_MOVE	_IOWR(UFFDIO, 0x05, struct move)

#define each_table(scene, p) \
	for (char *p = (scene)->at; p < (scene)->at + (scene)->size; p += TABLE)

static void put(char *p) { *(volatile uint64_t *)p = 0xdeadbeef; }

/* Writes to one page of each table, so that what was done before has an effect to be seen. */
static void write_some(struct scene *s)
{
	each_table(s, p)
		put(p + 7 * PAGE);
}

static void write_all(struct scene *s)
{
	for (size_t i = 0; i < s->size; i += PAGE)
		put(s->at + i);
}

static void make_holes(struct scene *s)
{
	each_table(s, p) {
		madvise(p + 16 * PAGE, 16 * PAGE, MADV_DONTNEED);
		memset(shared->copy + (p - s->at) + 16 * PAGE, 0, 16 * PAGE);
	}
}

static void fill_holes(struct scene *s)
{
	each_table(s, p)
		put(p + 20 * PAGE);
}

static void *write_thread(void *scene)
{
	write_all(scene);
	return NULL;
}

static void write_threads(struct scene *s)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, write_thread, s);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

static void advise(struct scene *s, int advice)
{
	CHECK(!madvise(s->at, s->size, advice) || errno == EAGAIN, "madvise %d: %s", advice,
	      strerror(errno));
}

static void dontneed(struct scene *s) { advise(s, MADV_DONTNEED); }
static void cold(struct scene *s) { advise(s, MADV_COLD); write_some(s); }
static void pageout(struct scene *s) { advise(s, MADV_PAGEOUT); write_some(s); }
static void swap_out(struct scene *s) { advise(s, MADV_PAGEOUT); }
static void huge_allowed(struct scene *s) { advise(s, MADV_HUGEPAGE); }
static void dont_fork(struct scene *s) { advise(s, MADV_DONTFORK); write_some(s); }
static void populate(struct scene *s) { advise(s, 23); write_some(s); }

static void dontneed_part(struct scene *s)
{
	each_table(s, p)
		madvise(p + 5 * PAGE, 40 * PAGE, MADV_DONTNEED);
}

static void lazyfree(struct scene *s)
{
	advise(s, MADV_FREE);
	advise(s, MADV_PAGEOUT);
}

static void lazyfree_part(struct scene *s)
{
	each_table(s, p) {
		madvise(p + 5 * PAGE, 40 * PAGE, MADV_FREE);
		madvise(p + 5 * PAGE, 40 * PAGE, MADV_PAGEOUT);
	}
}

static void swap_in_and_write(struct scene *s)
{
	volatile char sum = 0;

	each_table(s, p) {
		sum += p[3 * PAGE];
		put(p + 4 * PAGE);
		madvise(p + 8 * PAGE, 8 * PAGE, MADV_DONTNEED);
		madvise(p + 16 * PAGE, 8 * PAGE, MADV_FREE);
	}
}

static void collapse(struct scene *s)
{
	/* Pages that are shared, swapped or missing may forbid it. */
	madvise(s->at, s->size, MADV_COLLAPSE);
	write_some(s);
}

static void through_proc(struct scene *s)
{
	int fd = open("/proc/self/mem", O_RDWR);

	each_table(s, p)
		CHECK(pwrite(fd, "changed", 8, (uintptr_t)p) == 8, "mem: %s", strerror(errno));
	close(fd);
}

/* A process that writes to the memory of another when it is told. */
static void start_writer(struct scene *s)
{
	static int to[2], from[2];
	struct { pid_t pid; char *at; size_t size; } job;

	CHECK(!pipe(to) && !pipe(from), "pipe");
	s->more = to;
	s->fd = from[0];
	if (fork())
		return;
	while (read(to[0], &job, sizeof(job)) == sizeof(job)) {
		for (size_t i = 0; i < job.size; i += TABLE) {
			struct iovec here = { "written", 8 }, there = { job.at + i, 8 };

			CHECK(process_vm_writev(job.pid, &here, 1, &there, 1, 0) == 8,
			      "process_vm_writev: %s", strerror(errno));
		}
		CHECK(write(from[1], "", 1) == 1, "pipe");
	}
	_exit(0);
}

static void by_another(struct scene *s)
{
	struct { pid_t pid; char *at; size_t size; } job = { getpid(), s->at, s->size };
	char byte;

	CHECK(write(((int *)s->more)[1], &job, sizeof(job)) == sizeof(job), "pipe");
	CHECK(read(s->fd, &byte, 1) == 1, "pipe");
}

static void open_disk(struct scene *s)
{
	s->fd = open("/dev/ram0", O_RDONLY | O_DIRECT);
	CHECK(s->fd >= 0, "/dev/ram0: %s", strerror(errno));
}

static void read_direct(struct scene *s)
{
	each_table(s, p)
		CHECK(pread(s->fd, p + 8 * PAGE, PAGE, 0) == (long)PAGE, "O_DIRECT: %s",
		      strerror(errno));
}

static void open_ring(struct scene *s)
{
	static struct io_uring_params params;

	memset(&params, 0, sizeof(params));
	s->fd = syscall(SYS_io_uring_setup, 8, &params);
	CHECK(s->fd >= 0, "io_uring_setup: %s", strerror(errno));
	s->more = &params;
}

/* Pages registered with io_uring stay pinned: the kernel writes to them without a fault. */
static void register_pages(struct scene *s)
{
	struct iovec all = { s->at, s->size };

	open_ring(s);
	CHECK(!syscall(SYS_io_uring_register, s->fd, IORING_REGISTER_BUFFERS, &all, 1),
	      "io_uring_register: %s", strerror(errno));
}

static void read_fixed(struct scene *s)
{
	struct io_uring_params *p = s->more;
	int zero = open("/dev/zero", O_RDONLY);
	char *ring = mmap(NULL, p->sq_off.array + p->sq_entries * 4, PROT_READ | PROT_WRITE,
			  MAP_SHARED, s->fd, IORING_OFF_SQ_RING);
	struct io_uring_sqe *entry = mmap(NULL, p->sq_entries * sizeof(*entry),
					  PROT_READ | PROT_WRITE, MAP_SHARED, s->fd,
					  IORING_OFF_SQES);
	unsigned int *tail = (unsigned int *)(ring + p->sq_off.tail);
	unsigned int *array = (unsigned int *)(ring + p->sq_off.array);

	/* The ring is the parent's, and writes to the parent's pages. */
	if (!s->child)
		return;
	memset(entry, 0, sizeof(*entry));
	entry->opcode = IORING_OP_READ_FIXED;
	entry->fd = zero;
	entry->addr = (uintptr_t)s->at;
	entry->len = 4 * TABLE;
	array[*tail & (p->sq_entries - 1)] = 0;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	CHECK(syscall(SYS_io_uring_enter, s->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1,
	      "io_uring_enter: %s", strerror(errno));
	CHECK(!*(uint64_t *)s->at, "io_uring did not write");
}

/*
 * Pages that are pinned while fork() runs: it waits before it looks at the region, until another
 * thread has registered it. That thread writes to no memory that fork() has write-protected
 * already, or it would wait for fork(): its own stack lies above the region, which is mapped later.
 */
struct late_pin {
	int hold, ring;
	long result;
	struct iovec all;
	char digit, path[128];
};

static struct late_pin *late_pin(void) { return (struct late_pin *)shared->words; }

static void *pin_late(void *pin)
{
	struct late_pin *late = pin;
	int fd;

	while (late->digit == '0') {
		fd = syscall(SYS_openat, AT_FDCWD, late->path, O_RDONLY);
		syscall(SYS_read, fd, &late->digit, 1);
		syscall(SYS_close, fd);
	}
	late->result = syscall(SYS_io_uring_register, late->ring, IORING_REGISTER_BUFFERS,
			       &late->all, 1);
	syscall(SYS_write, late->hold, "0", 1);
	return NULL;
}

static void start_late_pin(struct scene *s)
{
	struct late_pin *late = late_pin();
	char path[128];
	pthread_t thread;

	if (!*debugfs)
		return;
	open_ring(s);
	snprintf(path, sizeof(path), "%s/hold_fork", debugfs);
	snprintf(late->path, sizeof(late->path), "%s/waiting", debugfs);
	late->digit = '0';
	late->hold = open(path, O_WRONLY);
	late->ring = s->fd;
	late->result = 1;
	CHECK(late->hold >= 0, "%s: %s", path, strerror(errno));
	CHECK(!pthread_create(&thread, NULL, pin_late, late), "pthread_create");
}

static void hold_fork(struct scene *s)
{
	late_pin()->all = (struct iovec){ s->at, s->size };
	knob("hold_fork", 1);
}

static void read_late(struct scene *s)
{
	if (!*debugfs)
		return skipped("no debugging");
	if (!s->child)
		return;
	while (__atomic_load_n(&late_pin()->result, __ATOMIC_SEQ_CST) > 0)
		usleep(1000);
	CHECK(!late_pin()->result, "io_uring_register: %ld", late_pin()->result);
	read_fixed(s);
}

static int userfault(uint64_t features, void *at, size_t size, int mode)
{
	struct uffdio_api api = { .api = UFFD_API, .features = features };
	struct uffdio_register area = { .range = { (uintptr_t)at, size }, .mode = mode };
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);

	CHECK(fd >= 0 && !ioctl(fd, UFFDIO_API, &api), "userfaultfd: %s", strerror(errno));
	CHECK(!ioctl(fd, UFFDIO_REGISTER, &area), "register: %s", strerror(errno));
	return fd;
}

/* Shared pages cannot be moved: with the checkpoint, the ioctl fails. */
static void move_pages_away(struct scene *s)
{
	char *to = mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = userfault(MOVE_FEATURE, to, s->size, UFFDIO_REGISTER_MODE_MISSING);

	each_table(s, p) {
		struct move move = { (uintptr_t)to + (p - s->at), (uintptr_t)p, PAGE, 0, 0 };

		ioctl(fd, UFFD_MOVE, &move);
	}
	close(fd);
}

static void register_fault(struct scene *s)
{
	int fd = userfault(0, s->at, s->size, UFFDIO_REGISTER_MODE_MISSING);

	each_table(s, p) {
		struct uffdio_copy copy = { (uintptr_t)p + 9 * PAGE, (uintptr_t)p, PAGE, 0, 0 };

		madvise(p + 9 * PAGE, PAGE, MADV_DONTNEED);
		CHECK(!ioctl(fd, UFFDIO_COPY, &copy), "UFFDIO_COPY: %s", strerror(errno));
	}
	close(fd);
	write_some(s);
}

static void fill_by_userfault(struct scene *s)
{
	int fd = userfault(0, s->at, s->size, UFFDIO_REGISTER_MODE_MISSING);

	each_table(s, p) {
		struct uffdio_copy copy = { (uintptr_t)p + 20 * PAGE, (uintptr_t)p, PAGE, 0, 0 };

		CHECK(!ioctl(fd, UFFDIO_COPY, &copy), "UFFDIO_COPY: %s", strerror(errno));
	}
	close(fd);
}

static void swap_off(struct scene *s)
{
	CHECK(!syscall(SYS_swapoff, "/dev/ram1"), "swapoff: %s", strerror(errno));
	CHECK(!syscall(SYS_swapon, "/dev/ram1", 0), "swapon: %s", strerror(errno));
	write_some(s);
}

static void armed_before(struct scene *s)
{
	s->fd = userfault(0, s->at, s->size, UFFDIO_REGISTER_MODE_MISSING);
}

static void unmap_all(struct scene *s) { munmap(s->at, s->size); }

static void unmap_part(struct scene *s)
{
	munmap(s->at + 3 * TABLE + 5 * PAGE, 4 * TABLE);
	for (char *p = s->at; p < s->at + 3 * TABLE; p += PAGE)
		put(p);
}

static void remap(struct scene *s)
{
	CHECK(mmap(s->at + TABLE, s->size - TABLE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED, "mmap");
	write_all(s);
}

static void move_mapping(struct scene *s)
{
	char *to = mmap(NULL, s->size + TABLE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	to = (char *)(((uintptr_t)to + TABLE - 1) & ~(TABLE - 1));
	CHECK(mremap(s->at, s->size / 2, s->size / 2, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to,
	      "mremap: %s", strerror(errno));
	for (size_t i = 0; i < s->size / 2; i += PAGE)
		put(to + i);
}

/* Not in step with page tables: entries move one by one. */
static void move_part(struct scene *s)
{
	char *to = mmap(NULL, s->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	to = (char *)(((uintptr_t)to + TABLE - 1) & ~(TABLE - 1)) + 3 * PAGE;
	CHECK(mremap(s->at + PAGE, 3 * TABLE, 3 * TABLE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to,
	      "mremap: %s", strerror(errno));
	for (size_t i = 0; i < 3 * TABLE; i += PAGE)
		put(to + i);
}

static void shrink(struct scene *s)
{
	CHECK(mremap(s->at, s->size, s->size / 4, 0) == s->at, "mremap: %s", strerror(errno));
}

static void grow(struct scene *s)
{
	char *at = mremap(s->at, s->size, s->size + 4 * TABLE, MREMAP_MAYMOVE);

	CHECK(at != MAP_FAILED, "mremap: %s", strerror(errno));
	for (size_t i = 0; i < s->size + 4 * TABLE; i += PAGE)
		put(at + i);
	CHECK(munmap(at, s->size + 4 * TABLE) == 0, "munmap");
}

static void map_beside(struct scene *s)
{
	char *at = mmap(s->at + s->size, 4 * TABLE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; i < 4 * TABLE; i += PAGE)
		put(at + i);
	write_some(s);
}

static void protect(struct scene *s)
{
	CHECK(!mprotect(s->at, s->size / 2, PROT_READ), "mprotect");
	CHECK(!mprotect(s->at + PAGE, s->size / 4, PROT_READ | PROT_WRITE), "mprotect");
	put(s->at + PAGE);
	CHECK(!mprotect(s->at, s->size, PROT_READ | PROT_WRITE), "mprotect");
	write_some(s);
}

static void lock(struct scene *s)
{
	CHECK(!mlock(s->at, s->size), "mlock: %s", strerror(errno));
	write_some(s);
	CHECK(!munlock(s->at, s->size / 2), "munlock");
}

static void compact(struct scene *s)
{
	int fd = open("/proc/sys/vm/compact_memory", O_WRONLY);

	CHECK(fd >= 0 && write(fd, "1", 1) == 1, "compact_memory: %s", strerror(errno));
	close(fd);
	write_some(s);
}

static void same_pages(struct scene *s)
{
	int fd = open("/sys/kernel/mm/ksm/run", O_WRONLY);

	each_table(s, p) {
		memset(p, 7, 256 * PAGE);
		memset(shared->copy + (p - s->at), 7, 256 * PAGE);
	}
	CHECK(fd >= 0 && write(fd, "1", 1) == 1, "ksm: %s", strerror(errno));
	close(fd);
	advise(s, MADV_MERGEABLE);
}

static void merge(struct scene *s)
{
	usleep(500000);
	write_some(s);
	usleep(100000);
	write_all(s);
}

static void fork_again(struct scene *s)
{
	pid_t second = fork();

	if (!second) {
		witness(s->at, s->size, "the second child");
		_exit(0);
	}
	write_some(s);
	knob("hold", 0);
	CHECK(!status_of(second), "the second child");
	if (fork() == 0)
		_exit(0);
	write_all(s);
}

static void kill_child(struct scene *s)
{
	if (!s->child)
		return;
	s->child_may_die = 1;
	put(s->at);
	kill(s->child, SIGKILL);
	CHECK(status_of(s->child) == SIGKILL, "the child ended otherwise");
	s->child = fork();
	if (!s->child) {
		memcpy(s->at, shared->copy, 8);
		witness(s->at, s->size, "the next child");
		_exit(0);
	}
	knob("hold", 0);
	write_all(s);
	s->child_may_die = 0;
}

static void *release(void *none)
{
	usleep(200000);
	knob("hold", 0);
	return none;
}

/* Who reads the child's memory waits until it is complete. */
static void peek(struct scene *s)
{
	char path[64];
	char *seen = mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t thread;
	int fd;

	if (!s->child)
		return;
	snprintf(path, sizeof(path), "/proc/%d/mem", s->child);
	fd = open(path, O_RDONLY);
	pthread_create(&thread, NULL, release, NULL);
	CHECK(pread(fd, seen, s->size, (uintptr_t)s->at) == (long)s->size, "%s: %s", path,
	      strerror(errno));
	pthread_join(thread, NULL);
	witness(seen, s->size, "who reads the child's memory");
	write_all(s);
}

static void *wait_for_ever(void *none)
{
	for (;;)
		pause();
	return none;
}

/* The actor ends, in one of four ways, while its child is held. */
static int ends(int how)
{
	int ready[2], go[2], pidfd, reaped = 0;
	pthread_t threads[40];
	char byte;
	pid_t actor;

	CHECK(!pipe(ready) && !pipe(go), "pipe");
	shared->expect_kill = 1;
	actor = fork();
	if (!actor) {
		char *at = region(16 * TABLE, 0);

		choose_fork();
		knob("hold", 1);
		if (!fork()) {
			close(go[1]);
			CHECK(read(go[0], &byte, 1) == 0, "pipe");
			witness(at, 16 * TABLE, "the child of the dead");
			__atomic_store_n(&shared->done, 1, __ATOMIC_SEQ_CST);
			_exit(0);
		}
		put(at + TABLE);
		/* Threads take a while to end: until then there is memory to reap. */
		for (int i = 0; how == 3 && i < 40; i++)
			pthread_create(&threads[i], NULL, wait_for_ever, NULL);
		CHECK(write(ready[1], "", 1) == 1, "pipe");
		if (how == 0)
			_exit(0);
		if (how == 1)
			execl("/bin/busybox", "busybox", "true", NULL);
		pause();
	}
	pidfd = syscall(SYS_pidfd_open, actor, 0);
	CHECK(read(ready[0], &byte, 1) == 1, "pipe");
	if (how >= 2)
		kill(actor, SIGKILL);
	if (how == 3)
		reaped = !syscall(SYS_process_mrelease, pidfd, 0);
	status_of(actor);
	usleep(10000);
	knob("hold", 0);
	close(go[1]);
	return reaped;
}

static void parent_exits(const struct test *test) { ends(0); }
static void parent_execs(const struct test *test) { ends(1); }
static void parent_killed(const struct test *test) { ends(2); }

static void parent_reaped(const struct test *test)
{
	int tries = 0;

	/* The kernel is asked in time, or not. */
	while (!ends(3) && ++tries < 50) {
		while (!__atomic_load_n(&shared->done, __ATOMIC_SEQ_CST))
			usleep(100);
		shared->done = 0;
	}
	snprintf(shared->note, sizeof(shared->note), tries < 50 ? " (reaped)" : " (NEVER REAPED)");
}

static const char *pinned_count(void)
{
	return vmstat("odf_pinned") < 0 ? "async_fork_pinned" : "odf_pinned";
}

/* Who has ever pinned pages forks as ever from then on, which must be seen. */
static void pinned_counted(const struct test *test)
{
	struct scene s = { .size = 4 * TABLE };
	long before = vmstat(pinned_count());

	if (before < 0)
		return skipped("fork() as ever");
	s.at = region(s.size, 0);
	register_pages(&s);
	close(s.fd);
	choose_fork();
	for (int i = 0; i < 2; i++) {
		pid_t child = fork();

		if (!child)
			_exit(0);
		CHECK(!status_of(child), "the child");
	}
	CHECK(vmstat(pinned_count()) == before + 2, "%s: %ld, was %ld", pinned_count(),
	      vmstat(pinned_count()), before);
}

struct pin_race {
	struct scene *scene;
	unsigned long ns;
	int go;
	long result;
};

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void *pin_soon(void *pin)
{
	struct pin_race *race = pin;
	struct iovec all = { race->scene->at, race->scene->size };
	uint64_t end;

	while (!__atomic_load_n(&race->go, __ATOMIC_SEQ_CST))
		;
	for (end = now() + race->ns; now() < end;)
		;
	race->result = syscall(SYS_io_uring_register, race->scene->fd, IORING_REGISTER_BUFFERS,
			       &all, 1);
	return NULL;
}

static void one_race(void)
{
	struct scene s = { .size = 4 * TABLE };
	struct pin_race race = { .scene = &s, .ns = any(400000), .result = -1 };
	pthread_t thread;
	int go[2];
	char byte;

	s.at = region(s.size, 0);
	open_ring(&s);
	CHECK(!pipe(go), "pipe");
	choose_fork();
	knob("hold", 1);
	pthread_create(&thread, NULL, pin_soon, &race);
	__atomic_store_n(&race.go, 1, __ATOMIC_SEQ_CST);
	s.child = fork();
	if (!s.child) {
		close(go[1]);
		CHECK(read(go[0], &byte, 1) == 0, "pipe");
		witness(s.at, s.size, "the child");
		_exit(0);
	}
	pthread_join(thread, NULL);
	CHECK(!race.result, "io_uring_register");
	read_fixed(&s);
	knob("hold", 0);
	close(go[1]);
	CHECK(!status_of(s.child), "the child");
}

/* The same without a hold: a thread pins pages somewhen around fork(). */
static void pinned_race(const struct test *test)
{
	time_t first = time(NULL);

	int round;

	for (round = 0; round < 100 && time(NULL) < first + 15; round++) {
		pid_t pid = fork();

		if (!pid) {
			seed(first + round);
			one_race();
			_exit(0);
		}
		CHECK(!status_of(pid), "seed %ld", (long)first + round);
	}
	snprintf(shared->note, sizeof(shared->note), " (%d rounds from seed %ld)", round, (long)first);
}

static void *put_thread(void *at)
{
	put(at);
	return NULL;
}

#define PATIENCE	30000	/* milliseconds: only who has waited in vain needs them */

/* Has the process ended in time? */
static int ended(pid_t pid)
{
	for (int i = 0; i < PATIENCE; i++) {
		if (waitpid(pid, NULL, WNOHANG) == pid)
			return 1;
		usleep(1000);
	}
	return 0;
}

/*
 * A parent that copies a table waits for memory, which the OOM killer wants to get from the child:
 * the child must be able to die meanwhile.
 */
static void victim_dies(const struct test *test)
{
	char *at = region(16 * TABLE, 0);
	pthread_t thread;
	pid_t child;
	int dead;

	if (!*debugfs)
		return skipped("no debugging");
	choose_fork();
	knob("hold", 1);
	child = fork();
	if (!child) {
		pause();
		_exit(0);
	}
	knob("hold_alloc", 1);
	pthread_create(&thread, NULL, put_thread, at + TABLE);
	wait_for_waiting();
	kill(child, SIGKILL);
	dead = ended(child);
	knob("hold_alloc", 0);
	CHECK(dead, "the child waits for the parent, which waits for memory");
	pthread_join(thread, NULL);
	*(uint64_t *)(shared->copy + TABLE) = *(uint64_t *)(at + TABLE);
	witness(at, 16 * TABLE, "the parent");
	CHECK(*(uint64_t *)(at + TABLE) == 0xdeadbeef, "the write is lost");
	for (size_t i = 0; i < 16 * TABLE; i += PAGE)
		put(at + i);
}

static char state_of(pid_t pid)
{
	char path[64], line[512], *state;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "r");
	state = f && fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	if (f)
		fclose(f);
	return state ? state[2] : '?';
}

static void *reap_thread(void *none)
{
	while (!__atomic_load_n(&shared->words[3], __ATOMIC_SEQ_CST))
		usleep(1000);
	shared->words[4] = syscall(SYS_process_mrelease, (int)shared->words[2], 0) ? errno : 0;
	__atomic_store_n(&shared->words[3], 2, __ATOMIC_SEQ_CST);
	return none;
}

/*
 * The OOM reaper passes a table by that somebody has locked. The victim waits for the same lock,
 * so it cannot end, and has memory to reap.
 */
static void reaper_passes(const struct test *test)
{
	char *at = region(16 * TABLE, 0);
	pthread_t thread, reaper;
	pid_t child;
	int done = 0;

	if (!*debugfs)
		return skipped("no debugging");
	choose_fork();
	child = fork();
	if (!child) {
		while (!__atomic_load_n(&shared->words[1], __ATOMIC_SEQ_CST))
			usleep(1000);
		put(at + TABLE);
		_exit(0);
	}
	shared->words[2] = syscall(SYS_pidfd_open, child, 0);
	/* Threads are made now, with stacks that nobody shares. */
	pthread_create(&reaper, NULL, reap_thread, NULL);
	knob("hold_copy", 1);
	pthread_create(&thread, NULL, put_thread, at + TABLE);
	wait_for_waiting();
	shared->words[1] = 1;
	while (state_of(child) != 'D')
		usleep(1000);
	kill(child, SIGKILL);
	__atomic_store_n(&shared->words[3], 1, __ATOMIC_SEQ_CST);
	for (int i = 0; i < PATIENCE && !done; i++) {
		done = __atomic_load_n(&shared->words[3], __ATOMIC_SEQ_CST) == 2;
		usleep(1000);
	}
	knob("hold_copy", 0);
	CHECK(done, "the reaper waits for a lock");
	CHECK(!shared->words[4], "process_mrelease: %s", strerror(shared->words[4]));
	pthread_join(reaper, NULL);
	CHECK(status_of(child) == SIGKILL, "the victim");
	pthread_join(thread, NULL);
	*(uint64_t *)(shared->copy + TABLE) = *(uint64_t *)(at + TABLE);
	witness(at, 16 * TABLE, "the parent");
}

/* The number behind @name in the part of a file of /proc that begins with @from. */
static long field(const char *path, const char *from, const char *name)
{
	char line[512];
	long value = -1;
	FILE *f = fopen(path, "r");
	int found = !from;

	while (f && value < 0 && fgets(line, sizeof(line), f)) {
		if (!found)
			found = !strncmp(line, from, strlen(from));
		else if (!strncmp(line, name, strlen(name)))
			value = atol(line + strlen(name) + strspn(line + strlen(name), " \t:"));
	}
	if (f)
		fclose(f);
	return value;
}

static void check_smaps(const struct scene *s, const char *path, const char *who)
{
	long size = s->size / 1024;
	char from[32];

	snprintf(from, sizeof(from), "%lx-", (unsigned long)s->at);
	CHECK(field(path, from, "Rss:") == size, "%s: Rss %ld", who, field(path, from, "Rss:"));
	CHECK(field(path, from, "Pss:") == size / 2, "%s: Pss %ld of %ld", who,
	      field(path, from, "Pss:"), size);
	CHECK(!field(path, from, "Private_Dirty:") && !field(path, from, "Private_Clean:"),
	      "%s: pages are private", who);
}

/*
 * Without the shared memory, which holds the copy. The counter is one for each CPU, and may be some
 * pages behind.
 */
static long anon_kib(const char *status)
{
	return field(status, NULL, "RssAnon:");
}

/* What others are told of memory that two processes share. */
static void accounts(struct scene *s)
{
	pid_t other = s->child ? s->child : getppid();
	long size = s->size / 1024;
	uint64_t entry = 0;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/status", other);
	CHECK(anon_kib(path) > size - 1024, "RSS of the other: %ld kB", anon_kib(path));
	CHECK(anon_kib("/proc/self/status") > size - 1024, "RSS: %ld kB",
	      anon_kib("/proc/self/status"));
	snprintf(path, sizeof(path), "/proc/%d/smaps", other);
	check_smaps(s, "/proc/self/smaps", "self");
	check_smaps(s, path, "the other");
	fd = open("/proc/self/pagemap", O_RDONLY);
	CHECK(pread(fd, &entry, 8, (uintptr_t)s->at / PAGE * 8) == 8, "pagemap");
	CHECK(entry >> 63 && !(entry >> 56 & 1), "pagemap: %lx", entry);
	close(fd);
	write_all(s);
	CHECK(anon_kib("/proc/self/status") < size + 8192, "RSS after writes: %ld kB",
	      anon_kib("/proc/self/status"));
}

static void *offline_thread(void *at)
{
	shared->words[2] = madvise(at, PAGE, MADV_SOFT_OFFLINE) ? errno : 0;
	return NULL;
}

static void write_beside(char *at)
{
	put(at + 5 * PAGE);
	__atomic_store_n(&shared->words[1], 1, __ATOMIC_SEQ_CST);
}

static void *write_beside_thread(void *at)
{
	write_beside(at);
	return NULL;
}

/*
 * One process copies the table of a page that is being migrated since before fork(). If the copy
 * got the entry of the migration, nobody would put the page back into it.
 */
static void migrate_and_copy(int by_child)
{
	char *at = region(4 * TABLE, 0);
	pthread_t mover, writer;
	pid_t child;

	shared->words[1] = shared->words[2] = 0;
	choose_fork();
	knob("hold_migrate", 1);
	pthread_create(&mover, NULL, offline_thread, at + 3 * PAGE);
	while (!waiting() && !__atomic_load_n(&shared->words[2], __ATOMIC_SEQ_CST))
		usleep(1000);
	if (shared->words[2] == EINVAL)
		return skipped("no memory failures");
	knob("hold_install", 1);
	child = fork();
	if (!child) {
		if (by_child)
			write_beside(at);
		else
			pause();
		*(uint64_t *)(shared->copy + 5 * PAGE) = 0xdeadbeef;
		witness(at, 4 * TABLE, "the child");
		_exit(0);
	}
	if (!by_child)
		pthread_create(&writer, NULL, write_beside_thread, at);
	/* A fork() that copied the table itself has left nothing to wait for. */
	while (waiting() < 2 && !__atomic_load_n(&shared->words[1], __ATOMIC_SEQ_CST))
		usleep(1000);
	knob("hold_migrate", 0);
	pthread_join(mover, NULL);
	CHECK(!shared->words[2], "MADV_SOFT_OFFLINE: %s", strerror(shared->words[2]));
	knob("hold_install", 0);
	if (by_child) {
		CHECK(!status_of(child), "the child");
		*(uint64_t *)(shared->copy + 5 * PAGE) = *(uint64_t *)(at + 5 * PAGE);
	} else {
		pthread_join(writer, NULL);
		kill(child, SIGKILL);
		status_of(child);
		*(uint64_t *)(shared->copy + 5 * PAGE) = 0xdeadbeef;
	}
	witness(at, 4 * TABLE, "the parent");
}

static void migrating(const struct test *test)
{
	if (!*debugfs)
		return skipped("no debugging");
	migrate_and_copy(0);
	migrate_and_copy(1);
}

static sigjmp_buf broken;

static void on_broken(int signal)
{
	siglongjmp(broken, 1);
}

static void on_told(int signal)
{
}

/* Is the fourth page broken, and no other? */
static void see_broken(const char *at, size_t size, const char *who)
{
	signal(SIGBUS, on_broken);
	for (size_t i = 0; i < size; i += PAGE) {
		if (sigsetjmp(broken, 1)) {
			if (i != 3 * PAGE)
				fail("%s: page %zu is broken", who, i / PAGE);
			continue;
		}
		if (memcmp(at + i, shared->copy + i, PAGE))
			fail("%s: page %zu differs", who, i / PAGE);
		else if (i == 3 * PAGE)
			fail("%s: the broken page is still there", who);
	}
}

/* The memory of a page breaks: all that have it lose it, and nobody is killed who does not use it. */
static void memory_breaks(const struct test *test)
{
	const size_t size = 16 * TABLE;
	char *at = region(size, 0), byte;
	int go[2], error;
	pid_t child;

	CHECK(!pipe(go), "pipe");
	choose_fork();
	child = fork();
	if (!child) {
		/* Told of it at once, and killed if the page stays. */
		prctl(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_EARLY, 0, 0);
		signal(SIGBUS, SIG_IGN);
		close(go[1]);
		shared->words[1] = 1;
		if (read(go[0], &byte, 1) < 0 && errno != EINTR)
			fail("read");
		see_broken(at, size, "the child");
		_exit(0);
	}
	close(go[0]);
	while (!__atomic_load_n(&shared->words[1], __ATOMIC_SEQ_CST))
		usleep(1000);
	usleep(20000);
	/* Who injects the failure is told of it as if it had used the page. */
	signal(SIGBUS, on_told);
	error = madvise(at + 3 * PAGE, PAGE, MADV_HWPOISON) ? errno : 0;
	if (error == EINVAL) {
		skipped("no memory failures");
		kill(child, SIGKILL);
		return;
	}
	CHECK(!error, "MADV_HWPOISON: %s", strerror(error));
	see_broken(at, size, "the parent");
	close(go[1]);
	error = status_of(child);
	CHECK(!error, "the child ended with status %x", error);
}

/* 0, or an errno. */
static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY), error = 0;

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		error = errno;
	close(fd);
	return error;
}

/* NUMA balancing looks at all pages in turn. Shared tables are not worth a copy for it. */
static void numa_hints(const struct test *test)
{
	struct scene s = { .size = 16 * TABLE };
	long copies, scanned, seen;
	volatile char sum = 0;
	pid_t child;

	if (write_file("/proc/sys/kernel/numa_balancing", "1"))
		return skipped("no NUMA balancing");
	write_file(NUMA "scan_delay_ms", "10");
	write_file(NUMA "scan_period_min_ms", "10");
	s.at = region(s.size, 0);
	choose_fork();
	child = fork();
	if (!child) {
		pause();
		_exit(0);
	}
	copies = vmstat("odf_copy");
	seen = scanned = field("/proc/self/sched", NULL, SCANS);
	for (int i = 0; i < 10000 && scanned < seen + 2; i++) {
		for (size_t j = 0; j < s.size; j += PAGE)
			sum += s.at[j];
		scanned = field("/proc/self/sched", NULL, SCANS);
	}
	copies = vmstat("odf_copy") - copies;
	write_file("/proc/sys/kernel/numa_balancing", "0");
	kill(child, SIGKILL);
	status_of(child);
	if (scanned < seen + 2)
		return skipped("nothing was scanned");
	CHECK(copies <= 4, "%ld tables copied", copies);
}

/* How many pages of the region has mlock() locked? */
static long locked_pages(struct scene *s)
{
	int map = open("/proc/self/pagemap", O_RDONLY), all = open("/proc/kpageflags", O_RDONLY);
	uint64_t entry, flags;
	long count = 0;

	CHECK(map >= 0 && all >= 0, "pagemap: %s", strerror(errno));
	for (size_t i = 0; i < s->size; i += PAGE) {
		CHECK(pread(map, &entry, 8, ((uintptr_t)s->at + i) / PAGE * 8) == 8, "pagemap");
		entry &= (1ull << 55) - 1;
		CHECK(pread(all, &flags, 8, entry * 8) == 8, "kpageflags");
		count += flags >> 33 & 1;
	}
	close(map);
	close(all);
	return count;
}

/* If mlock() says that it has locked, it has: whatever allocation of it fails. */
static void lock_without_memory(const struct test *test)
{
	struct scene s = { .size = 4 * TABLE };
	int left = 0;

	if (!injects())
		return skipped("no fault injection");
	s.at = region(s.size, 0);
	/* Otherwise mlock() writes to the pages, which are its own then. */
	CHECK(!mprotect(s.at, s.size, PROT_READ), "mprotect");
	choose_fork();
	for (int nth = 1; nth < 100 && !left; nth++) {
		int error;
		pid_t child = fork();

		if (!child) {
			pause();
			_exit(0);
		}
		inject(nth);
		error = mlock(s.at, s.size) ? errno : 0;
		left = inject(0);
		CHECK(error || locked_pages(&s) == (long)s.size / (long)PAGE,
		      "allocation %d failed: mlock() locked %ld pages", nth, locked_pages(&s));
		munlock(s.at, s.size);
		kill(child, SIGKILL);
		status_of(child);
	}
	CHECK(left, "some allocation fails for ever");
}

/* How many page tables does fork() leave to the child, which must see what was there before? */
static long marks(struct scene *s)
{
	long before = vmstat("async_fork_mark");
	pid_t child;

	memcpy(shared->copy, s->at, s->size);
	knob("hold", 1);
	child = fork();
	if (!child) {
		witness(s->at, s->size, "the child");
		_exit(0);
	}
	write_some(s);
	each_table(s, p)
		++*(volatile uint64_t *)p;
	knob("hold", 0);
	CHECK(!status_of(child), "the child");
	return vmstat("async_fork_mark") - before;
}

#define CGROUPS	"/sys/fs/cgroup"
#define ABOVE	CGROUPS "/proof"
#define BELOW	ABOVE "/below"
#define FILE_OF(cgroup)	cgroup "/memory.async_fork"

/* The switch of the memory cgroup. The process itself has not chosen. */
static void by_cgroup(const struct test *test)
{
	const long tables = 16;
	struct scene s = { .size = tables * TABLE };

	CHECK(!write_file(CGROUPS "/cgroup.subtree_control", "+memory"), "no cgroups");
	mkdir(ABOVE, 0755);
	CHECK(!write_file(ABOVE "/cgroup.subtree_control", "+memory"), "no memory cgroup");
	mkdir(BELOW, 0755);
	CHECK(!write_file(BELOW "/cgroup.procs", "0"), "not in the cgroup: %s", strerror(errno));
	s.at = region(s.size, 0);
	CHECK(!marks(&s), "nobody has chosen");
	CHECK(!write_file(FILE_OF(ABOVE), "2"), "memory.async_fork");
	CHECK(marks(&s) >= tables, "the cgroup above has chosen");
	CHECK(write_file(FILE_OF(ABOVE), "65") == EINVAL && write_file(FILE_OF(ABOVE), "-1") &&
	      write_file(FILE_OF(ABOVE), "many"), "a wrong number was accepted");
	CHECK(marks(&s) >= tables, "a wrong number changed the choice");
	CHECK(!write_file(FILE_OF(BELOW), "0"), "memory.async_fork");
	CHECK(!marks(&s), "the cgroup itself has chosen fork() as ever");
	CHECK(!write_file(FILE_OF(BELOW), "inherit"), "memory.async_fork");
	CHECK(marks(&s) >= tables, "the cgroup has no choice any more, the one above has");
	CHECK(!write_file(FILE_OF(ABOVE), "0") && !write_file(FILE_OF(BELOW), "1"),
	      "memory.async_fork");
	CHECK(marks(&s) >= tables, "the cgroup itself has chosen");
	CHECK(!prctl(PR_SET_ASYNC_FORK, 0, 0, 0, 0), "prctl: %s", strerror(errno));
	CHECK(!marks(&s), "the process has chosen fork() as ever");
	CHECK(!prctl(PR_GET_ASYNC_FORK, 0, 0, 0, 0), "PR_GET_ASYNC_FORK");
	CHECK(!prctl(PR_SET_ASYNC_FORK, PR_ASYNC_FORK_INHERIT, 0, 0, 0), "prctl");
	CHECK(prctl(PR_GET_ASYNC_FORK, 0, 0, 0, 0) == PR_ASYNC_FORK_INHERIT, "PR_GET_ASYNC_FORK");
	CHECK(marks(&s) >= tables, "the process has no choice any more");
	CHECK(!write_file(FILE_OF(BELOW), "inherit"), "memory.async_fork");
	CHECK(!marks(&s), "nobody chooses any more");
	CHECK(!prctl(PR_SET_ASYNC_FORK, 1, 0, 0, 0), "prctl: %s", strerror(errno));
	CHECK(marks(&s) >= tables, "the process has chosen");
}

/* A process that needs more memory than its cgroup may have takes it from its child, and goes on. */
static void out_of_memory(const struct test *test)
{
	const size_t more = 16 * TABLE;
	struct scene s = { .size = 32 * TABLE };
	char text[32];
	pid_t child;
	int dead;

	if (write_file(CGROUPS "/cgroup.subtree_control", "+memory"))
		return skipped("no cgroups");
	mkdir(ABOVE, 0755);
	CHECK(!write_file(ABOVE "/cgroup.subtree_control", "+memory"), "no memory cgroup");
	mkdir(BELOW, 0755);
	CHECK(!write_file(BELOW "/cgroup.procs", "0"), "not in the cgroup: %s", strerror(errno));
	CHECK(!write_file(BELOW "/memory.swap.max", "0"), "memory.swap.max");
	s.at = region(s.size, 0);
	choose_fork();
	for (int round = 0; round < 5; round++) {
		shared->words[1] = 0;
		child = fork();
		if (!child) {
			write_file("/proc/self/oom_score_adj", "1000");
			memset(mmap(NULL, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				    -1, 0), 1, more);
			__atomic_store_n(&shared->words[1], 1, __ATOMIC_SEQ_CST);
			pause();
			_exit(0);
		}
		while (!__atomic_load_n(&shared->words[1], __ATOMIC_SEQ_CST))
			usleep(1000);
		snprintf(text, sizeof(text), "%ld",
			 field(BELOW "/memory.current", NULL, "") + (2 << 20));
		CHECK(!write_file(BELOW "/memory.max", text), "memory.max: %s", text);
		write_threads(&s);
		write_file(BELOW "/memory.max", "max");
		dead = ended(child);
		CHECK(dead, "the child was not killed");
	}
	for (size_t i = 0; i < s.size; i += PAGE)
		CHECK(*(uint64_t *)(s.at + i) == 0xdeadbeef, "page %zu lost its write", i / PAGE);
}

static long helpers(struct scene *s)
{
	long before = vmstat("async_fork_helper");

	marks(s);
	return vmstat("async_fork_helper") - before;
}

/* Threads that help the child are outside of its cgroup: where its CPU is limited there are none. */
static void limited_cpu(const struct test *test)
{
	struct scene s = { .size = 16 * TABLE };
	unsigned long first = 1, all;

	if (write_file(CGROUPS "/cgroup.subtree_control", "+cpu"))
		return skipped("no limits of CPU time");
	mkdir(ABOVE, 0755);
	CHECK(!write_file(ABOVE "/cgroup.subtree_control", "+cpu"), "no cpu cgroup");
	mkdir(BELOW, 0755);
	CHECK(!write_file(BELOW "/cgroup.procs", "0"), "not in the cgroup: %s", strerror(errno));
	s.at = region(s.size, 0);
	CHECK(!prctl(PR_SET_ASYNC_FORK, 3, 0, 0, 0), "prctl: %s", strerror(errno));
	CHECK(helpers(&s) == 2, "no helpers");
	CHECK(!write_file(ABOVE "/cpu.max", "90000 100000"), "cpu.max: %s", strerror(errno));
	CHECK(!helpers(&s), "helpers outside of a limit of the cgroup above");
	CHECK(!write_file(ABOVE "/cpu.max", "max 100000"), "cpu.max");
	CHECK(helpers(&s) == 2, "no helpers after the limit is gone");
	CHECK(syscall(SYS_sched_getaffinity, 0, sizeof(all), &all) > 0, "affinity");
	if (all == first)
		return;
	CHECK(!syscall(SYS_sched_setaffinity, 0, sizeof(first), &first), "affinity");
	CHECK(!helpers(&s), "helpers on other CPUs");
}

/* A child waits for helpers that copy, not for those that have not begun: they have nothing to do. */
static void late_helpers(const struct test *test)
{
	struct scene s = { .size = 16 * TABLE };
	long before = vmstat("async_fork_helper");
	pid_t child;
	int dead;

	if (!*debugfs)
		return skipped("no debugging");
	s.at = region(s.size, 0);
	CHECK(!prctl(PR_SET_ASYNC_FORK, 3, 0, 0, 0), "prctl: %s", strerror(errno));
	knob("hold_helpers", 1);
	child = fork();
	if (!child) {
		witness(s.at, s.size, "the child");
		_exit(0);
	}
	dead = ended(child);
	CHECK(dead, "the child waits for helpers that have not begun");
	CHECK(vmstat("async_fork_helper") == before + 2, "there were no helpers");
	wait_for_waiting();
	knob("hold_helpers", 0);
}

const struct test tests[] = {
	{ "write", write_some },
	{ "write-all", write_all },
	{ "write-threads", write_threads },
	{ "holes", fill_holes, .filled = make_holes },
	{ "dontneed", dontneed },
	{ "dontneed-part", dontneed_part },
	{ "lazyfree", lazyfree },
	{ "lazyfree-part", lazyfree_part },
	{ "cold", cold },
	{ "pageout", pageout },
	{ "swapped", swap_in_and_write, .filled = swap_out },
	{ "swapped-dontneed", dontneed, .filled = swap_out },
	{ "swapped-lazyfree", lazyfree, .filled = swap_out },
	{ "swapped-off", swap_off, .filled = swap_out },
	{ "populate", populate },
	{ "procmem", through_proc },
	{ "vm_writev", by_another, .before = start_writer },
	{ "direct", read_direct, .before = open_disk },
	{ "pinned", read_fixed, .filled = register_pages },
	{ "pinned-late", read_late, .before = start_late_pin, .filled = hold_fork },
	{ "pinned-race", .whole = pinned_race },
	{ "pinned-counted", .whole = pinned_counted },
	{ "uffd-move", move_pages_away },
	{ "uffd-register", register_fault },
	{ "uffd-fill", fill_by_userfault, .filled = make_holes },
	{ "uffd-armed", write_some, .filled = armed_before },
	{ "munmap", unmap_all },
	{ "munmap-part", unmap_part },
	{ "mmap-over", remap },
	{ "mmap-beside", map_beside },
	{ "mremap-move", move_mapping },
	{ "mremap-part", move_part },
	{ "mremap-shrink", shrink },
	{ "mremap-grow", grow },
	{ "mprotect", protect },
	{ "mlock", lock },
	{ "madvise-dontfork", dont_fork },
	{ "compact", compact },
	{ "ksm", merge, .filled = same_pages },
	{ "huge", write_some, .huge = 1 },
	{ "huge-split", dontneed_part, .huge = 1 },
	{ "collapse", collapse, .filled = huge_allowed },
	{ "fork-again", fork_again },
	{ "child-killed", kill_child },
	{ "peek", peek },
	{ "parent-exits", .whole = parent_exits },
	{ "parent-execs", .whole = parent_execs },
	{ "parent-killed", .whole = parent_killed },
	{ "parent-reaped", .whole = parent_reaped },
	{ "victim-dies", .whole = victim_dies },
	{ "reaper-passes", .whole = reaper_passes, .only = "odf" },
	{ "accounts", accounts, .only = "odf" },
	{ "memory-breaks", .whole = memory_breaks },
	{ "migrating", .whole = migrating, .only = "odf" },
	{ "numa-hints", .whole = numa_hints, .only = "odf" },
	{ "mlock-nomem", .whole = lock_without_memory },
	{ "out-of-memory", .whole = out_of_memory },
	{ "cgroup", .whole = by_cgroup, .only = "async" },
	{ "cgroup-cpu", .whole = limited_cpu, .only = "async" },
	{ "helpers-late", .whole = late_helpers, .only = "async" },
	{ }
};

/* The numbers are those of include/linux/async_fork.h and on_demand_fork.h. */
const struct mutant mutants_async[] = {
	{ "the checkpoint of faults", "write", 1 << 0 },
	{ "the checkpoint of faults", "swapped", 1 << 0 },
	{ "the checkpoint of zapping", "dontneed", 1 << 1 },
	{ "the checkpoint of zapping", "dontneed-part", 1 << 1 },
	{ "the checkpoint of MADV_FREE", "lazyfree", 1 << 2 },
	{ "the checkpoint of GUP", "procmem", 1 << 3 },
	{ "the checkpoint of GUP", "vm_writev", 1 << 3 },
	{ "the checkpoint of UFFDIO_MOVE", "uffd-move", 1 << 4 },
	{ "the checkpoint of VMAs", "munmap", 1 << 5 },
	{ "the checkpoint of VMAs", "mremap-move", 1 << 5 },
	{ "the checkpoint of VMAs", "mremap-grow", 1 << 5 },
	{ "the checkpoint of VMAs", "mprotect", 1 << 5 },
	{ "the checkpoint of VMAs", "mlock", 1 << 5 },
	{ "the checkpoint of VMAs", "collapse", 1 << 5 },
	{ "the checkpoint of VMAs", "uffd-register", 1 << 5 },
	{ "the checkpoint of VMAs", "fork-again", 1 << 5 },
	{ "backing off in GUP-fast", "direct", 1 << 6 },
	{ "the rule for the OOM reaper", "parent-reaped", 1 << 7 | 1 << 1 },
	{ "the child's hold of its mmap_lock", "peek", 1 << 8 },
	{ "the rule for pinned pages", "pinned", 1 << 9 | 1 << 10 },
	{ "the second look at pinned pages", "pinned-late", 1 << 10 },
	{ "allocating before the lock", "victim-dies", 1 << 11 },
	{ "the rule for limited CPUs", "cgroup-cpu", 1 << 12 },
	{ "giving up helpers that have not begun", "helpers-late", 1 << 13 },
	{ }
};

const struct mutant mutants_odf[] = {
	{ "a copy at faults", "write", 1 << 0 },
	{ "a copy at faults", "write", 1 << 0, 1 },
	{ "a copy at faults", "holes", 1 << 0 },
	{ "a copy for zapping", "dontneed-part", 1 << 1 },
	{ "a copy for MADV_FREE", "swapped-lazyfree", 1 << 2 },
	{ "a copy for GUP", "procmem", 1 << 3 },
	{ "a copy for GUP", "vm_writev", 1 << 3, 1 },
	{ "a copy for UFFDIO_COPY", "uffd-fill", 1 << 5 },
	{ "a copy for UFFDIO_MOVE", "uffd-move", 1 << 6 },
	{ "a copy for mremap()", "mremap-part", 1 << 7 },
	{ "a copy for swapoff()", "swapped-off", 1 << 10, 1 },
	{ "backing off in GUP-fast", "direct", 1 << 13 },
	{ "the rule for pinned pages", "pinned", 1 << 14 },
	{ "the rule for pinned pages", "pinned-late", 1 << 14 },
	{ "the rule for hints of NUMA", "numa-hints", 1 << 15 },
	{ "allocating before the lock", "victim-dies", 1 << 16 },
	{ "the reaper's way past locks", "reaper-passes", 1 << 17 },
	{ "a copy for broken memory", "memory-breaks", 1 << 18 },
	{ "a copy that does not fail", "mlock-nomem", 1 << 19 },
	{ "the count of shared tables", "accounts", 1 << 20 },
	{ "the users of shared tables", "accounts", 1 << 21 },
	{ "waiting for a migration", "migrating", 1 << 22 },
	{ }
};
