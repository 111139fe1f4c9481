// What the test programs share: each claim that fails ends the program with its line.
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stillframe.h>

#define CHECK(claim)                                                              \
    do {                                                                          \
        if (!(claim)) {                                                           \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #claim);   \
            abort();                                                              \
        }                                                                         \
    } while (0)

// The call does what it says.
#define OK(call)                                                                               \
    do {                                                                                       \
        sf_code ok_code = (call);                                                              \
        if (ok_code != SF_OK) {                                                                \
            fprintf(stderr, "%s:%d: %s: %d: %s\n", __FILE__, __LINE__, #call, (int)ok_code,    \
                    error.message);                                                            \
            abort();                                                                           \
        }                                                                                      \
        CHECK(error.code == SF_OK && error.message[0] == 0);                                   \
    } while (0)

// The call is refused with this code, and a text that has this part.
#define REFUSED(expected, part, call)                                                          \
    do {                                                                                       \
        sf_code refused_code = (call);                                                         \
        if (refused_code != (expected) || error.code != (expected) ||                          \
            strstr(error.message, (part)) == NULL) {                                           \
            fprintf(stderr, "%s:%d: %s: %d: %s\n", __FILE__, __LINE__, #call,                  \
                    (int)refused_code, error.message);                                         \
            abort();                                                                           \
        }                                                                                      \
    } while (0)

static inline const char *in_folder(const char *folder, const char *name) {
    static char paths[8][512];
    static unsigned next;
    char joined[sizeof paths[0]];
    CHECK((size_t)snprintf(joined, sizeof joined, "%s/%s", folder, name) < sizeof joined);
    return strcpy(paths[next++ % 8], joined); // good for the next seven calls
}

#endif
