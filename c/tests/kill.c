// A process that is killed again and again loses no act that it acknowledged, and none in part.
//
// The child, this program as "worker", does act after act and writes the number of each to a pipe
// once it is durable; checkpoints begin meanwhile. The parent kills it after a random number of
// those, and opens the store itself.
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { WORDS = 3000 };

static sf_error error;

static sf_store open_store(const char *directory) {
    sf_options options;
    OK(sf_options_init(&options, sizeof options, &error));
    options.words = WORDS;
    options.application = "kill";
    options.checkpoint_every_ms = 3;
    options.increments_max = 4;
    sf_store store;
    OK(sf_store_open(directory, &options, &store, &error));
    return store;
}

// Words 0 and 7 n hold the number of the last act, for ever.
static int work(const char *directory) {
    sf_store store = open_store(directory);
    uint64_t count, record;
    OK(sf_store_read(store, 0, &count, &error));
    for (;;) {
        count++;
        OK(sf_act_begin(store, &error));
        for (uint64_t index = 0; index < WORDS; index += 7) {
            OK(sf_store_write(store, index, count, &error));
        }
        OK(sf_act_commit(store, &record, &error));
        OK(sf_store_wait_durable(store, record, &error));
        if (write(STDOUT_FILENO, &count, sizeof count) != sizeof count) return 1;
    }
}

static uint64_t check(const char *directory, uint64_t acknowledged) {
    sf_store store = open_store(directory);
    static uint64_t words[WORDS];
    OK(sf_store_read_run(store, 0, words, WORDS, &error));
    for (int i = 0; i < WORDS; i++) CHECK(words[i] == (i % 7 == 0 ? words[0] : 0));
    CHECK(words[0] >= acknowledged);
    CHECK(words[0] <= acknowledged + 1);
    OK(sf_store_discard(store, &error));
    return words[0];
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "worker") == 0) return work(argv[2]);
    if (argc < 3) {
        fprintf(stderr, "usage: %s an-empty-directory rounds [seed]\n", argv[0]);
        return 2;
    }
    unsigned seed = argc > 3 ? (unsigned)atoi(argv[3]) : (unsigned)time(NULL);
    int rounds = atoi(argv[2]);
    printf("kill: seed %u\n", seed);
    srand(seed);
    uint64_t acknowledged = 0;
    for (int round = 0; round < rounds; round++) {
        int ends[2];
        CHECK(pipe(ends) == 0);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            dup2(ends[1], STDOUT_FILENO);
            close(ends[0]);
            close(ends[1]);
            execl(argv[0], argv[0], "worker", argv[1], (char *)NULL);
            _exit(127);
        }
        close(ends[1]);
        int left = rand() % 60;
        uint64_t told;
        while (left-- > 0 && read(ends[0], &told, sizeof told) == sizeof told) acknowledged = told;
        CHECK(kill(child, SIGKILL) == 0);
        while (read(ends[0], &told, sizeof told) == sizeof told) acknowledged = told;
        close(ends[0]);
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        acknowledged = check(argv[1], acknowledged);
    }
    printf("kill: %d times, %llu acts, none lost\n", rounds, (unsigned long long)acknowledged);
    return 0;
}
