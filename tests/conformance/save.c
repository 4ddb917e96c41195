/* Raw little-endian files of one request (SPEC.md section 3 has the layouts). */
#include "save.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

const char *save_class_name(uint32_t arith)
{
    return arith == TENON_CLASS_A8 ? "a8" : arith == TENON_CLASS_APPROX ? "approx" : "f32";
}

/* rows pieces of row_bytes, stride apart, into <dir>/<base>.<kind>. */
static bool write_rows(const conformance_case *test, const char *base, const char *kind,
                       const void *from, uint64_t rows, uint64_t row_bytes, uint64_t stride)
{
    char path[1024];
    FILE *file;
    uint64_t i;
    bool good = true;
    if (snprintf(path, sizeof path, "%s/%s.%s", test->save_dir, base, kind) >= (int)sizeof path)
        return false;
    file = fopen(path, "wb");
    if (file == NULL) return false;
    for (i = 0; good && i < rows; i++)
        good = fwrite((const uint8_t *)from + i * stride, 1, row_bytes, file) == row_bytes;
    return fclose(file) == 0 && good;
}

/* Appends a word of the line where there is room; format NULL: nothing to say. */
__attribute__((format(printf, 3, 4))) static void add_word(char *line, size_t bytes,
                                                           const char *format, ...)
{
    size_t used = strlen(line);
    va_list arguments;
    if (format == NULL) return;
    va_start(arguments, format);
    vsnprintf(line + used, bytes - used, format, arguments);
    va_end(arguments);
}

/* The names of all files of a case: its own, without a folder, with its level. False: the save
 * folder cannot be made, which result then says. */
static bool begin(const conformance_case *test, const conformance_target *target, char *base,
                  size_t bytes, conformance_result *result)
{
    size_t i;
    snprintf(base, bytes, "%s%s%s", test->name, target->level != NULL ? "@" : "",
             target->level != NULL ? target->level : "");
    for (i = 0; base[i] != '\0'; i++)
        if (base[i] == '/') base[i] = '-';
    if (mkdir(test->save_dir, 0777) == 0 || errno == EEXIST) return true;
    snprintf(result->repeat, sizeof result->repeat, "cannot make %.300s: %.100s", test->save_dir,
             strerror(errno));
    return false;
}

static void cannot_write(const conformance_case *test, const char *base, conformance_result *result)
{
    snprintf(result->repeat, sizeof result->repeat, "cannot write %.200s/%.200s.*", test->save_dir,
             base);
}

/* What a line says of the provider beside its name. */
static void add_target(char *line, size_t bytes, const conformance_target *target)
{
    uint64_t i;
    add_word(line, bytes, target->file != NULL ? " --provider-dir '%s'" : NULL, target->file);
    for (i = 0; i < target->config_count; i++)
        add_word(line, bytes, " --set '%s'", target->config[i]);
    add_word(line, bytes, target->level != NULL ? " --level %s" : NULL, target->level);
}

void save_request(const problem *of, const problem_request *request, uint32_t output,
                  const guarded *y, uint64_t guard_words, uint32_t threads,
                  const conformance_case *test, const conformance_target *target,
                  conformance_result *result)
{
    tenon_weight_desc desc = of->desc;
    tenon_format_info info;
    uint64_t first = request->output[output].first_row, weights_bytes, scales_bytes;
    uint64_t row = desc.rows * 4, cols = desc.cols * 4;
    char base[200], extra[900] = "", group[24];
    uint32_t reason;
    bool good;
    desc.rows = request->output[output].rows;
    if (tenon_weight_bytes(&desc, &weights_bytes, &scales_bytes, &reason) != TENON_OK ||
        !tenon_format_find(desc.format, &info))
        return;
    if (!begin(test, target, base, sizeof base, result)) return;
    good = write_rows(test, base, "weights", of->weights + data_weight_offset(&of->desc, first), 1,
                      weights_bytes, 0) &&
           (scales_bytes == 0 ||
            write_rows(test, base, "scales", of->scales + data_scale_offset(&of->desc, first), 1,
                       scales_bytes, 0)) &&
           write_rows(test, base, "x", of->x[1].data + request->first_token * of->x_stride[1],
                      request->tokens, cols, of->x_stride[1]) &&
           write_rows(test, base, "expected",
                      of->expected + request->first_token * of->desc.rows + first, request->tokens,
                      desc.rows * 4, row) &&
           write_rows(test, base, "got", y->data + guard_words * 4, request->tokens, desc.rows * 4,
                      desc.rows * 4 + request->output[output].y_pad);
    if (!good) {
        cannot_write(test, base, result);
        return;
    }
    add_target(extra, sizeof extra, target);
    add_word(extra, sizeof extra, desc.layout != TENON_LAYOUT_NONE ? " --layout %s" : NULL,
             desc.layout == TENON_LAYOUT_PLANAR ? "planar" : "pair");
    snprintf(group, sizeof group, "%llu", (unsigned long long)desc.group_size);
    add_word(extra, sizeof extra, desc.group_size != 0 ? " --group %s" : NULL, group);
    add_word(extra, sizeof extra, scales_bytes != 0 ? " --scales '%s.scales'" : NULL, base);
    snprintf(result->repeat, sizeof result->repeat,
             "cd '%.400s' && tenon op qmatmul --provider %.31s:%u --mode pin --arith %s "
             "--threads %u --format %s --rows %llu --cols %llu --tokens %llu%s "
             "--weights '%s.weights' --x '%s.x' --out '%s.again' && cmp '%s.again' '%s.expected'",
             test->save_dir, target->id, target->device, save_class_name(test->arith), threads,
             info.text, (unsigned long long)desc.rows, (unsigned long long)desc.cols,
             (unsigned long long)request->tokens, extra, base, base, base, base, base);
}

void save_operation(const save_call *call, const void *got, const void *expected, uint32_t threads,
                    const conformance_case *test, const conformance_target *target,
                    conformance_result *result)
{
    const save_part *y = &call->result;
    char base[200], words[1800] = "", *line = result->repeat;
    uint32_t i;
    bool good;
    if (call->operation == NULL || !begin(test, target, base, sizeof base, result)) return;
    good = write_rows(test, base, "expected", expected, y->rows, y->row_bytes, y->stride) &&
           write_rows(test, base, "got", got, y->rows, y->row_bytes, y->stride);
    for (i = 0; good && i < call->part_count; i++) {
        const save_part *part = &call->parts[i];
        good = write_rows(test, base, part->option, part->data, part->rows, part->row_bytes,
                          part->stride);
        add_word(words, sizeof words, " --%s", part->option);
        add_word(words, sizeof words, " '%s.", base);
        add_word(words, sizeof words, "%s'", part->option);
    }
    if (!good) {
        cannot_write(test, base, result);
        return;
    }
    add_target(words, sizeof words, target);
    snprintf(line, sizeof result->repeat,
             "cd '%.400s' && tenon op %s --provider %.31s:%u --mode pin --threads %u%s%s "
             "--out '%s.again' && cmp '%s.again' '%s.expected'",
             test->save_dir, call->operation, target->id, target->device, threads, call->words,
             words, base, base, base);
}
