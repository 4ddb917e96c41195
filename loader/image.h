/* Reading shared objects from bytes, without running any of their code: ELF, PE and Mach-O behind
 * one function. Never reads outside the given bytes, never recurses, takes time linear in size. */
#ifndef TENON_LOADER_IMAGE_H
#define TENON_LOADER_IMAGE_H

#include <loader/fault.h>
#include <loader/loader.h>
#include <loader/names.h>
#include <loader/symbols.h>

typedef struct image {
    loader_image_facts facts;
    uint64_t room[SYMBOL_COUNT];  /* bytes from the descriptor's start to the end of its object, or
                                    of what is mapped there when the format tells no sizes */
    bool id_ended, version_ended; /* their NULs are inside the arrays */
    names search;                 /* run paths, unexpanded */
    names exports, libraries;     /* moved into facts when reading ends */
    loader_fault fault;           /* the first thing that is wrong */
} image;

/* Lists are cut here; longer ones than any real provider has. */
#define IMAGE_MAX_NAME 4096u /* a longer name is cut */
#define IMAGE_MAX_EXPORTS 65536u
#define IMAGE_MAX_EXPORT_BYTES (8u << 20)
#define IMAGE_MAX_LIBRARIES 4096u
#define IMAGE_MAX_LIBRARY_BYTES (1u << 20)

/* Fills *out, which image_clear frees whatever the answer, from size bytes. container and machine
 * ("elf", "x86-64") are what is wanted; anything else is a fault, but is read all the same as far
 * as it can be. A file that cannot be used is TENON_OK with out->fault.reason; TENON_NOMEM. */
int32_t image_read(const uint8_t *bytes, uint64_t size, const char *container, const char *machine,
                   image *out);
void image_clear(image *self);

/* ---- for the three readers ---------------------------------------------------------------- */

/* Bytes and their end; reading past it gives zeros, so that a forgotten check does no harm. */
typedef struct image_bytes {
    const uint8_t *at;
    uint64_t size;
} image_bytes;

static inline bool image_inside(const image_bytes *bytes, uint64_t offset, uint64_t count)
{
    return offset <= bytes->size && count <= bytes->size - offset;
}

static inline uint64_t image_number(const image_bytes *bytes, uint64_t offset, unsigned count)
{
    uint64_t value = 0;
    unsigned i;
    if (!image_inside(bytes, offset, count)) return 0;
    for (i = count; i-- > 0;) value = value << 8 | bytes->at[offset + i];
    return value;
}

static inline uint16_t image_u16(const image_bytes *bytes, uint64_t offset)
{
    return (uint16_t)image_number(bytes, offset, 2);
}

static inline uint32_t image_u32(const image_bytes *bytes, uint64_t offset)
{
    return (uint32_t)image_number(bytes, offset, 4);
}

static inline uint64_t image_u64(const image_bytes *bytes, uint64_t offset)
{
    return image_number(bytes, offset, 8);
}

/* The reader of one container: fills facts, room, lists and the first fault; false: no memory. */
bool image_read_elf(image_bytes file, const char *machine, image *out);
bool image_read_pe(image_bytes file, const char *machine, image *out);
bool image_read_macho(image_bytes file, const char *machine, image *out);

/* Notes a fault unless one was noted before. NULL: not stated. */
void image_fail(image *self, uint32_t reason, const char *have, const char *need);
/* TRUNCATED, with the bytes that are there and those that should be. */
void image_fail_truncated(image *self, uint64_t have, uint64_t need);

/* Where a symbol's bytes are: count of them in the file from offset on, room in memory. */
typedef struct image_place {
    uint64_t offset, count, room;
} image_place;

/* The row of symbols.def with this name (length bytes, no NUL needed), or SYMBOL_COUNT. */
unsigned image_row(const char *name, uint64_t length);
/* Notes an exported name. false: no memory. Lists at their bound stay as they are. */
bool image_export(image *self, const char *name, uint64_t length);
/* How many bytes of a symbol's name are worth reading: few once the list of exports is full, so
 * that a million entries sharing one long name cost no more than their own size. */
uint64_t image_name_limit(const image *self);
/* Notes a needed library; too many are a fault. false: no memory. */
bool image_library(image *self, const char *name, uint64_t length);
/* Notes that row is exported. place NULL: it is not data. */
void image_symbol(image *self, image_bytes file, unsigned row, const image_place *place);

#endif
