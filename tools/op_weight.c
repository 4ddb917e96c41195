/* A weight as options and files. */
#include "op_shared.h"
#include "text.h"

#include <inttypes.h>
#include <string.h>
#include <tenon/format.h>

int op_weight_judge(const char *command, op_weight *self, uint32_t semantic)
{
    uint32_t reason;

    if (self->format == NULL) return options_usage_error(command, "--format is missing");
    if (self->rows == 0) return options_usage_error(command, "--rows is missing");
    if (self->cols == 0) return options_usage_error(command, "--cols is missing");
    if (self->weights == NULL) return options_usage_error(command, "--weights is missing");
    self->desc = (tenon_weight_desc){TENON_HEAD(tenon_weight_desc), .format = 0};
    self->desc.format = options_format(self->format);
    if (self->desc.format == TENON_FORMAT_NONE) {
        char shown[80];
        return options_usage_error(
            command, "--format: '%s' is unknown (Q4_0, Q4_K, F16, int4-group, ...)",
            text_escape(shown, sizeof shown, self->format, strlen(self->format)));
    }
    if (self->desc.format == TENON_FORMAT_INT4_ROW || self->desc.format == TENON_FORMAT_INT4_GROUP)
        self->desc.layout = self->layout == 0 ? TENON_LAYOUT_PAIR : TENON_LAYOUT_PLANAR;
    else if (self->layout_given)
        return options_usage_error(command, "--layout is for int4 formats");
    self->desc.group_size = self->group;
    self->desc.rows = self->rows;
    self->desc.cols = self->cols;
    self->desc.semantic = semantic;
    if (tenon_weight_bytes(&self->desc, &self->weights_bytes, &self->scales_bytes, &reason) !=
        TENON_OK) {
        if (reason == TENON_REASON_UNSUPPORTED_GROUP)
            return options_usage_error(command,
                                       self->group == 0 ? "--group is missing for %s"
                                                        : "--group is for int4-group, not %s",
                                       self->format);
        return options_usage_error(command, "%s with %" PRIu64 " rows of %" PRIu64 " inputs: %s",
                                   self->format, self->rows, self->cols, tenon_reason_text(reason));
    }
    if ((self->scales_bytes != 0) != (self->scales != NULL))
        return options_usage_error(command,
                                   self->scales == NULL ? "--scales is missing: %s keeps them apart"
                                                        : "--scales: %s holds its own",
                                   self->format);
    return OPTIONS_GO_ON;
}
