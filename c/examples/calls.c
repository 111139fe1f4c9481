// What a call costs: `cc -O2 calls.c $(pkg-config --cflags --libs stillframe) && ./a.out`.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <stillframe.h>

enum { WORDS = 1 << 16, CALLS = 1 << 23 };

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void must(sf_code code) {
    if (code != SF_OK) exit(1);
}

// Prints the time of one, of so many since `start`, and begins anew.
static void tell(const char *name, double *start, double count) {
    printf("%-24s %8.1f ns\n", name, (now_ns() - *start) / count);
    *start = now_ns();
}

int main(void) {
    sf_options options;
    sf_store store;
    must(sf_options_init(&options, sizeof options, NULL));
    options.words = WORDS;
    options.log = SF_LOG_NONE;
    must(sf_store_open("calls", &options, &store, NULL));
    static uint64_t words[WORDS];
    uint64_t value, sum = 0;
    double start = now_ns();
    for (uint64_t i = 0; i < CALLS; i++) must(sf_store_write(store, i % WORDS, i, NULL));
    tell("sf_store_write", &start, CALLS);
    for (uint64_t i = 0; i < CALLS; i++) {
        must(sf_store_read(store, i % WORDS, &value, NULL));
        sum += value;
    }
    tell("sf_store_read", &start, CALLS);
    for (uint64_t i = 0; i < CALLS; i++) {
        uint64_t index = i % WORDS;
        must(sf_act(store, &index, &i, 1, NULL, NULL));
    }
    tell("sf_act of a word", &start, CALLS);
    for (int i = 0; i < 100; i++) must(sf_store_read_run(store, 0, words, WORDS, NULL));
    tell("sf_store_read_run, a word", &start, 100.0 * WORDS);
    for (int i = 0; i < 1000; i++) {
        sf_view view;
        must(sf_view_open(store, &view, NULL));
        must(sf_view_close(view, NULL));
    }
    tell("a view", &start, 1000);
    must(sf_store_close(store, NULL));
    return sum == 0; // it was read
}
