// A server in this process, without a port: what docs/embed/c.md shows.
#include <stdio.h>
#include <stdlib.h>

#include <stillframe.h>

// Ends the program with the library's text.
static void must(sf_code code, const sf_error *error) {
    if (code == SF_OK) return;
    fprintf(stderr, "%d: %s\n", (int)code, error->message);
    exit(1);
}

int main(void) {
    sf_error error;
    sf_server server;
    sf_client client;
    sf_reply reply;

    sf_setting settings[] = {{"appendonly", "yes"}, {"maxmemory", "100mb"}};
    must(sf_server_start("data", settings, 2, NULL, NULL, &server, &error), &error);
    must(sf_client_open(server, &client, &error), &error);

    const char *set[] = {"HSET", "user:1", "name", "Ada", "born", "1815"};
    must(sf_execute(client, 6, set, NULL, &reply, &error), &error);
    must(sf_reply_free(&reply, &error), &error);

    const char *get[] = {"HGETALL", "user:1"};
    must(sf_execute(client, 2, get, NULL, &reply, &error), &error);
    for (size_t i = 0; i + 1 < reply.count; i += 2) {
        printf("%s: %s\n", reply.children[i].bytes, reply.children[i + 1].bytes);
    }
    must(sf_reply_free(&reply, &error), &error);

    must(sf_client_close(client, &error), &error);
    must(sf_server_stop(server, &error), &error); // saves as the settings say
    return 0;
}
