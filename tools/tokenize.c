/* `tenon tokenize MODEL`: the ids a text becomes, and the pieces they stand for. */
#include "command.h"
#include "engine/tokenizer.h"
#include "gguf.h"
#include "json.h"
#include "options.h"
#include "terminal.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct request {
    options parsed;
    const char *prompt, *file; /* at most one; none: standard input */
    bool begin;
    char *text;
    size_t length;
} request;

static int parse(request *self, int argc, char **argv)
{
    const option_entry entries[] = {
        {"prompt", OPTION_ANY, &self->prompt, 0, 0, NULL, "TEXT", "the text", NULL},
        {"file", OPTION_TEXT, &self->file, 0, 0, NULL, "FILE", "a file with the text", NULL},
        {"bos", OPTION_FLAG, &self->begin, 0, 0, NULL, NULL, "put the model's begin token first",
         NULL},
        {0},
    };
    const option_usage usage = {
        "tokenize",
        "MODEL [-p TEXT | -f FILE] [--bos] [--json]",
        "Prints the token ids of a text, by the vocabulary of a GGUF model, and the piece each "
        "one\n"
        "stands for. Without -p and -f the text is read from standard input. Special tokens in "
        "the\n"
        "text are recognised.\n\n"
        "  tenon tokenize model.gguf -p \"Hello, world\"\n\n"
        "With --json: {\"schema\":1,\"ids\":[...],\"pieces\":[...]}. A piece is a string, or, when "
        "its\n"
        "bytes alone are no UTF-8 (a part of a character), {\"bytes\":\"f09f\"}, the bytes in\n"
        "hexadecimal: the bytes of all pieces in a row are the text again.\n",
        entries,
        1,
        1,
        "p:prompt|f:file"};
    int status = options_parse(&self->parsed, &usage, argc, argv);
    if (status != OPTIONS_GO_ON) return status;
    if (self->prompt == NULL || self->file == NULL) return OPTIONS_GO_ON;
    options_free(&self->parsed);
    return options_usage_error("tokenize", "-p and -f exclude each other");
}

static int fail_read(const char *path, const char *why)
{
    char shown[300];
    terminal_error("%s: %s", text_escape(shown, sizeof shown, path, strlen(path)), why);
    return EXIT_REFUSED;
}

/* Everything that can be read from a file or pipe. */
static int read_all(request *self, int fd, const char *path)
{
    size_t capacity = 0;
    for (;;) {
        ssize_t n;
        if (self->length == capacity) {
            size_t wanted = capacity == 0 ? 65536 : capacity * 2;
            char *more;
            if (self->length > TOKENIZER_TEXT_LONGEST) return fail_read(path, "longer than 1 GiB");
            more = realloc(self->text, wanted);
            if (more == NULL) {
                fail_read(path, "out of memory");
                return EXIT_FAILED;
            }
            self->text = more;
            capacity = wanted;
        }
        n = read(fd, self->text + self->length, capacity - self->length);
        if (n == 0) return EXIT_GOOD;
        if (n > 0)
            self->length += (size_t)n;
        else if (errno != EINTR)
            return fail_read(path, strerror(errno));
    }
}

static int read_text(request *self)
{
    int fd, status;
    if (self->prompt != NULL) {
        self->length = strlen(self->prompt);
        self->text = malloc(self->length + 1);
        if (self->text == NULL) {
            terminal_error("out of memory");
            return EXIT_FAILED;
        }
        memcpy(self->text, self->prompt, self->length + 1);
        return EXIT_GOOD;
    }
    if (self->file == NULL) return read_all(self, STDIN_FILENO, "standard input");
    fd = open(self->file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) return fail_read(self->file, strerror(errno));
    status = read_all(self, fd, self->file);
    close(fd);
    return status;
}

static bool is_utf8(const char *text, size_t length)
{
    size_t i = 0, n;
    for (; i < length; i += n) {
        n = text_utf8(text + i, length - i);
        if (n == 0) return false;
    }
    return true;
}

static json_t *piece_json(const char *piece, size_t length)
{
    static const char digits[] = "0123456789abcdef";
    char *hex;
    json_t *object;
    size_t i;
    if (is_utf8(piece, length)) return json_text_n(piece, length);
    hex = length <= SIZE_MAX / 2 - 1 ? malloc(length * 2 + 1) : NULL;
    object = hex != NULL ? json_object() : NULL;
    if (object != NULL) {
        for (i = 0; i < length; i++) {
            hex[2 * i] = digits[(unsigned char)piece[i] >> 4];
            hex[2 * i + 1] = digits[(unsigned char)piece[i] & 15];
        }
        json_put(object, "bytes", json_stringn(hex, 2 * length));
    }
    free(hex);
    return object;
}

static bool print_json(const tokenizer *words, const token_list *tokens)
{
    json_t *document = json_document(), *ids = json_array(), *pieces = json_array();
    size_t i, length;
    for (i = 0; i < tokens->count; i++) {
        const char *piece = tokenizer_piece(words, tokens->ids[i], &length);
        json_push(ids, json_integer((json_int_t)tokens->ids[i]));
        json_push(pieces, piece_json(piece, length));
    }
    json_put(document, "ids", ids);
    json_put(document, "pieces", pieces);
    return json_emit(document);
}

static bool print_text(const tokenizer *words, const token_list *tokens)
{
    FILE *out = terminal_out();
    size_t i, length;
    for (i = 0; i < tokens->count; i++) {
        const char *piece = tokenizer_piece(words, tokens->ids[i], &length);
        fprintf(out, "%8" PRIu32 "  '", tokens->ids[i]);
        text_print(out, piece, length);
        fputs("'\n", out);
    }
    return ferror(out) == 0; /* said by terminal_end */
}

int command_tokenize(int argc, char **argv)
{
    request self = {0};
    token_list tokens = {0};
    tokenizer *words = NULL;
    gguf *file = NULL;
    gguf_error error = {{0}};
    const char *path;
    uint64_t lost = 0;
    int status = parse(&self, argc, argv);
    if (status != OPTIONS_GO_ON) return status;
    path = self.parsed.arguments.items[0];
    status = EXIT_REFUSED;
    file = gguf_open(path, &error);
    if (file != NULL) words = tokenizer_open(file, &error);
    if (words == NULL) {
        fail_read(path, error.text);
        goto out;
    }
    if (self.begin && tokenizer_begin(words) == TOKEN_NONE) {
        fail_read(path, "the file names no begin token (tokenizer.ggml.bos_token_id)");
        goto out;
    }
    status = read_text(&self);
    if (status != EXIT_GOOD) goto out;
    if (!tokenizer_encode(words, self.text, self.length, self.begin ? TOKENIZER_BEGIN : 0, &tokens,
                          &lost, &error)) {
        terminal_error("%s", error.text);
        status = EXIT_FAILED;
        goto out;
    }
    if (lost != 0 && !self.parsed.quiet)
        terminal_error("%" PRIu64 " bytes of the text have no token in this vocabulary", lost);
    if (!(self.parsed.json ? print_json : print_text)(words, &tokens)) status = EXIT_FAILED;
out:
    token_list_free(&tokens);
    free(self.text);
    tokenizer_close(words);
    gguf_close(file);
    options_free(&self.parsed);
    return status;
}
