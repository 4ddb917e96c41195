#include "raw_file.h"
#include "command.h"
#include "terminal.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* At most this much in one call: the system takes no more than 2^31 bytes at once. */
#define READ_AT_ONCE (UINT64_C(1) << 30)

static bool read_all(int fd, uint8_t *to, uint64_t bytes, const char *what, const char *shown)
{
    while (bytes > 0) {
        ssize_t n = read(fd, to, (size_t)(bytes < READ_AT_ONCE ? bytes : READ_AT_ONCE));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            terminal_error("%s %s: %s", what, shown,
                           n < 0 ? strerror(errno) : "became shorter while it was read");
            return false;
        }
        to += n;
        bytes -= (uint64_t)n;
    }
    return true;
}

void *raw_file_read(const char *what, const char *path, uint64_t wanted, int *status)
{
    struct stat state;
    char shown[300];
    void *bytes = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    *status = EXIT_REFUSED;
    text_escape(shown, sizeof shown, path, strlen(path));
    if (fd < 0 || fstat(fd, &state) != 0) {
        terminal_error("%s %s: cannot be opened: %s", what, shown, strerror(errno));
        goto out;
    }
    if (!S_ISREG(state.st_mode)) {
        terminal_error("%s %s: is not a regular file", what, shown);
        goto out;
    }
    if ((uint64_t)state.st_size != wanted) {
        terminal_error("%s %s: has %" PRIu64 " bytes, the shape needs exactly %" PRIu64, what,
                       shown, (uint64_t)state.st_size, wanted);
        goto out;
    }
    bytes = wanted < SIZE_MAX ? malloc((size_t)wanted + 1) : NULL;
    if (bytes == NULL) {
        terminal_error("%s %s: no memory for %" PRIu64 " bytes", what, shown, wanted);
        *status = EXIT_FAILED;
        goto out;
    }
    if (!read_all(fd, bytes, wanted, what, shown)) {
        free(bytes);
        bytes = NULL;
        goto out;
    }
    *status = EXIT_GOOD;
out:
    if (fd >= 0) close(fd);
    return bytes;
}
