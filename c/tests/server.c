// What the header promises of the server: `scripts/test-c.sh` compiles and runs this.
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static sf_error error;

static sf_server start(const char *directory) {
    sf_setting settings[] = {{"appendonly", "yes"}, {"appendfsync", "always"}, {"save", ""}};
    sf_server server;
    OK(sf_server_start(directory, settings, 3, NULL, NULL, &server, &error));
    return server;
}

static sf_client connect_to(sf_server server) {
    sf_client client;
    OK(sf_client_open(server, &client, &error));
    return client;
}

// The reply to a request in words, which end with a null.
static sf_reply ask(sf_client client, const char *const *words) {
    sf_reply reply;
    size_t count = 0;
    while (words[count] != NULL) count++;
    OK(sf_execute(client, count, words, NULL, &reply, &error));
    return reply;
}

#define ASK(client, ...) ask(client, (const char *const[]){__VA_ARGS__, NULL})

static int is_text(const sf_reply *reply, sf_kind kind, const char *text) {
    return reply->kind == kind && reply->length == strlen(text) &&
           strcmp(reply->bytes, text) == 0;
}

static void replies_are_trees(sf_server server) {
    sf_client client = connect_to(server);
    sf_reply reply = ASK(client, "SET", "key", "value");
    CHECK(is_text(&reply, SF_STATUS, "OK"));
    OK(sf_reply_free(&reply, &error));
    CHECK(reply.kind == SF_NO_REPLY);
    OK(sf_reply_free(&reply, &error));

    // Any bytes, with their lengths.
    const char *const words[] = {"SET", "a\0b", "\0\r\n"};
    const size_t lengths[] = {3, 3, 3};
    OK(sf_execute(client, 3, words, lengths, &reply, &error));
    OK(sf_reply_free(&reply, &error));
    const char *const get[] = {"GET", "a\0b"};
    OK(sf_execute(client, 2, get, lengths, &reply, &error));
    CHECK(reply.kind == SF_BYTES && reply.length == 3 && memcmp(reply.bytes, "\0\r\n", 4) == 0);
    sf_reply copy = reply;
    OK(sf_reply_free(&reply, &error));
    REFUSED(SF_HANDLE, "no reply", sf_reply_free(&copy, &error));

    reply = ASK(client, "INCRBY", "count", "41");
    CHECK(reply.kind == SF_INTEGER && reply.integer == 41);
    OK(sf_reply_free(&reply, &error));
    reply = ASK(client, "GET", "nothing");
    CHECK(reply.kind == SF_NIL);
    reply = ASK(client, "INCR", "key");
    CHECK(reply.kind == SF_REFUSAL && strstr(reply.bytes, "not an integer") != NULL);
    OK(sf_reply_free(&reply, &error));
    reply = ASK(client, "EVAL", "return {1, {'a', false}, 'b'}", "0");
    CHECK(reply.kind == SF_ARRAY && reply.count == 3 && reply.children[0].integer == 1);
    const sf_reply *inner = &reply.children[1];
    CHECK(inner->kind == SF_ARRAY && inner->count == 2);
    CHECK(is_text(&inner->children[0], SF_BYTES, "a") && inner->children[1].kind == SF_NIL);
    CHECK(is_text(&reply.children[2], SF_BYTES, "b"));
    OK(sf_reply_free(&reply, &error));

    reply = ASK(client, "HELLO", "3");
    CHECK(reply.kind == SF_MAP && reply.count % 2 == 0);
    OK(sf_reply_free(&reply, &error));
    reply = ASK(client, "ZADD", "scores", "1.5", "one");
    reply = ASK(client, "ZSCORE", "scores", "one");
    CHECK(reply.kind == SF_DOUBLE && reply.number == 1.5);
    OK(sf_client_close(client, &error));
    REFUSED(SF_HANDLE, "no client", sf_client_close(client, &error));
    REFUSED(SF_HANDLE, "no client", sf_execute(client, 3, words, lengths, &reply, &error));
}

static void requests_travel_together(sf_server server) {
    enum { REQUESTS = 20000 };
    sf_client client = connect_to(server);
    const char *const words[] = {"INCR", "together"};
    for (int i = 0; i < REQUESTS; i++) OK(sf_send(client, 2, words, NULL, &error));
    sf_reply reply;
    for (int i = 1; i <= REQUESTS; i++) {
        OK(sf_receive(client, &reply, &error));
        CHECK(reply.kind == SF_INTEGER && reply.integer == i);
    }
    OK(sf_client_timeout(client, 1, &error));
    REFUSED(SF_TIMEOUT, "in time", sf_receive(client, &reply, &error));
    CHECK(reply.kind == SF_NO_REPLY);
    OK(sf_client_close(client, &error));
}

// Two connections of RESP3: messages come between requests, and none is taken for a reply.
static void messages_are_no_replies(sf_server server) {
    enum { KEYS = 100 };
    sf_client client = connect_to(server), other = connect_to(server);
    sf_reply reply = ASK(client, "HELLO", "3");
    OK(sf_reply_free(&reply, &error));
    reply = ASK(client, "CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "tracked");
    CHECK(is_text(&reply, SF_STATUS, "OK"));
    OK(sf_reply_free(&reply, &error));
    for (int i = 0; i < KEYS; i++) {
        reply = ASK(other, "INCR", "tracked");
        CHECK(reply.integer == i + 1);
    }
    reply = ASK(client, "GET", "tracked");
    CHECK(is_text(&reply, SF_BYTES, "100"));
    OK(sf_reply_free(&reply, &error));
    for (int i = 0; i < KEYS; i++) {
        OK(sf_receive(client, &reply, &error));
        CHECK(reply.kind == SF_PUSH && reply.count == 2);
        CHECK(is_text(&reply.children[0], SF_BYTES, "invalidate"));
        CHECK(is_text(&reply.children[1].children[0], SF_BYTES, "tracked"));
        OK(sf_reply_free(&reply, &error));
    }

    // Replies of sf_send come first, and one that is late is received later.
    const char *const ping[] = {"PING"}, *const pop[] = {"BLPOP", "late", "0"};
    OK(sf_send(client, 1, ping, NULL, &error));
    REFUSED(SF_ARGUMENT, "1 replies", sf_execute(client, 1, ping, NULL, &reply, &error));
    OK(sf_receive(client, &reply, &error));
    CHECK(is_text(&reply, SF_STATUS, "PONG"));
    OK(sf_reply_free(&reply, &error));
    OK(sf_client_timeout(client, 1, &error));
    REFUSED(SF_TIMEOUT, "in time", sf_execute(client, 3, pop, NULL, &reply, &error));
    REFUSED(SF_ARGUMENT, "1 replies", sf_execute(client, 1, ping, NULL, &reply, &error));
    OK(sf_client_timeout(client, 0, &error));
    reply = ASK(other, "RPUSH", "late", "element");
    OK(sf_receive(client, &reply, &error));
    CHECK(reply.kind == SF_ARRAY && is_text(&reply.children[1], SF_BYTES, "element"));
    OK(sf_reply_free(&reply, &error));

    // A subscription is sent and received.
    const char *const subscribe[] = {"SUBSCRIBE", "channel"};
    REFUSED(SF_ARGUMENT, "no single reply", sf_execute(client, 2, subscribe, NULL, &reply, &error));
    OK(sf_send(client, 2, subscribe, NULL, &error));
    for (int i = 0; i < 2; i++) {
        OK(sf_receive(client, &reply, &error));
        CHECK(reply.kind == SF_PUSH && reply.count == 3);
        CHECK(is_text(&reply.children[0], SF_BYTES, i == 0 ? "subscribe" : "message"));
        OK(sf_reply_free(&reply, &error));
        if (i == 0) reply = ASK(other, "PUBLISH", "channel", "text");
    }
    REFUSED(SF_ARGUMENT, "messages", sf_execute(client, 1, ping, NULL, &reply, &error));
    OK(sf_client_close(client, &error));
    OK(sf_client_close(other, &error));
}

// The port for TLS, as another program finds it.
static void tls_is_served(const char *folder) {
    if (system("command -v openssl >/dev/null") != 0) {
        printf("!!! SKIPPED: C: TLS: openssl is missing\n");
        return;
    }
    char port[8], certificate[600], key[600];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    // It holds its port, so that nobody else is given it, and does not listen.
    int holder = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    CHECK(setsockopt(holder, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0);
    CHECK(bind(holder, (struct sockaddr *)&address, length) == 0);
    CHECK(getsockname(holder, (struct sockaddr *)&address, &length) == 0);
    snprintf(port, sizeof port, "%d", ntohs(address.sin_port));
    snprintf(certificate, sizeof certificate, "%s/certificate.pem", folder);
    snprintf(key, sizeof key, "%s/key.pem", folder);
    CHECK(setenv("PORT", port, 1) == 0 && setenv("KEY", key, 1) == 0);
    CHECK(setenv("CERTIFICATE", certificate, 1) == 0);
    CHECK(system("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext "
                 "subjectAltName=DNS:localhost -keyout \"$KEY\" -out \"$CERTIFICATE\" 2>/dev/null") == 0);

    sf_setting settings[] = {{"tls-port", port}, {"tls-auth-clients", "no"},
                             {"tls-cert-file", certificate}, {"tls-key-file", key}};
    sf_server server;
    const char *path = in_folder(folder, "tls");
    REFUSED(SF_SETTING, "tls-cert-file",
            sf_server_start(path, settings, 2, NULL, NULL, &server, &error));
    OK(sf_server_start(path, settings, 4, NULL, NULL, &server, &error));
#define INCR_BY_TLS(flags)                                                                   \
    system("printf 'INCR key\\r\\nQUIT\\r\\n' | timeout 60 openssl s_client -quiet "           \
           "-verify_return_error " flags " -connect localhost:$PORT 2>/dev/null | grep -q ^:1")
    CHECK(INCR_BY_TLS("") != 0); // trusts nobody
    CHECK(INCR_BY_TLS("-CAfile \"$CERTIFICATE\"") == 0);
    sf_client client = connect_to(server);
    sf_reply reply = ASK(client, "GET", "key");
    CHECK(is_text(&reply, SF_BYTES, "1"));
    OK(sf_reply_free(&reply, &error));
    OK(sf_client_close(client, &error));
    OK(sf_server_stop(server, &error));
    CHECK(close(holder) == 0);
}

static void *wait_for_an_element(void *of) {
    sf_client client = *(sf_client *)of;
    sf_error told;
    sf_reply reply;
    const char *const words[] = {"BLPOP", "queue", "0"};
    CHECK(sf_execute(client, 3, words, NULL, &reply, &told) == SF_OK);
    CHECK(reply.count == 2 && is_text(&reply.children[1], SF_BYTES, "element"));
    CHECK(sf_reply_free(&reply, &told) == SF_OK);
    return NULL;
}

static void a_thread_waits_while_another_works(sf_server server) {
    sf_client waits = connect_to(server), works = connect_to(server);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, wait_for_an_element, &waits) == 0);
    sf_reply reply;
    do {
        sf_reply before = ASK(works, "CLIENT", "LIST");
        reply = before;
        int blocked = strstr(before.bytes, "cmd=blpop") != NULL;
        OK(sf_reply_free(&before, &error));
        if (blocked) break;
    } while (1);
    const char *const ping[] = {"PING"};
    REFUSED(SF_BUSY, "another thread", sf_execute(waits, 1, ping, NULL, &reply, &error));
    REFUSED(SF_BUSY, "another thread", sf_client_close(waits, &error));
    reply = ASK(works, "RPUSH", "queue", "element");
    CHECK(pthread_join(thread, NULL) == 0);
    OK(sf_client_close(waits, &error));
    OK(sf_client_close(works, &error));
}

static void wrong_calls_get_an_answer(const char *folder, sf_server server) {
    const char *path = in_folder(folder, "wrong");
    sf_server none;
    sf_setting unknown = {"no-such-thing", "1"}, bad = {"appendonly", "maybe"}, null = {"save", NULL};
    sf_setting process = {"daemonize", "yes"};
    REFUSED(SF_SETTING, "no-such-thing",
            sf_server_start(path, &unknown, 1, NULL, NULL, &none, &error));
    REFUSED(SF_SETTING, "appendonly", sf_server_start(path, &bad, 1, NULL, NULL, &none, &error));
    REFUSED(SF_SETTING, "daemonize", sf_server_start(path, &process, 1, NULL, NULL, &none, &error));
    REFUSED(SF_NULL, "value", sf_server_start(path, &null, 1, NULL, NULL, &none, &error));
    REFUSED(SF_NULL, "settings", sf_server_start(path, NULL, 1, NULL, NULL, &none, &error));
    REFUSED(SF_NULL, "directory", sf_server_start(NULL, NULL, 0, NULL, NULL, &none, &error));
    REFUSED(SF_NULL, "`server`", sf_server_start(path, NULL, 0, NULL, NULL, NULL, &error));
    REFUSED(SF_LOCKED, "uses the data directory",
            sf_server_start(in_folder(folder, "data"), NULL, 0, NULL, NULL, &none, &error));
    REFUSED(SF_HANDLE, "no server", sf_server_stop(none, &error));
    REFUSED(SF_HANDLE, "no server", sf_server_stop((sf_server){server.id + 1}, &error));
    sf_client client = connect_to(server);
    sf_reply reply;
    const char *const words[] = {"GET", NULL};
    REFUSED(SF_ARGUMENT, "`count` is 0", sf_execute(client, 0, words, NULL, &reply, &error));
    REFUSED(SF_NULL, "`args`", sf_execute(client, 1, NULL, NULL, &reply, &error));
    REFUSED(SF_NULL, "args[..]", sf_execute(client, 2, words, NULL, &reply, &error));
    REFUSED(SF_NULL, "args[..]",
            sf_execute(client, 2, words, (size_t[]){3, 1}, &reply, &error));
    REFUSED(SF_NULL, "`reply`", sf_execute(client, 1, words, NULL, NULL, &error));
    const char *silent[] = {"CLIENT", "REPLY", "OFF"};
    REFUSED(SF_ARGUMENT, "no single reply", sf_execute(client, 3, silent, NULL, &reply, &error));
    reply = ASK(client, "PING");
    CHECK(is_text(&reply, SF_STATUS, "PONG"));
    OK(sf_reply_free(&reply, &error));
    reply = ASK(client, "GET", "key");
    CHECK(is_text(&reply, SF_BYTES, "value"));
    OK(sf_reply_free(&reply, &error));
    OK(sf_client_close(client, &error));
}

static void count_lines(void *context, int32_t level, const char *line) {
    CHECK(level >= 0 && level <= 3 && strlen(line) > 0);
    ++*(int *)context;
}

static void two_servers_share_nothing(const char *folder, sf_server server) {
    int lines = 0;
    sf_setting setting = {"maxmemory", "10mb"};
    sf_server other;
    OK(sf_server_start(in_folder(folder, "other"), &setting, 1, count_lines, &lines, &other,
                       &error));
    sf_client there = connect_to(other), here = connect_to(server);
    sf_reply reply = ASK(there, "DBSIZE");
    CHECK(reply.integer == 0);
    reply = ASK(here, "CONFIG", "GET", "maxmemory");
    CHECK(is_text(&reply.children[1], SF_BYTES, "0"));
    OK(sf_reply_free(&reply, &error));
    OK(sf_server_stop(other, &error));
    CHECK(lines > 0);
    const char *const ping[] = {"PING"};
    REFUSED(SF_CLOSED, "", sf_execute(there, 1, ping, NULL, &reply, &error));
    REFUSED(SF_HANDLE, "no server", sf_server_stop(other, &error));
    OK(sf_client_close(there, &error));
    reply = ASK(here, "PING");
    CHECK(is_text(&reply, SF_STATUS, "PONG"));
    OK(sf_reply_free(&reply, &error));
    OK(sf_client_close(here, &error));
}

static void a_child_inherits_no_server(sf_server server) {
    sf_client client = connect_to(server);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        sf_reply reply;
        const char *const ping[] = {"PING"};
        REFUSED(SF_FORKED, "fork", sf_execute(client, 1, ping, NULL, &reply, &error));
        REFUSED(SF_FORKED, "fork", sf_client_open(server, &client, &error));
        REFUSED(SF_FORKED, "fork", sf_server_stop(server, &error));
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    OK(sf_client_close(client, &error));
}

// A child serves, acknowledges each INCR to a pipe, and is killed.
static void a_killed_program_loses_nothing_acknowledged(const char *folder) {
    const char *path = in_folder(folder, "killed");
    long long acknowledged = 0;
    for (int round = 0; round < 5; round++) {
        int ends[2];
        CHECK(pipe(ends) == 0);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            sf_client client = connect_to(start(path));
            for (;;) {
                sf_reply reply = ASK(client, "INCR", "acknowledged");
                CHECK(reply.kind == SF_INTEGER);
                if (write(ends[1], &reply.integer, sizeof reply.integer) < 0) _exit(1);
            }
        }
        close(ends[1]);
        int64_t told;
        for (int left = 1 + rand() % 50; left > 0; left--) {
            CHECK(read(ends[0], &told, sizeof told) == sizeof told);
            acknowledged = told;
        }
        CHECK(kill(child, SIGKILL) == 0);
        while (read(ends[0], &told, sizeof told) == sizeof told) acknowledged = told;
        close(ends[0]);
        CHECK(waitpid(child, NULL, 0) == child);
    }
    sf_server server = start(path);
    sf_client client = connect_to(server);
    sf_reply reply = ASK(client, "INCRBY", "acknowledged", "0");
    CHECK(reply.integer >= acknowledged && reply.integer <= acknowledged + 1);
    OK(sf_server_discard(server, &error));
    OK(sf_client_close(client, &error));
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s an-empty-directory\n", argv[0]);
        return 2;
    }
    a_killed_program_loses_nothing_acknowledged(argv[1]); // forks, so it comes first
    sf_server server = start(in_folder(argv[1], "data"));
    replies_are_trees(server);
    requests_travel_together(server);
    messages_are_no_replies(server);
    a_thread_waits_while_another_works(server);
    wrong_calls_get_an_answer(argv[1], server);
    two_servers_share_nothing(argv[1], server);
    a_child_inherits_no_server(server);
    tls_is_served(argv[1]);
    OK(sf_server_stop(server, &error));
    server = start(in_folder(argv[1], "data"));
    sf_client client = connect_to(server);
    sf_reply reply = ASK(client, "GET", "count");
    CHECK(is_text(&reply, SF_BYTES, "41"));
    OK(sf_reply_free(&reply, &error));
    OK(sf_client_close(client, &error));
    OK(sf_server_stop(server, &error));
    printf("server: 9 tests\n");
    return 0;
}
