// SPDX-License-Identifier: GPL-2.0
/* One thing at a time that changes page tables, and one case for each way a process can end. */
#include "proof.h"
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>

#define MOVE_FEATURE	(1 << 16)
struct move { uint64_t dst, src, len, mode, moved; };
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

/* Pages registered with io_uring stay pinned: the kernel writes to them without a fault. */
static void register_pages(struct scene *s)
{
	static struct io_uring_params params;
	struct iovec all = { s->at, s->size };

	memset(&params, 0, sizeof(params));
	s->fd = syscall(SYS_io_uring_setup, 8, &params);
	CHECK(s->fd >= 0, "io_uring_setup: %s", strerror(errno));
	CHECK(!syscall(SYS_io_uring_register, s->fd, IORING_REGISTER_BUFFERS, &all, 1),
	      "io_uring_register: %s", strerror(errno));
	s->more = &params;
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

/* 0, or an errno. */
static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY), error = 0;

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		error = errno;
	close(fd);
	return error;
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
	CHECK(!write_file(FILE_OF(ABOVE), "0") && !write_file(FILE_OF(BELOW), "1"),
	      "memory.async_fork");
	CHECK(marks(&s) >= tables, "the cgroup itself has chosen");
	CHECK(!write_file(FILE_OF(BELOW), "0"), "memory.async_fork");
	CHECK(!marks(&s), "nobody chooses any more");
	CHECK(!prctl(PR_SET_ASYNC_FORK, 1, 0, 0, 0), "prctl: %s", strerror(errno));
	CHECK(marks(&s) >= tables, "the process has chosen");
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
	{ "cgroup", .whole = by_cgroup, .only = "async" },
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
	{ "the rule for pinned pages", "pinned", 1 << 9 },
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
	{ }
};
