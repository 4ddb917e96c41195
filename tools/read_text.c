#include "read_text.h"
#include "command.h"
#include "terminal.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LONGEST ((size_t)1 << 30)

static int failed(const char *path, const char *why, int status)
{
    char shown[300];
    terminal_error("%s: %s", text_escape(shown, sizeof shown, path, strlen(path)), why);
    return status;
}

static int read_all(int fd, const char *path, char **text, size_t *length)
{
    size_t capacity = 0;
    for (;;) {
        ssize_t n;
        if (*length == capacity) {
            size_t wanted = capacity == 0 ? 65536 : capacity * 2;
            char *more;
            if (*length > LONGEST) return failed(path, "longer than 1 GiB", EXIT_REFUSED);
            more = realloc(*text, wanted);
            if (more == NULL) return failed(path, "out of memory", EXIT_FAILED);
            *text = more;
            capacity = wanted;
        }
        n = read(fd, *text + *length, capacity - *length);
        if (n == 0) return EXIT_GOOD;
        if (n > 0)
            *length += (size_t)n;
        else if (errno != EINTR)
            return failed(path, strerror(errno), EXIT_REFUSED);
    }
}

int read_text(const char *path, char **text, size_t *length)
{
    int fd = STDIN_FILENO, status;
    *text = NULL;
    *length = 0;
    if (strcmp(path, "-") != 0) {
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0) return failed(path, strerror(errno), EXIT_REFUSED);
    }
    status = read_all(fd, path, text, length);
    if (fd != STDIN_FILENO) close(fd);
    if (status == EXIT_GOOD) return status;
    free(*text);
    *text = NULL;
    return status;
}
