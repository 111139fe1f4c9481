// What the header promises of the store: `scripts/test-c.sh` compiles and runs this.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static sf_error error;

static sf_options options_of(uint64_t words, sf_log log) {
    sf_options options;
    OK(sf_options_init(&options, sizeof options, &error));
    options.words = words;
    options.log = log;
    return options;
}

static sf_store open_store(const char *directory, const sf_options *options) {
    sf_store store;
    OK(sf_store_open(directory, options, &store, &error));
    return store;
}

static uint64_t word(sf_store store, uint64_t index) {
    uint64_t value = 0xDEAD;
    OK(sf_store_read(store, index, &value, &error));
    return value;
}

static void null_pointers_get_an_answer(const char *folder) {
    sf_options options = options_of(4, SF_LOG_ALWAYS);
    const char *path = in_folder(folder, "nulls");
    sf_store store;
    REFUSED(SF_NULL, "`options`", sf_options_init(NULL, sizeof options, &error));
    REFUSED(SF_NULL, "`directory`", sf_store_open(NULL, &options, &store, &error));
    REFUSED(SF_NULL, "`options`", sf_store_open(path, NULL, &store, &error));
    REFUSED(SF_NULL, "`store`", sf_store_open(path, &options, NULL, &error));
    REFUSED(SF_ARGUMENT, "empty", sf_store_open("", &options, &store, &error));
    CHECK(sf_store_open(NULL, NULL, NULL, NULL) == SF_NULL);
    store = open_store(path, &options);
    uint64_t values[4] = {0};
    REFUSED(SF_NULL, "`words`", sf_store_words(store, NULL, &error));
    REFUSED(SF_NULL, "`value`", sf_store_read(store, 0, NULL, &error));
    REFUSED(SF_NULL, "`values`", sf_store_read_run(store, 0, NULL, 1, &error));
    REFUSED(SF_ARGUMENT, "aligned",
            sf_store_read_run(store, 0, (uint64_t *)((char *)values + 1), 1, &error));
    OK(sf_store_read_run(store, 4, NULL, 0, &error));
    OK(sf_act_begin(store, &error));
    REFUSED(SF_NULL, "`values`", sf_store_write_run(store, 0, NULL, 1, &error));
    REFUSED(SF_NULL, "`indices`", sf_store_write_many(store, NULL, values, 1, &error));
    REFUSED(SF_NULL, "`values`", sf_store_write_many(store, values, NULL, 1, &error));
    OK(sf_act_commit(store, NULL, &error));
    REFUSED(SF_NULL, "`stats`", sf_store_stats(store, NULL, &error));
    sf_stats stats = {0};
    REFUSED(SF_ARGUMENT, "sizeof *stats", sf_store_stats(store, &stats, &error));
    REFUSED(SF_NULL, "`view`", sf_view_open(store, NULL, &error));
    REFUSED(SF_NULL, "`branch`", sf_branch_open(store, NULL, &error));
    OK(sf_store_close(store, &error));
}

static void handles_that_name_nothing_get_an_answer(const char *folder) {
    sf_options options = options_of(4, SF_LOG_NONE);
    sf_store store = open_store(in_folder(folder, "handles"), &options);
    sf_view view;
    sf_branch branch;
    uint64_t value;
    OK(sf_view_open(store, &view, &error));
    OK(sf_branch_of(view, 0, &branch, &error));
    sf_store wrong[] = {{0}, {1}, {~(uint64_t)0}, {view.id}, {branch.id}, {store.id ^ 1 << 24}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        REFUSED(SF_HANDLE, "no store", sf_store_read(wrong[i], 0, &value, &error));
        REFUSED(SF_HANDLE, "no store", sf_store_close(wrong[i], &error));
        REFUSED(SF_HANDLE, "no store", sf_store_discard(wrong[i], &error));
        REFUSED(SF_HANDLE, "no store", sf_store_wait_durable(wrong[i], 1, &error));
    }
    OK(sf_view_close(view, &error));
    REFUSED(SF_HANDLE, "no view", sf_view_close(view, &error));
    REFUSED(SF_HANDLE, "no view", sf_view_read(view, 0, &value, &error));
    OK(sf_store_close(store, &error));
    REFUSED(SF_HANDLE, "no store", sf_store_close(store, &error));
    REFUSED(SF_HANDLE, "no store", sf_act_begin(store, &error));
    OK(sf_branch_write(branch, 3, 7, &error)); // it lives on
    OK(sf_branch_close(branch, &error));
    REFUSED(SF_HANDLE, "no branch", sf_branch_read(branch, 3, &value, &error));
}

static void words_and_runs_have_bounds(const char *folder) {
    sf_options options = options_of(4, SF_LOG_NONE);
    options.words_max = 8;
    sf_store store = open_store(in_folder(folder, "bounds"), &options);
    uint64_t values[4] = {1, 2, 3, 4}, indices[2] = {1, 4};
    OK(sf_store_write_run(store, 0, values, 4, &error));
    REFUSED(SF_RANGE, "word 4 of 4", sf_store_read(store, 4, values, &error));
    REFUSED(SF_RANGE, "of 4", sf_store_read(store, ~(uint64_t)0, values, &error));
    REFUSED(SF_RANGE, "2 words from word 3", sf_store_read_run(store, 3, values, 2, &error));
    REFUSED(SF_RANGE, "of 4", sf_store_read_run(store, 1, values, SIZE_MAX, &error));
    REFUSED(SF_RANGE, "word 4 of 4", sf_store_write(store, 4, 9, &error));
    REFUSED(SF_RANGE, "of 4", sf_store_write_run(store, 3, values, 2, &error));
    REFUSED(SF_RANGE, "word 4", sf_store_write_many(store, indices, values, 2, &error));
    REFUSED(SF_RANGE, "word 4", sf_act(store, indices, values, 2, NULL, &error));
    for (uint64_t i = 0; i < 4; i++) CHECK(word(store, i) == i + 1);
    REFUSED(SF_MEMORY, "words_max", sf_store_grow(store, 9, &error));
    OK(sf_store_grow(store, 8, &error));
    CHECK(word(store, 7) == 0);
    OK(sf_store_write_many(store, indices, values, 2, &error));
    CHECK(word(store, 1) == 1 && word(store, 4) == 2);
    uint64_t words;
    OK(sf_store_words(store, &words, &error));
    CHECK(words == 8);
    OK(sf_store_discard(store, &error));
}

static void acts_happen_whole_or_not_at_all(const char *folder) {
    const char *path = in_folder(folder, "acts");
    sf_options options = options_of(4, SF_LOG_ALWAYS);
    sf_store store = open_store(path, &options);
    uint64_t record = 99, indices[2] = {0, 3}, values[2] = {30, 70};
    REFUSED(SF_NO_ACT, "sf_act_begin", sf_store_write(store, 0, 1, &error));
    REFUSED(SF_NO_ACT, "sf_act_begin", sf_store_write_run(store, 0, values, 2, &error));
    REFUSED(SF_NO_ACT, "sf_act_begin", sf_store_grow(store, 5, &error));
    REFUSED(SF_NO_ACT, "sf_act_begin", sf_act_commit(store, &record, &error));
    REFUSED(SF_NO_ACT, "sf_act_begin", sf_act_undo(store, &error));
    OK(sf_act_begin(store, &error));
    REFUSED(SF_IN_ACT, "sf_act_undo", sf_act_begin(store, &error));
    OK(sf_store_write(store, 0, 100, &error));
    CHECK(word(store, 0) == 100);
    REFUSED(SF_IN_ACT, "", sf_store_point(store, NULL, &error));
    REFUSED(SF_IN_ACT, "", sf_checkpoint_begin(store, NULL, &error));
    REFUSED(SF_IN_ACT, "", sf_act(store, indices, values, 2, NULL, &error));
    REFUSED(SF_IN_ACT, "", sf_store_close(store, &error));
    sf_view view = {7};
    REFUSED(SF_IN_ACT, "", sf_view_open(store, &view, &error));
    CHECK(view.id == 0);
    sf_stats stats = {.size = sizeof stats};
    OK(sf_store_stats(store, &stats, &error));
    CHECK(stats.words == 4 && stats.log_last == 0);
    OK(sf_act_commit(store, &record, &error));
    CHECK(record == 1);
    OK(sf_act_begin(store, &error));
    OK(sf_store_write_run(store, 0, values, 2, &error));
    OK(sf_store_write_many(store, indices, values, 2, &error));
    OK(sf_act_undo(store, &error));
    CHECK(word(store, 0) == 100 && word(store, 1) == 0 && word(store, 3) == 0);
    OK(sf_act(store, indices, values, 2, &record, &error));
    CHECK(record == 2 && word(store, 0) == 30 && word(store, 3) == 70);
    OK(sf_store_wait_durable(store, record, &error));
    uint64_t durable;
    OK(sf_store_durable(store, &durable, &error));
    CHECK(durable == 2);
    REFUSED(SF_ARGUMENT, "no record 3", sf_store_wait_durable(store, 3, &error));
    OK(sf_act_begin(store, &error));
    OK(sf_store_write(store, 1, 5, &error));
    OK(sf_store_discard(store, &error)); // undoes the act
    store = open_store(path, &options);
    CHECK(word(store, 0) == 30 && word(store, 1) == 0 && word(store, 3) == 70);
    sf_recovery recovery = {.size = sizeof recovery};
    OK(sf_store_recovery(store, &recovery, &error));
    CHECK(recovery.checkpoint == 0 && recovery.records == 2 && recovery.record_last == 2);
    OK(sf_store_close(store, &error));
}

static void checkpoints_are_recovered(const char *folder) {
    const char *path = in_folder(folder, "checkpoints");
    enum { WORDS = 1 << 18 };
    sf_options options = options_of(WORDS, SF_LOG_ALWAYS);
    options.application = "c test";
    options.layout = 2;
    options.checkpoint_bytes_per_s = 20 << 20; // so that one is seen under way
    sf_store store = open_store(path, &options);
    sf_store second;
    REFUSED(SF_LOCKED, "in use", sf_store_open(path, &options, &second, &error));
    CHECK(second.id == 0);
    OK(sf_act_begin(store, &error));
    for (uint64_t i = 0; i < WORDS; i++) OK(sf_store_write(store, i, i * i, &error));
    OK(sf_act_commit(store, NULL, &error));
    uint64_t begun, again, ended;
    OK(sf_checkpoint_begin(store, &begun, &error));
    OK(sf_checkpoint_begin(store, &again, &error));
    CHECK(begun == 1 && again == 0);
    sf_progress progress = {.size = sizeof progress};
    OK(sf_checkpoint_progress(store, &progress, &error));
    CHECK(progress.checkpoint == 1 && progress.words == WORDS);
    CHECK(progress.captured_words <= WORDS);
    OK(sf_checkpoint_wait(store, &ended, &error));
    CHECK(ended == 1);
    OK(sf_store_point(store, &again, &error)); // the one that was asked for meanwhile
    CHECK(again == 2);
    OK(sf_checkpoint_cancel(store, &error));
    REFUSED(SF_CHECKPOINT, "given up", sf_checkpoint_wait(store, &ended, &error));
    char text[64];
    size_t length;
    OK(sf_store_last_failure(store, text, sizeof text, &length, &error));
    CHECK(strlen(text) == sizeof text - 1 && length > sizeof text);
    uint64_t index = 5, value = 1;
    OK(sf_act(store, &index, &value, 1, NULL, &error));
    OK(sf_store_close(store, &error));

    options.layout = 3;
    REFUSED(SF_FOREIGN, "layout 2", sf_store_open(path, &options, &store, &error));
    options.layout = 2;
    options.log = SF_LOG_NONE;
    REFUSED(SF_NEEDS_LOG, "`log`", sf_store_open(path, &options, &store, &error));
    options.log = SF_LOG_SYSTEM;
    store = open_store(path, &options);
    sf_recovery recovery = {.size = sizeof recovery};
    OK(sf_store_recovery(store, &recovery, &error));
    CHECK(recovery.checkpoint == 1 && recovery.base == 1 && recovery.words == WORDS);
    CHECK(recovery.records == 1 && recovery.created_ms > 0);
    char said[512];
    OK(sf_store_recovery_text(store, said, sizeof said, &length, &error));
    CHECK(strlen(said) == length && strstr(said, "Checkpoint 1 was loaded") != NULL);
    CHECK(strstr(said, "1 records of the log") != NULL);
    OK(sf_store_recovery_text(store, NULL, 0, &length, &error));
    OK(sf_store_recovery_text(store, text, 1, NULL, &error));
    CHECK(text[0] == 0);
    static uint64_t values[WORDS];
    OK(sf_store_read_run(store, 0, values, WORDS, &error));
    for (uint64_t i = 0; i < WORDS; i++) CHECK(values[i] == (i == 5 ? 1 : i * i));
    sf_stats stats = {.size = sizeof stats};
    OK(sf_store_stats(store, &stats, &error));
    CHECK(stats.words == WORDS && stats.checkpoint_newest == 1 && stats.checkpoints == 0);
    OK(sf_store_close(store, &error));
}

static void views_and_branches_keep_their_instant(const char *folder) {
    sf_options options = options_of(3, SF_LOG_NONE);
    options.words_max = 10;
    options.views_max = 2;
    sf_store store = open_store(in_folder(folder, "views"), &options);
    uint64_t values[3] = {1, 2, 3}, seen[3], one, words;
    OK(sf_store_write_run(store, 0, values, 3, &error));
    sf_view view;
    sf_branch branch, clone;
    OK(sf_view_open(store, &view, &error));
    OK(sf_branch_open(store, &branch, &error));
    sf_view third;
    REFUSED(SF_VIEWS_MAX, "views_max", sf_view_open(store, &third, &error));
    OK(sf_store_write(store, 0, 100, &error));
    OK(sf_store_grow(store, 5, &error));
    OK(sf_view_words(view, &words, &error));
    OK(sf_view_read_run(view, 0, seen, 3, &error));
    CHECK(words == 3 && memcmp(seen, values, sizeof seen) == 0);
    REFUSED(SF_RANGE, "word 3 of 3", sf_view_read(view, 3, &one, &error));
    REFUSED(SF_RANGE, "of 3", sf_view_read_run(view, 1, seen, 3, &error));
    OK(sf_branch_write(branch, 1, 20, &error));
    OK(sf_branch_clone(branch, &clone, &error));
    OK(sf_branch_write_run(clone, 1, (uint64_t[]){21, 22}, 2, &error));
    OK(sf_branch_read_run(branch, 0, seen, 3, &error));
    CHECK(seen[0] == 1 && seen[1] == 20 && seen[2] == 3);
    OK(sf_branch_read_run(clone, 0, seen, 3, &error));
    CHECK(seen[0] == 1 && seen[1] == 21 && seen[2] == 22);
    REFUSED(SF_RANGE, "of 3", sf_branch_write(clone, 3, 1, &error));
    OK(sf_branch_grow(clone, 10, &error));
    REFUSED(SF_MEMORY, "words_max", sf_branch_grow(clone, 11, &error));
    OK(sf_branch_words(clone, &words, &error));
    OK(sf_branch_read(clone, 9, &one, &error));
    CHECK(words == 10 && one == 0);
    CHECK(word(store, 0) == 100 && word(store, 1) == 2);
    OK(sf_store_close(store, &error)); // all of them live on
    OK(sf_view_read(view, 0, &one, &error));
    CHECK(one == 1);
    OK(sf_branch_close(branch, &error));
    OK(sf_branch_close(clone, &error));
    OK(sf_view_close(view, &error));
}

static void a_view_beyond_the_budget_is_lost(const char *folder) {
    enum { WORDS = 1 << 20 };
    sf_options options = options_of(WORDS, SF_LOG_NONE);
    options.budget_bytes = 1 << 20;
    sf_store store = open_store(in_folder(folder, "budget"), &options);
    sf_view view;
    sf_branch branch;
    uint64_t value;
    OK(sf_view_open(store, &view, &error));
    OK(sf_branch_of(view, 0, &branch, &error));
    for (uint64_t i = 0; i < WORDS; i++) OK(sf_store_write(store, i, i, &error));
    REFUSED(SF_VIEW_LOST, "budget", sf_view_read(view, 0, &value, &error));
    REFUSED(SF_VIEW_LOST, "budget", sf_branch_read(branch, 0, &value, &error));
    OK(sf_branch_write(branch, 0, 1, &error));
    OK(sf_branch_read(branch, 0, &value, &error));
    OK(sf_view_close(view, &error));
    OK(sf_branch_close(branch, &error));
    OK(sf_store_close(store, &error));
}

// ---- threads

enum { PAIRS = 64 };

typedef struct {
    sf_reader reader;
    uint64_t views;
} asker;

static void *ask_for_views(void *of) {
    asker *ask = of;
    sf_error told;
    for (;;) {
        sf_view view;
        sf_code code = sf_reader_view(ask->reader, 60000, &view, &told);
        if (code == SF_CLOSED || code == SF_HANDLE) return NULL;
        CHECK(code == SF_OK);
        uint64_t seen[2 * PAIRS];
        CHECK(sf_view_read_run(view, 0, seen, 2 * PAIRS, &told) == SF_OK);
        for (int i = 0; i < PAIRS; i++) CHECK(seen[2 * i] + seen[2 * i + 1] == 0);
        CHECK(sf_view_close(view, &told) == SF_OK);
        ask->views++;
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
}

static void readers_get_whole_views_while_a_thread_writes(const char *folder) {
    sf_options options = options_of(2 * PAIRS, SF_LOG_NONE);
    sf_store store = open_store(in_folder(folder, "readers"), &options);
    pthread_t threads[2];
    asker askers[2] = {0};
    for (int i = 0; i < 2; i++) {
        OK(sf_reader_open(store, &askers[i].reader, &error));
        CHECK(pthread_create(&threads[i], NULL, ask_for_views, &askers[i]) == 0);
    }
    for (uint64_t round = 1; round < 30000; round++) {
        uint64_t at = round % PAIRS * 2;
        OK(sf_store_write(store, at, round, &error));
        OK(sf_store_write(store, at + 1, -round, &error));
        OK(sf_store_point(store, NULL, &error));
    }
    // Closed while they wait.
    OK(sf_store_discard(store, &error));
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        OK(sf_reader_close(askers[i].reader, &error));
    }
    sf_reader reader = askers[0].reader;
    sf_view view;
    REFUSED(SF_HANDLE, "no reader", sf_reader_view(reader, 1, &view, &error));
}

typedef struct {
    sf_store store;
    uint64_t done, busy;
} adder;

static void *add_a_thousand(void *of) {
    adder *add = of;
    uint64_t zero = 0;
    while (add->done < 1000) {
        sf_error told;
        uint64_t value;
        // An act that another thread's call may interrupt, as no program should: it is told so.
        sf_code code = sf_act_begin(add->store, &told);
        if (code == SF_OK) {
            while ((code = sf_store_read(add->store, zero, &value, &told)) == SF_BUSY) {}
            CHECK(code == SF_OK);
            while ((code = sf_store_write(add->store, zero, value + 1, &told)) == SF_BUSY) {}
            CHECK(code == SF_OK);
            while ((code = sf_act_commit(add->store, NULL, &told)) == SF_BUSY) {}
            CHECK(code == SF_OK);
            add->done++;
        } else {
            CHECK(code == SF_BUSY || code == SF_IN_ACT);
            add->busy++;
        }
    }
    return NULL;
}

static void a_second_thread_is_told_so(const char *folder) {
    sf_options options = options_of(1, SF_LOG_SYSTEM);
    sf_store store = open_store(in_folder(folder, "busy"), &options);
    pthread_t threads[3];
    adder adders[3];
    for (int i = 0; i < 3; i++) {
        adders[i] = (adder){store, 0, 0};
        CHECK(pthread_create(&threads[i], NULL, add_a_thousand, &adders[i]) == 0);
    }
    for (int i = 0; i < 3; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(word(store, 0) == 3000);
    OK(sf_store_close(store, &error));
}

// ---- bad options

// What is refused leaves no directory, and no store that is open anything but itself.
static void what_cannot_be_had_is_refused_by_name(const char *folder) {
    const char *path = in_folder(folder, "refused"), *server = in_folder(folder, "of-a-server");
    sf_options options = options_of(4, SF_LOG_NONE);
    sf_store store = open_store(in_folder(folder, "goes-on"), &options), none;
    OK(sf_store_write(store, 3, 7, &error));
    options.words_max = (uint64_t)1 << 45; // more than there are addresses
    REFUSED(SF_MEMORY, "memory", sf_store_open(path, &options, &none, &error));
    options.words_max = ~(uint64_t)0;
    REFUSED(SF_MEMORY, "", sf_store_open(path, &options, &none, &error));
    CHECK(none.id == 0);
    CHECK(mkdir(server, 0700) == 0);
    int dump = open(in_folder(server, "dump.rdb"), O_WRONLY | O_CREAT, 0600);
    CHECK(dump >= 0 && write(dump, "REDIS0011", 9) == 9 && close(dump) == 0);
    options.words_max = 0;
    REFUSED(SF_FOREIGN, "of a server", sf_store_open(server, &options, &none, &error));
    CHECK(word(store, 3) == 7);
    OK(sf_store_close(store, &error));
}

// ---- the end of a process

static void a_child_inherits_no_handle(const char *folder) {
    sf_options options = options_of(2, SF_LOG_ALWAYS);
    const char *path = in_folder(folder, "forked"), *own = in_folder(folder, "child");
    sf_store store = open_store(path, &options);
    sf_view view;
    OK(sf_view_open(store, &view, &error));
    uint64_t zero = 0, value = 7;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        REFUSED(SF_FORKED, "fork", sf_store_read(store, 0, &value, &error));
        REFUSED(SF_FORKED, "fork", sf_act(store, &zero, &value, 1, NULL, &error));
        REFUSED(SF_FORKED, "fork", sf_view_read(view, 0, &value, &error));
        REFUSED(SF_FORKED, "fork", sf_store_close(store, &error));
        REFUSED(SF_FORKED, "fork", sf_store_discard(store, &error));
        REFUSED(SF_LOCKED, "in use", sf_store_open(path, &options, &store, &error));
        store = open_store(own, &options);
        OK(sf_act(store, &zero, &value, 1, NULL, &error));
        OK(sf_store_close(store, &error));
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    OK(sf_act(store, &zero, &value, 1, NULL, &error)); // unharmed
    OK(sf_view_close(view, &error));
    OK(sf_store_close(store, &error));
}

// ---- bad files

// The path of the only file in `directory` whose name starts with this.
static const char *file_in(const char *directory, const char *start) {
    DIR *listed = opendir(directory);
    CHECK(listed != NULL);
    const char *found = NULL;
    for (struct dirent *entry; (entry = readdir(listed)) != NULL;) {
        if (strncmp(entry->d_name, start, strlen(start)) == 0) {
            found = in_folder(directory, entry->d_name);
        }
    }
    closedir(listed);
    CHECK(found != NULL);
    return found;
}

static void damage_is_named(const char *folder) {
    const char *path = in_folder(folder, "damaged");
    sf_options options = options_of(1000, SF_LOG_NONE);
    options.checkpoint_on_close = 1;
    sf_store store = open_store(path, &options);
    OK(sf_store_write(store, 999, 1, &error));
    OK(sf_store_close(store, &error));
    const char *name = file_in(path, "checkpoint");
    int file = open(name, O_RDWR);
    unsigned char byte;
    CHECK(file >= 0 && pread(file, &byte, 1, 4000) == 1);
    byte ^= 1;
    CHECK(pwrite(file, &byte, 1, 4000) == 1);
    REFUSED(SF_DAMAGED, "checksum", sf_store_open(path, &options, &store, &error));
    byte ^= 1;
    CHECK(pwrite(file, &byte, 1, 4000) == 1 && close(file) == 0);
    store = open_store(path, &options);
    CHECK(word(store, 999) == 1);
    OK(sf_store_close(store, &error));
    REFUSED(SF_FILE, "failed", sf_store_open(name, &options, &store, &error));
}

static void a_store_that_cannot_be_closed_stays_open(const char *folder) {
    sf_options options = options_of(1 << 16, SF_LOG_NONE);
    options.checkpoint_on_close = 1;
    sf_store store = open_store(in_folder(folder, "full"), &options);
    OK(sf_store_write(store, 65535, 9, &error));
    struct rlimit unlimited, limit;
    CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR && getrlimit(RLIMIT_FSIZE, &unlimited) == 0);
    limit = unlimited;
    limit.rlim_cur = 4096;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    sf_code code = sf_store_close(store, &error);
    CHECK(setrlimit(RLIMIT_FSIZE, &unlimited) == 0);
    CHECK(code == SF_FILE || code == SF_CHECKPOINT);
    CHECK(strstr(error.message, "intact") != NULL || strstr(error.message, "free space") != NULL);
    CHECK(word(store, 65535) == 9);
    OK(sf_store_close(store, &error));
    store = open_store(in_folder(folder, "full"), &options);
    CHECK(word(store, 65535) == 9);
    OK(sf_store_close(store, &error));
}

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    uint64_t durable, failures;
    bool is_elsewhere;
    pthread_t writer;
    sf_error failure;
} listener;

static void note(void *context, uint64_t checkpoint, const sf_error *failure) {
    listener *to = context;
    CHECK((checkpoint == 0) == (failure != NULL));
    CHECK(pthread_mutex_lock(&to->lock) == 0);
    if (failure == NULL) {
        to->durable = checkpoint;
    } else {
        to->failures++;
        to->failure = *failure;
    }
    to->is_elsewhere |= !pthread_equal(pthread_self(), to->writer);
    CHECK(pthread_cond_broadcast(&to->ended) == 0 && pthread_mutex_unlock(&to->lock) == 0);
}

static void the_end_of_each_checkpoint_is_told(const char *folder) {
    listener to = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER,
                   .writer = pthread_self()};
    sf_options options = options_of(1 << 18, SF_LOG_NONE);
    options.on_checkpoint = note;
    options.context = &to;
    options.checkpoint_bytes_per_s = 20 << 20; // so that one can be cancelled
    const char *path = in_folder(folder, "told");
    sf_store store = open_store(path, &options);
    uint64_t begun;
    OK(sf_store_write(store, 0, 1, &error));
    OK(sf_checkpoint_begin(store, &begun, &error));
    CHECK(pthread_mutex_lock(&to.lock) == 0);
    while (to.durable == 0) CHECK(pthread_cond_wait(&to.ended, &to.lock) == 0); // nobody polls
    CHECK(to.durable == begun && to.failures == 0 && to.is_elsewhere);
    CHECK(pthread_mutex_unlock(&to.lock) == 0);
    sf_code ended;
    do { // one that is whole before it is cancelled is none that was
        OK(sf_store_write(store, 0, 2, &error));
        OK(sf_checkpoint_begin(store, &begun, &error));
        OK(sf_checkpoint_cancel(store, &error));
        ended = sf_checkpoint_wait(store, &begun, &error);
    } while (ended == SF_OK);
    CHECK(ended == SF_CHECKPOINT && strstr(error.message, "given up") != NULL);
    CHECK(to.failures == 1 && to.failure.code == SF_CHECKPOINT);
    CHECK(strcmp(to.failure.message, error.message) == 0);
    OK(sf_store_close(store, &error));
    // A program of an older header, which ends before these fields, is told nothing.
    options.size = offsetof(sf_options, on_checkpoint);
    to.durable = to.failures = 0;
    store = open_store(path, &options);
    OK(sf_store_write(store, 0, 3, &error));
    OK(sf_checkpoint_begin(store, &begun, &error));
    OK(sf_checkpoint_wait(store, &begun, &error));
    OK(sf_store_close(store, &error));
    CHECK(begun > 0 && to.durable == 0 && to.failures == 0);
}

static void fill(const char *name) {
    static char zeros[4096];
    int file = open(name, O_WRONLY | O_CREAT, 0600);
    CHECK(file >= 0);
    while (write(file, zeros, sizeof zeros) > 0) {}
    CHECK(errno == ENOSPC && close(file) == 0);
}

// A disk of 4 MiB that fills up, and has room again.
static void a_full_disk_loses_nothing_durable(const char *folder) {
    const char *disk = in_folder(folder, "disk");
    CHECK(mkdir(disk, 0700) == 0);
    // Nobody else sees the mount, and it ends with the process.
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", disk, "tmpfs", 0, "size=4m") != 0) {
        printf("!!! SKIPPED: a full disk: no small disk can be mounted: %s\n", strerror(errno));
        return;
    }
    const char *path = in_folder(disk, "plain"), *filler = in_folder(disk, "filler");
    sf_options options = options_of(1 << 17, SF_LOG_NONE); // 1 MiB
    sf_store store = open_store(path, &options);
    uint64_t ended, last = 0;
    OK(sf_store_write(store, 0, 1, &error));
    OK(sf_checkpoint_begin(store, NULL, &error));
    OK(sf_checkpoint_wait(store, &ended, &error));
    fill(filler);
    OK(sf_store_write(store, 0, 2, &error));
    sf_code code = sf_checkpoint_begin(store, NULL, &error);
    if (code == SF_OK) code = sf_checkpoint_wait(store, &ended, &error);
    CHECK(code == SF_CHECKPOINT || code == SF_NO_ROOM);
    CHECK(strstr(error.message, "No space left") != NULL);
    CHECK(word(store, 0) == 2);
    CHECK(unlink(filler) == 0);
    OK(sf_checkpoint_begin(store, NULL, &error));
    OK(sf_checkpoint_wait(store, &ended, &error));
    OK(sf_store_discard(store, &error));
    store = open_store(path, &options);
    CHECK(word(store, 0) == 2);
    OK(sf_store_close(store, &error));

    path = in_folder(disk, "logged");
    options.log = SF_LOG_ALWAYS;
    store = open_store(path, &options);
    uint64_t value = 0, durable = 0, indices[64], values[64];
    for (uint64_t i = 0; i < 64; i++) indices[i] = i;
    do {
        value++;
        for (uint64_t i = 0; i < 64; i++) values[i] = value;
        code = sf_act(store, indices, values, 64, &last, &error);
        if (code == SF_OK) code = sf_store_wait_durable(store, last, &error);
        if (code == SF_OK) durable = value;
    } while (code == SF_OK);
    CHECK(code == SF_LOG_FAILED || code == SF_NO_ROOM);
    CHECK(strstr(error.message, "No space left") != NULL && durable > 0);
    OK(sf_store_discard(store, &error));
    CHECK(truncate(file_in(in_folder(disk, "plain"), "checkpoint"), 0) == 0); // room again
    store = open_store(path, &options);
    CHECK(word(store, 0) >= durable && word(store, 0) == word(store, 63));
    OK(sf_act(store, indices, values, 64, &last, &error));
    OK(sf_store_wait_durable(store, last, &error));
    OK(sf_store_close(store, &error));
    CHECK(umount2(disk, MNT_DETACH) == 0);
}

static void the_past_is_another_store(const char *folder) {
    const char *path = in_folder(folder, "present"), *past = in_folder(folder, "past");
    sf_options options = options_of(1, SF_LOG_ALWAYS);
    sf_store store = open_store(path, &options), rewound;
    uint64_t zero = 0;
    for (uint64_t value = 1; value <= 5; value++) {
        OK(sf_act(store, &zero, &value, 1, NULL, &error));
    }
    REFUSED(SF_LOCKED, "in use",
            sf_store_rewind(path, SF_UNTIL_RECORD, 3, past, &options, &rewound, &error));
    OK(sf_store_close(store, &error));
    REFUSED(SF_ARGUMENT, "`until`", sf_store_rewind(path, 2, 3, past, &options, &rewound, &error));
    OK(sf_store_rewind(path, SF_UNTIL_RECORD, 3, past, &options, &rewound, &error));
    CHECK(word(rewound, 0) == 3);
    OK(sf_store_close(rewound, &error));
    store = open_store(path, &options);
    CHECK(word(store, 0) == 5);
    OK(sf_store_close(store, &error));
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s an-empty-directory\n", argv[0]);
        return 2;
    }
    void (*tests[])(const char *) = {
        null_pointers_get_an_answer,
        handles_that_name_nothing_get_an_answer,
        words_and_runs_have_bounds,
        acts_happen_whole_or_not_at_all,
        checkpoints_are_recovered,
        views_and_branches_keep_their_instant,
        a_view_beyond_the_budget_is_lost,
        readers_get_whole_views_while_a_thread_writes,
        a_second_thread_is_told_so,
        what_cannot_be_had_is_refused_by_name,
        a_child_inherits_no_handle,
        damage_is_named,
        a_store_that_cannot_be_closed_stays_open,
        the_end_of_each_checkpoint_is_told,
        the_past_is_another_store,
        a_full_disk_loses_nothing_durable,
    };
    size_t count = sizeof tests / sizeof tests[0];
    for (size_t i = 0; i < count; i++) tests[i](argv[1]);
    printf("store: %zu tests\n", count);
    return 0;
}
