// Two accounts that survive their process: what docs/embed/c.md shows.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <stillframe.h>

// Ends the program with the library's text.
static void must(sf_code code, const sf_error *error) {
    if (code == SF_OK) return;
    fprintf(stderr, "%d: %s\n", (int)code, error->message);
    exit(1);
}

// Moves money from word 0 to word 1, whole or not at all. Returns 1 when that is certain to
// survive, 0 if there was too little.
static int transfer(sf_store store, uint64_t amount) {
    sf_error error;
    uint64_t balances[2], record;
    must(sf_act_begin(store, &error), &error);
    must(sf_store_read_run(store, 0, balances, 2, &error), &error);
    must(sf_store_write(store, 1, balances[1] + amount, &error), &error);
    if (balances[0] < amount) {
        must(sf_act_undo(store, &error), &error); // as if nothing had been written
        return 0;
    }
    must(sf_store_write(store, 0, balances[0] - amount, &error), &error);
    must(sf_act_commit(store, &record, &error), &error);
    must(sf_store_wait_durable(store, record, &error), &error);
    return 1;
}

int main(void) {
    sf_error error;
    sf_options options;
    sf_store store;
    must(sf_options_init(&options, sizeof options, &error), &error);
    options.words = 2;
    options.application = "ledger";
    options.checkpoint_every_ms = 1000;
    must(sf_store_open("accounts", &options, &store, &error), &error);

    char found[512];
    must(sf_store_recovery_text(store, found, sizeof found, NULL, &error), &error);
    fputs(found, stdout); // the checkpoint and the records that the state came from

    uint64_t first = 0, hundred = 100;
    must(sf_act(store, &first, &hundred, 1, NULL, &error), &error); // an act in one call
    if (!transfer(store, 30) || transfer(store, 1000)) return 1;

    sf_view view; // the state of now, for any thread
    must(sf_view_open(store, &view, &error), &error);
    if (!transfer(store, 70)) return 1;
    uint64_t then[2], now[2];
    must(sf_view_read_run(view, 0, then, 2, &error), &error);
    must(sf_store_read_run(store, 0, now, 2, &error), &error);
    printf("then %" PRIu64 " and %" PRIu64 ", ", then[0], then[1]);
    printf("now %" PRIu64 " and %" PRIu64 "\n", now[0], now[1]);
    must(sf_view_close(view, &error), &error);

    must(sf_checkpoint_begin(store, NULL, &error), &error); // microseconds; a thread writes it
    must(sf_checkpoint_wait(store, NULL, &error), &error);
    must(sf_store_close(store, &error), &error);
    return 0;
}
