#include "output_file.h"
#include "terminal.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool say(const output_file *self, const char *doing, int error)
{
    char name[300];
    terminal_error("%s: %s: %s", text_escape(name, sizeof name, self->path, strlen(self->path)),
                   doing, strerror(error));
    return false;
}

static void clear(output_file *self)
{
    if (self->temporary != NULL) terminal_forget(self->temporary);
    free(self->temporary);
    free(self->path);
    memset(self, 0, sizeof *self);
}

/* What is to be replaced, links followed, and whether it is a device. */
static bool judge_target(output_file *self, const char *path, bool *device)
{
    struct stat state;
    char *real;
    *device = false;
    self->path = strdup(path);
    if (self->path == NULL) {
        terminal_error("out of memory");
        return false;
    }
    if (stat(path, &state) != 0) return true; /* not there: that is as it should be */
    *device = S_ISCHR(state.st_mode);
    if (*device) return true;
    if (!S_ISREG(state.st_mode)) {
        char name[300];
        terminal_error("%s: is not a regular file",
                       text_escape(name, sizeof name, path, strlen(path)));
        return false;
    }
    real = realpath(path, NULL);
    if (real == NULL) return say(self, "cannot be written", errno);
    free(self->path);
    self->path = real;
    return true;
}

/* Makes a file of a name of its own beside the target, readable as the user's umask says. */
static int open_temporary(output_file *self)
{
    static const char ending[] = ".XXXXXX";
    size_t length = strlen(self->path);
    mode_t mask;
    int fd;
    self->temporary = malloc(length + sizeof ending);
    if (self->temporary == NULL) {
        terminal_error("out of memory");
        return -1;
    }
    memcpy(self->temporary, self->path, length);
    memcpy(self->temporary + length, ending, sizeof ending);
    /* remembered first: between mkstemp and remembering it an interrupt would leave it behind;
     * removing a name that ends in XXXXXX when there is no such file does no harm */
    if (!terminal_remember(self->temporary)) {
        terminal_error("too many unfinished files");
        return -1;
    }
    fd = mkostemp(self->temporary, O_CLOEXEC);
    if (fd < 0) {
        say(self, "cannot be written", errno);
        return -1;
    }
    mask = umask(0);
    umask(mask);
    if (fchmod(fd, 0666 & ~mask) == 0) return fd;
    say(self, "cannot be written", errno);
    close(fd);
    unlink(self->temporary);
    return -1;
}

bool output_file_begin(output_file *self, const char *path)
{
    bool device;
    int fd;
    memset(self, 0, sizeof *self);
    if (!judge_target(self, path, &device)) {
        clear(self);
        return false;
    }
    if (device) {
        fd = open(self->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0) say(self, "cannot be written", errno);
    } else {
        fd = open_temporary(self);
    }
    if (fd < 0) {
        clear(self);
        return false;
    }
    self->stream = fdopen(fd, "wb");
    if (self->stream != NULL) return true;
    say(self, "cannot be written", errno);
    close(fd);
    if (self->temporary != NULL) unlink(self->temporary);
    clear(self);
    return false;
}

bool output_file_commit(output_file *self)
{
    bool good = true;
    if (self->stream == NULL) return false;
    if (ferror(self->stream) != 0) good = say(self, "cannot be written", EIO);
    if (fclose(self->stream) != 0 && good) good = say(self, "cannot be written", errno);
    self->stream = NULL;
    if (self->temporary != NULL) {
        if (good && rename(self->temporary, self->path) != 0)
            good = say(self, "cannot be put in place", errno);
        if (!good) unlink(self->temporary);
    }
    clear(self);
    return good;
}

void output_file_abandon(output_file *self)
{
    if (self->stream == NULL) return;
    fclose(self->stream);
    if (self->temporary != NULL) unlink(self->temporary);
    clear(self);
}

bool output_file_write(const char *path, const void *bytes, uint64_t size)
{
    output_file file;
    if (!output_file_begin(&file, path)) return false;
    if (size > 0 && fwrite(bytes, 1, (size_t)size, file.stream) != size) {
        say(&file, "cannot be written", errno);
        output_file_abandon(&file);
        return false;
    }
    return output_file_commit(&file);
}
