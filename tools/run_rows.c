/* Logits as a .npy file: a header of fixed length, written again when the rows are known. */
#include "run.h"
#include "terminal.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define HEADER 128

static bool write_header(run_rows *self)
{
    unsigned char header[HEADER + 1] = "\x93NUMPY\x01\x00\x76\x00";
    int n = snprintf((char *)header + 10, HEADER - 10,
                     "{'descr': '<f4', 'fortran_order': False, 'shape': (%" PRIu64 ", %" PRIu64
                     "), }",
                     self->rows, self->width);
    size_t used = 10 + (n > 0 ? (size_t)n : 0);
    memset(header + used, ' ', HEADER - 1 - used);
    header[HEADER - 1] = '\n';
    return fwrite(header, 1, HEADER, self->file.stream) == HEADER;
}

static bool failed(void)
{
    terminal_error("--logits: %s", strerror(errno));
    return false;
}

bool run_rows_begin(run_rows *self, const char *path)
{
    memset(self, 0, sizeof *self);
    return output_file_begin(&self->file, path) && (write_header(self) || failed());
}

bool run_rows_add(run_rows *self, const float *row, uint64_t width)
{
    if (self->file.stream == NULL) return true;
    self->width = width;
    self->rows++;
    return fwrite(row, sizeof *row, (size_t)width, self->file.stream) == width || failed();
}

bool run_rows_commit(run_rows *self)
{
    if (self->file.stream == NULL) return true;
    if (fseek(self->file.stream, 0, SEEK_SET) != 0 || !write_header(self)) {
        failed();
        output_file_abandon(&self->file);
        return false;
    }
    return output_file_commit(&self->file);
}

void run_rows_abandon(run_rows *self)
{
    output_file_abandon(&self->file);
}
