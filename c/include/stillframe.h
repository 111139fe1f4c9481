// Stillframe for C: a durable store of 64-bit words, with acts, checkpoints, views and branches; and
// a server that speaks Redis's protocol, in this process.
// Made by cbindgen from c/src; do not edit.
//
// Errors. Every function returns an sf_code, and takes an sf_error of the caller's own for the text
// (or NULL). A function that fails has done nothing, unless it says so.
//
// Handles are numbers, not pointers. A handle that is 0, closed, of another kind, or inherited by
// fork gets an answer (SF_HANDLE, SF_FORKED), however often; so does NULL for a pointer (SF_NULL),
// a run out of bounds (SF_RANGE) and a pointer that is not aligned. What a pointer leads to must be
// as large as the call says, as in all of C.
//
// Threads. One thread at a time may be inside a store, a branch or a client; it need not be the same
// one, if a lock orders them. A second one gets SF_BUSY and has done nothing. Any number may read a
// view, or call sf_store_durable, sf_store_wait_durable, sf_reader_view and sf_client_open, at any
// time. What is closed must not be in use (SF_BUSY).
//
// Panics of the library end in the call, as SF_PANIC; the thing it was called for then answers
// SF_POISONED to all but its discard or close. Others are sound.
//
// fork. A child has none of the threads of this library: handles that it inherits answer SF_FORKED, and
// what they name is neither written nor closed there. It may exit, exec, or open things of its own, in
// other directories; the last only if no other thread was inside the library at the fork, since a lock
// that was held then is held for ever in the child. Callbacks do not fork.


#ifndef STILLFRAME_H
#define STILLFRAME_H

#include <stddef.h>
#include <stdint.h>

// Bytes of a message, with the zero at its end.
#define SF_MESSAGE_BYTES 1020

// What a function returns: `SF_OK`, or why nothing was done.
enum sf_code
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // It is done.
  SF_OK = 0,
  // A pointer that must not be null is.
  SF_NULL = 1,
  // Nothing of this kind has this handle: it was closed, never opened, or is of another kind.
  SF_HANDLE = 2,
  // Another thread is inside the same store, branch or connection; or something still uses what
  // is to be closed.
  SF_BUSY = 3,
  // A word or a run is out of bounds.
  SF_RANGE = 4,
  // An argument is not what it may be; the message names it.
  SF_ARGUMENT = 5,
  // This store has a log, so its words change within acts alone.
  SF_NO_ACT = 6,
  // That cannot be done while an act is under way.
  SF_IN_ACT = 7,
  // An earlier call panicked in this thing: discard it.
  SF_POISONED = 8,
  // The library panicked: a bug. What the call had in hand is poisoned.
  SF_PANIC = 9,
  // The handle was inherited by `fork`. A child opens things of its own.
  SF_FORKED = 10,
  // Another process, or another store of this one, has the directory open.
  SF_LOCKED = 20,
  // The operating system refused something with a file.
  SF_FILE = 21,
  // The disk is full.
  SF_NO_ROOM = 22,
  // A checkpoint or the log is damaged; the message says where, and what to do.
  SF_DAMAGED = 23,
  // A file is of a later version of this library.
  SF_NEWER = 24,
  // The directory holds the files of another application, or of a server.
  SF_FOREIGN = 25,
  // The directory has a log: open it with one.
  SF_NEEDS_LOG = 26,
  // The store keeps no log.
  SF_NO_LOG = 27,
  // The log failed, as after an I/O error: open the store again.
  SF_LOG_FAILED = 28,
  // A record of the log is none that an act left.
  SF_REPLAY = 29,
  // No memory, or growth beyond `words_max`.
  SF_MEMORY = 40,
  // No thread could be started.
  SF_THREAD = 41,
  // A checkpoint could not begin, or was given up.
  SF_CHECKPOINT = 42,
  // As many views are kept as may be.
  SF_VIEWS_MAX = 43,
  // The view was given up, because what was written since needs more than the budget.
  SF_VIEW_LOST = 44,
  // The store that a reader asks, or the connection of a client, has been closed.
  SF_CLOSED = 45,
  // It did not come in time.
  SF_TIMEOUT = 46,
  // No checkpoint is as old as the point asked for.
  SF_TOO_EARLY = 47,
  // A setting of the server is wrong, or none for a server within a program.
  SF_SETTING = 60,
  // The server cannot listen at an address that the settings name.
  SF_ADDRESS = 61,
  // The server could not save, and goes on.
  SF_NOT_SAVED = 62,
  // Another error, of a kind that this header has no code for yet.
  SF_OTHER = 99,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum sf_code sf_code;
#else
typedef int32_t sf_code;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What a node of a reply is.
enum sf_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // There is no reply.
  SF_NO_REPLY = 0,
  // A status, such as OK: `bytes`.
  SF_STATUS = 1,
  // The server refused the request: `bytes` say why.
  SF_REFUSAL = 2,
  // `integer`.
  SF_INTEGER = 3,
  // A string: `bytes`.
  SF_BYTES = 4,
  // No value.
  SF_NIL = 5,
  // `children`.
  SF_ARRAY = 6,
  // `children`: each key, then its value. RESP3 alone, as all below.
  SF_MAP = 7,
  // `children`, in no order.
  SF_SET = 8,
  // `children` of a message that nobody asked for.
  SF_PUSH = 9,
  // `number`.
  SF_DOUBLE = 10,
  // `integer`, 0 or 1.
  SF_BOOLEAN = 11,
  // An integer of any size: its digits in `bytes`.
  SF_BIG_NUMBER = 12,
  // A text for people: `bytes`.
  SF_VERBATIM = 13,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum sf_kind sf_kind;
#else
typedef uint32_t sf_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// For `sf_options.log`: whether acts are logged, and when a record is durable.
enum sf_log
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // No log: a crash loses what changed since the last checkpoint. Words may be written outside
  // of acts, too.
  SF_LOG_NONE = 0,
  // Records are synced at once; one sync makes all durable that wait. The default.
  SF_LOG_ALWAYS = 1,
  // Records are written within a millisecond, which survives the end of the process, and synced
  // once a second.
  SF_LOG_EVERY_SECOND = 2,
  // As before, but synced when the system likes, or when a thread waits.
  SF_LOG_SYSTEM = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum sf_log sf_log;
#else
typedef uint32_t sf_log;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// For `sf_options.views_on_full`: what happens when views have used up their memory.
enum sf_on_full
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // The oldest view is given up: its reads answer `SF_VIEW_LOST`. The default.
  SF_GIVE_UP = 0,
  // The writer waits until the oldest view is closed. Never where one thread does both.
  SF_WAIT = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum sf_on_full sf_on_full;
#else
typedef uint32_t sf_on_full;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// For `sf_store_rewind`: how a point in the past is named.
enum sf_until
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // After the act whose record has this number.
  SF_UNTIL_RECORD = 0,
  // After the last act that was logged no later than this many milliseconds since 1970.
  SF_UNTIL_TIME_MS = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum sf_until sf_until;
#else
typedef uint32_t sf_until;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Where a function leaves its code and a text that says what failed, where, and what to do. The
// caller owns it, and no call keeps it; so any thread may read it at any time after the call.
// Each call sets it anew. Null, where the code is enough.
typedef struct sf_error {
  // What the function returns.
  sf_code code;
  // UTF-8, ends with a zero; empty after `SF_OK`.
  char message[SF_MESSAGE_BYTES];
} sf_error;

// What is told how a checkpoint ended: with your context, and with its number and null once
// it is durable, or with 0 and the reason if it failed or could not begin. The reason is valid
// during the call alone.
//
// The thread that wrote the checkpoint calls it: one of the store's, or the one that waits for
// it in a call of yours (`sf_checkpoint_wait`, `sf_store_close`, ...). It wakes the threads that
// wait, and returns: it calls nothing of this store (`SF_BUSY`, at best), and neither throws nor
// jumps out. Nothing calls it once the store is closed or discarded, nor in a forked child.
typedef void (*sf_on_checkpoint)(void *context, uint64_t checkpoint, const struct sf_error *failure);

// How a store is opened. `sf_options_init` sets every field to its default, which is 0 unless the
// field says otherwise; then set `words`, and what else you want.
typedef struct sf_options {
  // `sizeof(sf_options)`, which `sf_options_init` sets: so a later library serves a program
  // that was compiled with this header.
  size_t size;
  // Words of state, 64 bits each, zero at first. A checkpoint of more words is recovered at its
  // own size.
  uint64_t words;
  // Words that the state may grow to: address space, not memory. 0: it cannot grow.
  uint64_t words_max;
  // Whose state it is: at most 16 bytes of UTF-8, which all files bear. A directory of another
  // application is refused. Null: no name. Used during the call alone.
  const char *application;
  // The version of the application's layout: of what each word means. Another one is refused.
  uint32_t layout;
  // 1: files without a name are taken for the application's own.
  uint32_t adopt_untagged;
  // An `sf_log`; default `SF_LOG_ALWAYS`.
  uint32_t log;
  // 1: `sf_store_close` takes a last checkpoint.
  uint32_t checkpoint_on_close;
  // Milliseconds from one checkpoint to the next, each at the first point after it. 0: only on
  // demand.
  uint64_t checkpoint_every_ms;
  // Most bytes a second that checkpoints write. 0: no limit.
  uint64_t checkpoint_bytes_per_s;
  // Most increments upon a full checkpoint. 0: all checkpoints are full.
  uint32_t increments_max;
  // 1: checkpoints are packed by LZ4.
  uint32_t pack;
  // Full checkpoints that are kept, with their increments and the log since; default 2, and 2 at
  // least.
  uint64_t keep_generations;
  // Milliseconds of the past that `sf_store_rewind` reaches in any case.
  uint64_t keep_age_ms;
  // Most bytes of files that are kept, except two generations. 0: no limit.
  uint64_t keep_bytes_max;
  // Bytes of records that may wait for the disk before an act does; default 64 MiB.
  uint64_t log_waiting_bytes_max;
  // Views that may be kept at a time; default 64.
  uint32_t views_max;
  // An `sf_on_full`.
  uint32_t views_on_full;
  // Bytes of old values that views and the checkpoint under way may keep. 0: a quarter of the
  // state, 64 MiB at least.
  uint64_t budget_bytes;
  // 1: ask for pages of 2 MiB.
  uint32_t huge_pages;
  // 1: touch all memory when the store is opened, so that no write pays for it.
  uint32_t prefault;
  // Threads that load a checkpoint. 0: as many as the machine likes.
  uint32_t load_threads;
  // 1: go back to the newest whole checkpoint if a chain of increments is broken. What is lost
  // is in `sf_store_recovery`, and moved aside.
  uint32_t accept_chain_loss;
  // 1: go on without what a damaged log has lost.
  uint32_t accept_log_loss;
  // Zero.
  uint32_t reserved;
  // Called with `context` when a checkpoint has ended. Null: nothing is.
  sf_on_checkpoint on_checkpoint;
  // Of yours, for `on_checkpoint`; any thread may use it until the store is closed.
  void *context;
} sf_options;

// An array of 64-bit words in memory that survives its process. One thread at a time may use it;
// only `sf_store_durable` and `sf_store_wait_durable` may be called beside.
typedef struct sf_store {
  // 0: none.
  uint64_t id;
} sf_store;

// The checkpoint under way.
typedef struct sf_progress {
  // `sizeof(sf_progress)`: set it before the call.
  size_t size;
  // Its number; 0: none is under way.
  uint64_t checkpoint;
  // Words captured so far.
  uint64_t captured_words;
  // Words to capture; when all are, the file is being made durable.
  uint64_t words;
  // Time since it began.
  uint64_t elapsed_us;
  // Time that the rest of the capture will take at the pace so far; all bits set: unknown.
  uint64_t remaining_us;
} sf_progress;

// Counts and times since the store was opened.
typedef struct sf_stats {
  // `sizeof(sf_stats)`: set it before the call.
  size_t size;
  // Words of state.
  uint64_t words;
  // Checkpoints made durable.
  uint64_t checkpoints;
  // Checkpoints that failed, could not begin, or were cancelled.
  uint64_t checkpoint_failures;
  // Number of the newest durable checkpoint, be it recovered or made since; 0: none.
  uint64_t checkpoint_newest;
  // Times a checkpoint was due while the one before had not begun or ended.
  uint64_t checkpoint_overdue;
  // How long the last checkpoint delayed the thread of the store.
  uint64_t begin_last_us;
  // The longest delay by any checkpoint.
  uint64_t begin_max_us;
  // How long the last durable checkpoint took to capture and write.
  uint64_t capture_last_us;
  // How long it took to reach the disk after that.
  uint64_t publish_last_us;
  // Length of its file.
  uint64_t checkpoint_bytes;
  // Increments that the newest checkpoint needs beside its base.
  uint64_t increments;
  // Views that are kept, those below branches included.
  uint64_t views;
  // Memory that views and the checkpoint under way keep, when the writer last looked.
  uint64_t views_bytes;
  // Times a write had to wait because views had used up their budget.
  uint64_t writer_waits;
  // Number of the last record of the log.
  uint64_t log_last;
  // Number of the last record that is durable.
  uint64_t log_durable;
  // Records added.
  uint64_t log_records;
  // Bytes of acts in them.
  uint64_t log_bytes;
  // Syncs of the log.
  uint64_t log_syncs;
  // Times an act had to wait because too many records waited for the disk.
  uint64_t log_waits;
  // 1: the log has failed and takes no more records.
  uint64_t log_has_failed;
} sf_stats;

// What was found when the store was opened.
typedef struct sf_recovery {
  // `sizeof(sf_recovery)`: set it before the call.
  size_t size;
  // The checkpoint that the state was loaded from; 0: there was none.
  uint64_t checkpoint;
  // The full checkpoint that it builds on; its own number if it is full.
  uint64_t base;
  // Increments applied to that one.
  uint64_t increments;
  // Words of state in it.
  uint64_t words;
  // Length of its files.
  uint64_t bytes;
  // When it was begun, in milliseconds since 1970 by the clock of then.
  uint64_t created_ms;
  // How long loading took.
  uint64_t load_us;
  // Newer checkpoints that were damaged and set aside; the text names them.
  uint64_t skipped;
  // 1: an unfinished checkpoint was thrown away, as a crash leaves one.
  uint64_t leftover;
  // Records of the log that were applied.
  uint64_t records;
  // Number of the last record that is in the state; 0: none.
  uint64_t record_last;
  // How long that took.
  uint64_t replay_us;
  // Bytes of an unfinished record that a crash left at the end of the log.
  uint64_t torn_bytes;
  // The first record that a damaged log has lost, if the options accept that; 0: none.
  uint64_t lost_first;
} sf_recovery;

// The state of a store as it was, which any number of threads may read while the store goes on. It
// lives on when the store is closed.
typedef struct sf_view {
  // 0: none.
  uint64_t id;
} sf_view;

// Asks a store for views, from any thread, while another one writes.
typedef struct sf_reader {
  // 0: none.
  uint64_t id;
} sf_reader;

// A copy of a state that can be written: it takes memory for what is written to it, and the store
// knows nothing of it. What is written to a branch is gone with it. One thread at a time may use
// it; each branch is a thing of its own.
typedef struct sf_branch {
  // 0: none.
  uint64_t id;
} sf_branch;

// A directive of redis.conf, such as "appendonly" and "yes".
typedef struct sf_setting {
  // Its name.
  const char *name;
  // Its value; several words are separated by spaces, as CONFIG SET takes them.
  const char *value;
} sf_setting;

// What is told each line of a server's log, on the server's thread, which waits for it: with your
// context, a level (0 debug, 1 verbose, 2 notice, 3 warning), and a line that ends with a zero.
typedef void (*sf_on_log)(void *context, int32_t level, const char *line);

// A server that speaks Redis's protocol, in this process, with a directory of its own. It runs on
// a thread of its own and opens no port unless the settings name one. Several share nothing. Any
// thread may open clients of it. A library that was made with `FEATURES=` has none of this.
typedef struct sf_server {
  // 0: none.
  uint64_t id;
} sf_server;

// A connection to a server in this process. One thread at a time may use it.
typedef struct sf_client {
  // 0: none.
  uint64_t id;
} sf_client;

// A reply, or a part of one. The caller owns the root, the library what it leads to, until
// `sf_reply_free`. Copies of the struct lead to the same.
typedef struct sf_reply {
  // Says which of the fields count; the others are zero.
  sf_kind kind;
  // Zero.
  uint32_t reserved;
  // See `sf_kind`.
  int64_t integer;
  // See `sf_kind`.
  double number;
  // See `sf_kind`: any bytes, and a zero behind them that does not count.
  const char *bytes;
  // Bytes in `bytes`.
  size_t length;
  // See `sf_kind`: an array.
  const struct sf_reply *children;
  // Nodes in `children`.
  size_t count;
  // Of the root: what `sf_reply_free` frees.
  uint64_t tree;
} sf_reply;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Sets every field to its default: `sf_options_init(&options, sizeof options, NULL)`.
sf_code sf_options_init(struct sf_options *options, size_t size, struct sf_error *error);

// Opens the store in `directory`, which is created if need be: the newest sound checkpoint, then
// the acts of the log since, or zeros if it never held a state. `sf_store_recovery` says which.
// Nothing is lost by trying again.
sf_code sf_store_open(const char *directory,
                      const struct sf_options *options,
                      struct sf_store *store,
                      struct sf_error *error);

// The state as it was in the past, in a new store in the directory `target`, durably. The store in
// `source` must not be open, and stays as it is. `until` is an `sf_until`, and `value` its number
// or time; the options must ask for a log. How far it goes back: `sf_options.keep_...`.
sf_code sf_store_rewind(const char *source,
                        uint32_t until,
                        uint64_t value,
                        const char *target,
                        const struct sf_options *options,
                        struct sf_store *store,
                        struct sf_error *error);

// Waits for the checkpoint under way, takes a last one if the options say so, makes the log
// durable, and gives the directory free. The handle names nothing afterwards. Views and branches
// live on.
//
// After a failure (a full disk) the store is open as before: close it again, or discard it.
sf_code sf_store_close(struct sf_store store, struct sf_error *error);

// Ends a store as a crash would: the act under way is undone, the checkpoint under way given up.
// Records in the log are still written. A poisoned store can only be discarded.
sf_code sf_store_discard(struct sf_store store, struct sf_error *error);

// Words of state.
sf_code sf_store_words(struct sf_store store, uint64_t *words, struct sf_error *error);

// Grows the state to `words` words, the new ones zero; never shrinks it. With a log, within an act
// alone. Undoing the act keeps the length.
sf_code sf_store_grow(struct sf_store store, uint64_t words, struct sf_error *error);

// The latest value of a word, which the act under way may have written.
sf_code sf_store_read(struct sf_store store,
                      uint64_t index,
                      uint64_t *value,
                      struct sf_error *error);

// The latest values of the `count` words from `start` on.
sf_code sf_store_read_run(struct sf_store store,
                          uint64_t start,
                          uint64_t *values,
                          size_t count,
                          struct sf_error *error);

// Replaces a word. With a log, within an act alone.
sf_code sf_store_write(struct sf_store store,
                       uint64_t index,
                       uint64_t value,
                       struct sf_error *error);

// Replaces the `count` words from `start` on. With a log, within an act alone.
sf_code sf_store_write_run(struct sf_store store,
                           uint64_t start,
                           const uint64_t *values,
                           size_t count,
                           struct sf_error *error);

// Replaces `count` words in any places, in this order: faster than one by one. If one is out of
// bounds, none is written. With a log, within an act alone; see `sf_act`.
sf_code sf_store_write_many(struct sf_store store,
                            const uint64_t *indices,
                            const uint64_t *values,
                            size_t count,
                            struct sf_error *error);

// Begins an act: what is written until `sf_act_commit` happens whole or not at all. A store has
// one at a time. No checkpoint or view begins meanwhile.
sf_code sf_act_begin(struct sf_store store, struct sf_error *error);

// Ends the act under way, and declares a point. With a log, its words become one record, whose
// number is left in `record` (unless null); `sf_store_wait_durable` waits for it. An act that
// changed nothing leaves the number of the last record.
//
// After a failure the act is undone.
sf_code sf_act_commit(struct sf_store store, uint64_t *record, struct sf_error *error);

// Undoes the act under way: all words are what they were.
sf_code sf_act_undo(struct sf_store store, struct sf_error *error);

// A whole act in one call: replaces `count` words in any places, in this order, all or none. For
// languages in which a call of C is dear.
sf_code sf_act(struct sf_store store,
               const uint64_t *indices,
               const uint64_t *values,
               size_t count,
               uint64_t *record,
               struct sf_error *error);

// Declares that the state is valid now, by the application's own rules. If a checkpoint is due, it
// begins here, in microseconds, and its number is left in `checkpoint` (unless null), else 0. A
// commit is a point, too.
sf_code sf_store_point(struct sf_store store, uint64_t *checkpoint, struct sf_error *error);

// The number of the last record that is certain to survive; 0: none. Any thread, at any time.
sf_code sf_store_durable(struct sf_store store, uint64_t *record, struct sf_error *error);

// Returns when the records up to this one are certain to survive, whatever the policy. Any thread,
// at any time: others may commit meanwhile, and one sync serves all who wait.
sf_code sf_store_wait_durable(struct sf_store store, uint64_t record, struct sf_error *error);

// Begins a checkpoint here, in microseconds, and leaves its number in `checkpoint` (unless null).
// The state must be valid, as at a point. If one is under way, it leaves 0, and the next begins at
// the first point after that has ended.
sf_code sf_checkpoint_begin(struct sf_store store, uint64_t *checkpoint, struct sf_error *error);

// How far the checkpoint under way is.
sf_code sf_checkpoint_progress(struct sf_store store,
                               struct sf_progress *progress,
                               struct sf_error *error);

// Waits for the checkpoint under way, and leaves the number of the last one that ended since this
// was last asked in `checkpoint` (unless null), else 0. A checkpoint that failed is the error: the
// state, and the checkpoints before, are as they were.
sf_code sf_checkpoint_wait(struct sf_store store, uint64_t *checkpoint, struct sf_error *error);

// Gives up the checkpoint under way, if there is one; `sf_checkpoint_wait` returns when it is
// gone.
sf_code sf_checkpoint_cancel(struct sf_store store, struct sf_error *error);

// Counts and times.
sf_code sf_store_stats(struct sf_store store, struct sf_stats *stats, struct sf_error *error);

// What last went wrong with a checkpoint, in a sentence; empty: nothing. A later success does not
// erase it. Left as `sf_store_recovery_text` leaves its text.
sf_code sf_store_last_failure(struct sf_store store,
                              char *text,
                              size_t capacity,
                              size_t *length,
                              struct sf_error *error);

// What was found when the store was opened.
sf_code sf_store_recovery(struct sf_store store,
                          struct sf_recovery *recovery,
                          struct sf_error *error);

// The same in sentences, a line each, for people and logs. Leaves as much as fits into `capacity`
// bytes, with a zero at the end, and in `length` (unless null) the bytes of the whole text without
// that zero.
sf_code sf_store_recovery_text(struct sf_store store,
                               char *text,
                               size_t capacity,
                               size_t *length,
                               struct sf_error *error);

// Keeps the state of now, in microseconds. The state must be valid, as at a point; not within an
// act. Old values are kept until `sf_view_close`: at most 16 bytes for each word that changes.
sf_code sf_view_open(struct sf_store store, struct sf_view *view, struct sf_error *error);

// Words of the state.
sf_code sf_view_words(struct sf_view view, uint64_t *words, struct sf_error *error);

// A word as it was.
sf_code sf_view_read(struct sf_view view, uint64_t index, uint64_t *value, struct sf_error *error);

// The `count` words from `start` on as they were: much faster than one by one.
sf_code sf_view_read_run(struct sf_view view,
                         uint64_t start,
                         uint64_t *values,
                         size_t count,
                         struct sf_error *error);

// Gives a view up; branches of it live on. `SF_BUSY` while a thread reads it.
sf_code sf_view_close(struct sf_view view, struct sf_error *error);

// A reader of this store.
sf_code sf_reader_open(struct sf_store store, struct sf_reader *reader, struct sf_error *error);

// The state at the next point of the store's thread, which this waits for, `timeout_ms`
// milliseconds at most. Never on that thread itself.
sf_code sf_reader_view(struct sf_reader reader,
                       uint64_t timeout_ms,
                       struct sf_view *view,
                       struct sf_error *error);

// Gives a reader up. The views that it got live on.
sf_code sf_reader_close(struct sf_reader reader, struct sf_error *error);

// A branch from the state of now, in microseconds. The state must be valid, as at a point; not
// within an act. It counts as a view.
sf_code sf_branch_open(struct sf_store store, struct sf_branch *branch, struct sf_error *error);

// A branch from the state of a view, which may grow to `words_max` words (0: it cannot).
sf_code sf_branch_of(struct sf_view view,
                     uint64_t words_max,
                     struct sf_branch *branch,
                     struct sf_error *error);

// Another branch, from the state of this one: it takes the time and memory of what was written.
sf_code sf_branch_clone(struct sf_branch branch, struct sf_branch *clone, struct sf_error *error);

// Words of the branch.
sf_code sf_branch_words(struct sf_branch branch, uint64_t *words, struct sf_error *error);

// Grows the branch to `words` words, the new ones zero; never shrinks it.
sf_code sf_branch_grow(struct sf_branch branch, uint64_t words, struct sf_error *error);

// The latest value of a word here.
sf_code sf_branch_read(struct sf_branch branch,
                       uint64_t index,
                       uint64_t *value,
                       struct sf_error *error);

// The latest values of the `count` words from `start` on: much faster than one by one.
sf_code sf_branch_read_run(struct sf_branch branch,
                           uint64_t start,
                           uint64_t *values,
                           size_t count,
                           struct sf_error *error);

// Replaces a word here.
sf_code sf_branch_write(struct sf_branch branch,
                        uint64_t index,
                        uint64_t value,
                        struct sf_error *error);

// Replaces the `count` words from `start` on here.
sf_code sf_branch_write_run(struct sf_branch branch,
                            uint64_t start,
                            const uint64_t *values,
                            size_t count,
                            struct sf_error *error);

// Gives a branch up.
sf_code sf_branch_close(struct sf_branch branch, struct sf_error *error);

// Starts a server whose data is in `directory`, which is created if need be, and returns once it
// has loaded them and serves. `settings` are `count` directives of redis.conf (`stillframe.conf`
// lists them). `on_log` may be null; it and `context` are used until the server has ended.
sf_code sf_server_start(const char *directory,
                        const struct sf_setting *settings,
                        size_t count,
                        sf_on_log on_log,
                        void *context,
                        struct sf_server *server,
                        struct sf_error *error);

// Stops a server as SIGTERM does: saves if the settings have a schedule, ends the log of commands.
// Its clients find the end of their connections. If it cannot save, it goes on, and this can be
// tried again.
sf_code sf_server_stop(struct sf_server server, struct sf_error *error);

// Stops a server in any case: as `sf_server_stop`, but if it cannot save, that is lost.
sf_code sf_server_discard(struct sf_server server, struct sf_error *error);

// A new connection, as a client's over a unix socket.
sf_code sf_client_open(struct sf_server server, struct sf_client *client, struct sf_error *error);

// How long a reply may take; 0: for ever, the default. After an `SF_TIMEOUT` the reply may still
// come: `sf_receive` waits for it again.
sf_code sf_client_timeout(struct sf_client client, uint64_t timeout_ms, struct sf_error *error);

// Sends a request of `count` arguments, the command first, and waits for its reply, which
// `sf_reply_free` frees. Without `lengths` (null) each argument ends with a zero. A request that
// the server refuses is `SF_OK` with a reply `SF_REFUSAL`. Messages of RESP3 that come before the
// reply wait for `sf_receive`. `SF_ARGUMENT`, and nothing is sent: the request has no single reply
// (`CLIENT REPLY OFF`, `SUBSCRIBE`; use `sf_send`), or the replies of `sf_send` come first.
sf_code sf_execute(struct sf_client client,
                   size_t count,
                   const char *const *args,
                   const size_t *lengths,
                   struct sf_reply *reply,
                   struct sf_error *error);

// Adds a request to those that the next `sf_receive` sends: a pipeline.
sf_code sf_send(struct sf_client client,
                size_t count,
                const char *const *args,
                const size_t *lengths,
                struct sf_error *error);

// Sends what was added, and waits for the next reply, or message of a subscription.
sf_code sf_receive(struct sf_client client, struct sf_reply *reply, struct sf_error *error);

// Ends a connection.
sf_code sf_client_close(struct sf_client client, struct sf_error *error);

// Frees a reply with all that it leads to, and makes it an `SF_NO_REPLY`; so it may be called
// again. Of a root alone: a child has nothing to free.
sf_code sf_reply_free(struct sf_reply *reply, struct sf_error *error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* STILLFRAME_H */
