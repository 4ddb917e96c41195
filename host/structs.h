/* The struct rules R1, R5 and R7 of SPEC.md 1.3, both ways. */
#ifndef TENON_HOST_STRUCTS_H
#define TENON_HOST_STRUCTS_H

#include <stdbool.h>
#include <tenon/base.h>

/* The largest struct a provider may state, and the room that holds one. */
#define STRUCT_ROOM 1024u

/* The engine's border. Copies theirs into mine, both starting with a head: zero-extended when
 * theirs is shorter, refused when bytes past mine are not zero. name is the type's, for messages.
 * TENON_OK, TENON_ARG (NULL_POINTER, STRUCT_TAIL) or TENON_ABI (STRUCT_SIZE). [any thread] */
int32_t struct_take(void *mine, uint32_t mine_size, const void *theirs, const char *name,
                    tenon_error *error);

/* Looks only at the head of an answer that the engine wants filled. Errors as struct_take. */
int32_t struct_check_out(const void *theirs, const char *name, tenon_error *error);

/* Fills an answer whose head struct_check_out found good: as much as both know; what only the
 * engine knows becomes zero. theirs keeps its head. [any thread] */
void struct_give(void *theirs, const void *mine, uint32_t mine_size);

/* The provider's border. Writes mine as a struct of the size the provider knows: zero-extended or
 * truncated, with that size in its head. false: the bytes cut off are not zero, *offset is the
 * first of them. size is 8 to STRUCT_ROOM. [any thread] */
bool struct_present(void *out, uint32_t size, const void *mine, uint32_t mine_size,
                    uint32_t *offset);

/* An empty answer of the size the provider knows. */
void struct_present_empty(void *out, uint32_t size);

/* Reads an answer of the provider's size into one of ours: up to the smaller, the rest zero. */
void struct_read_answer(void *mine, uint32_t mine_size, const void *answer, uint32_t size);

#endif
