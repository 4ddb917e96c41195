/* Writes the seeds of the fuzz targets: small good and nearly good images, and vocabularies.
 *
 *     seed_images FOLDER      makes FOLDER/elf, FOLDER/pe, FOLDER/macho, FOLDER/tokenizer */
#include "../unit/image_build.h"
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

static int written;

static void write_bytes(const char *folder, const char *target, const void *bytes, size_t size)
{
    char path[4096];
    FILE *file;
    snprintf(path, sizeof path, "%s/%s", folder, target);
    if (mkdir(path, 0755) != 0 && errno != EEXIST) {
        perror(path);
        exit(1);
    }
    snprintf(path, sizeof path, "%s/%s/%03d", folder, target, written++);
    file = fopen(path, "wb");
    if (file == NULL || fwrite(bytes, 1, size, file) != size || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

static void write_seed(const char *folder, const char *container, const built *b)
{
    write_bytes(folder, container, b->bytes, b->size);
}

/* fuzz_tokenizer.c says what the parts are. */
static void write_vocabularies(const char *folder)
{
    static const char
        gpt2[] = "\x02\1\1ab\n\1\1abc\n\3\1<s>\n\4\1it's\0a b\nab c\0ab abc <s> it's 42";
    static const char llama[] = "\x05\2\1<unk>\n\1\x90\xe2\x96\x81\n\1\x91"
                                "ab\n\1\x92\xe2\x96\x81"
                                "ab\n\1\x80"
                                "a\n\1\x80"
                                "b\0\0ab ab\nb";
    static const char spelled[] = "\x27\3\1<s>\0\0caf\xc3\xa9 \xf0\x9f\x99\x82 <s>\xff";
    write_bytes(folder, "tokenizer", gpt2, sizeof gpt2 - 1);
    write_bytes(folder, "tokenizer", llama, sizeof llama - 1);
    write_bytes(folder, "tokenizer", spelled, sizeof spelled - 1);
}

int main(int argc, char **argv)
{
    static built b, fat;
    plan p;
    int i;
    if (argc != 2) {
        fprintf(stderr, "usage: seed_images FOLDER\n");
        return 64;
    }
    if (mkdir(argv[1], 0755) != 0 && errno != EEXIST) {
        perror(argv[1]);
        return 1;
    }
    write_vocabularies(argv[1]);
    for (i = 0; i < 3; i++) {
        p = plan_good(ELF_X86_64, ELF_DYN);
        p.old_tables = i == 1;
        p.names[1] = i == 2 ? "qmatmul_v0" : "qmatmul_v1";
        build_elf(&b, &p);
        write_seed(argv[1], "elf", &b);
        p = plan_good(PE_X86_64, PE_DLL);
        p.names[1] = i == 2 ? "qmatmul_v0" : "qmatmul_v1";
        p.needed = i == 1 ? NULL : "kernel32.dll";
        build_pe(&b, &p);
        write_seed(argv[1], "pe", &b);
        p = plan_good(MACHO_AARCH64, MACHO_DYLIB);
        p.old_tables = i == 1;
        build_macho(&b, &p);
        write_seed(argv[1], "macho", &b);
        build_fat(&fat, &b, MACHO_X86_64, &b, MACHO_AARCH64);
        if (i == 2) write_seed(argv[1], "macho", &fat);
    }
    return 0;
}
