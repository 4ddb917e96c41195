/* Writes the seeds of the image targets: small good and nearly good images.
 *
 *     seed_images FOLDER      makes FOLDER/elf, FOLDER/pe, FOLDER/macho */
#include "../unit/image_build.h"
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

static int written;

static void write_seed(const char *folder, const char *container, const built *b)
{
    char path[4096];
    FILE *file;
    snprintf(path, sizeof path, "%s/%s", folder, container);
    if (mkdir(path, 0755) != 0 && errno != EEXIST) {
        perror(path);
        exit(1);
    }
    snprintf(path, sizeof path, "%s/%s/%03d", folder, container, written++);
    file = fopen(path, "wb");
    if (file == NULL || fwrite(b->bytes, 1, b->size, file) != b->size || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
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
