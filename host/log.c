/* What the host says, and the texts of its errors. */
#include "host.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void one_line(char *text)
{
    for (; *text != '\0'; text++)
        if (*text == '\n' || *text == '\r') *text = ' ';
}

void TENON_CALL host_log_line(void *host, uint32_t level, const char *text)
{
    tenon_host *self = host;

    if (self->log != NULL)
        self->log(self->log_context, level, text);
    else if (level <= TENON_LOG_WARNING)
        fprintf(stderr, "%s\n", text);
}

void host_say(tenon_host *host, uint32_t level, const char *format, ...)
{
    char text[1024] = "tenon: ";
    size_t used = strlen(text);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text + used, sizeof text - used, format, arguments);
    va_end(arguments);
    one_line(text);
    host_log_line(host, level, text);
}

void link_name_answer(const session_link *link, tenon_error *error)
{
    char text[sizeof error->text];

    memcpy(text, error->text, sizeof text);
    snprintf(error->text, sizeof error->text, "%.31s:%u: %.160s",
             provider_id(link->device->provider), link->device->index, text);
}

int32_t fail_text(tenon_error *error, int32_t status, uint32_t reason, uint32_t scope,
                  uint64_t wanted, uint64_t available, const char *format, ...)
{
    char text[sizeof error->text];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return tenon_fail_amount(error, status, reason, scope, wanted, available, text);
}
