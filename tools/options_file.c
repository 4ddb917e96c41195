/* Configuration files: lines "key = value"; blank lines and lines that begin with # mean nothing. */
#include "command.h"
#include "options_internal.h"
#include "terminal.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_LIMIT (1u << 20) /* bytes; a configuration is a page of text */
#define SETTING_LIMIT 4096u

static int fail_line(const char *name, size_t line, const char *text)
{
    char shown[300];
    text_escape(shown, sizeof shown, name, strlen(name));
    terminal_error("%s:%llu: %s", shown, (unsigned long long)line, text);
    return EXIT_REFUSED;
}

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* One line without its newline. A value runs to the end of the line, # included: paths and tags
 * may hold one. */
static int read_line(options *self, const char *name, size_t line, const char *text, size_t length)
{
    const char *sign;
    size_t key, from;
    char setting[SETTING_LIMIT];
    while (length > 0 && blank(text[0])) {
        text++;
        length--;
    }
    while (length > 0 && blank(text[length - 1])) length--;
    if (length == 0 || text[0] == '#') return OPTIONS_GO_ON;
    if (length >= sizeof setting) return fail_line(name, line, "the line is too long");
    if (memchr(text, '\0', length) != NULL) return fail_line(name, line, "holds a zero byte");
    sign = memchr(text, '=', length);
    if (sign == NULL) return fail_line(name, line, "is not 'key = value'");
    key = (size_t)(sign - text);
    from = key + 1;
    while (key > 0 && blank(text[key - 1])) key--;
    while (from < length && blank(text[from])) from++;
    if (!options_key_valid(text, key))
        return fail_line(name, line, "the key is not made of letters, digits, '.', '_' and '-'");
    memcpy(setting, text, key);
    setting[key] = '=';
    memcpy(setting + key + 1, text + from, length - from);
    setting[key + 1 + length - from] = '\0';
    sign = options_own(self, setting, "", "");
    if (sign == NULL || !option_list_add(&self->settings, sign)) {
        terminal_error("out of memory");
        return EXIT_FAILED;
    }
    return OPTIONS_GO_ON;
}

int options_read_text(options *self, const char *name, const char *text, size_t length)
{
    size_t at = 0, line = 1;
    if (length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) at = 3; /* a byte order mark */
    for (; at < length; line++) {
        const char *end = memchr(text + at, '\n', length - at);
        size_t n = end != NULL ? (size_t)(end - (text + at)) : length - at;
        int status = read_line(self, name, line, text + at, n);
        if (status != OPTIONS_GO_ON) return status;
        at += n + 1;
    }
    return OPTIONS_GO_ON;
}

int options_read_file(options *self, const char *path)
{
    struct stat state;
    char shown[300], *text = NULL;
    size_t length = 0;
    int status = EXIT_REFUSED, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    text_escape(shown, sizeof shown, path, strlen(path));
    if (fd < 0 || fstat(fd, &state) != 0) {
        terminal_error("%s: cannot be opened: %s", shown, strerror(errno));
        goto out;
    }
    if (!S_ISREG(state.st_mode)) {
        terminal_error("%s: is not a regular file", shown);
        goto out;
    }
    if (state.st_size > (off_t)FILE_LIMIT) {
        terminal_error("%s: %lld bytes are too many for a configuration, at most %u", shown,
                       (long long)state.st_size, FILE_LIMIT);
        goto out;
    }
    text = malloc((size_t)state.st_size + 1);
    if (text == NULL) {
        terminal_error("out of memory");
        status = EXIT_FAILED;
        goto out;
    }
    while (length < (size_t)state.st_size) {
        ssize_t n = read(fd, text + length, (size_t)state.st_size - length);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            terminal_error("%s: cannot be read: %s", shown, strerror(errno));
            goto out;
        }
        if (n == 0) break;
        length += (size_t)n;
    }
    status = options_read_text(self, path, text, length);
out:
    free(text);
    if (fd >= 0) close(fd);
    return status;
}
