/*
** What the parts of C that call Rust share.
*/

#ifndef lift_h
#define lift_h

#include <stddef.h>

/* Bytes that one side lends to the other. */
struct text { const char *bytes; size_t length; };

#endif
