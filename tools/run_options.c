/* The command line of `tenon run`. */
#include "command.h"
#include "run.h"
#include "terminal.h"
#include "text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A number with a point. */
static int parse_real(const char *name, const char *text, double minimum, double maximum,
                      double *out)
{
    char *end = NULL, shown[80];
    double number;
    if (text == NULL) return OPTIONS_GO_ON;
    errno = 0;
    number = strtod(text, &end);
    if (end == text || *end != '\0' || errno != 0 || !isfinite(number) || number < minimum ||
        number > maximum)
        return options_usage_error("run", "--%s: '%s' is not a number from %g to %g", name,
                                   text_escape(shown, sizeof shown, text, strlen(text)), minimum,
                                   maximum);
    *out = number;
    return OPTIONS_GO_ON;
}

static int judge(run_request *self)
{
    int given = (self->prompt != NULL) + (self->file != NULL) + (self->ids != NULL);
    if (given > 1)
        return options_usage_error("run", "--prompt, --file and --tokens exclude each other");
    if (given == 0 && !self->chat)
        return options_usage_error("run", "a prompt is missing: -p TEXT, -f FILE, --tokens or "
                                          "--chat");
    if (self->chat && self->ids != NULL)
        return options_usage_error("run", "--chat and --tokens exclude each other");
    if (self->chat && given == 0 && (self->parsed.json || self->logits != NULL))
        return options_usage_error("run", "%s needs one prompt: -p TEXT or -f FILE",
                                   self->parsed.json ? "--json" : "--logits");
    return placement_judge(&self->on, &self->parsed, "run");
}

int run_parse(run_request *self, int argc, char **argv)
{
    const char *temperature = NULL, *top_p = NULL, *min_p = NULL, *penalty = NULL;
    const option_entry entries[] = {
        {"prompt", OPTION_TEXT, &self->prompt, 0, 0, NULL, "TEXT", "the prompt", NULL},
        {"file", OPTION_TEXT, &self->file, 0, 0, NULL, "FILE", "a file with the prompt", NULL},
        {"tokens", OPTION_TEXT, &self->ids, 0, 0, NULL, "IDS", "the prompt as token ids: 1,2,3",
         NULL},
        {"chat", OPTION_FLAG, &self->chat, 0, 0, NULL, NULL,
         "a conversation in the model's template; with -p one answer", NULL},
        {"count", OPTION_U64, &self->count, 0, UINT32_MAX, NULL, "N",
         "generate at most N tokens; default 128", &self->count_given},
        {"provider", OPTION_TEXT, &self->on.chain, 0, 0, NULL, "CHAIN",
         "providers in order, e.g. vulkan:0,cpu", NULL},
        {"mode", OPTION_CHOICE, &self->on.mode, 0, 0, PLACEMENT_MODES, NULL,
         "pin: only these; prefer: then the reference; auto: the host's order",
         &self->on.mode_given},
        {"arith", OPTION_CHOICE, &self->on.arith, 0, 0, PLACEMENT_CLASSES, NULL,
         "class of arithmetic; default f32", &self->on.arith_given},
        {"ctx", OPTION_U64, &self->context, 1, UINT64_C(1) << 31, NULL, "N",
         "positions of the context; default: what prompt and N need", NULL},
        {"batch", OPTION_U64, &self->batch, 1, 65536, NULL, "N",
         "prompt tokens of one step; default 128", NULL},
        {"kv", OPTION_CHOICE, &self->kv, 0, 0, "f16|f32", NULL, "type of the cache; default f16",
         NULL},
        {"seed", OPTION_U64, &self->sampling.seed, 0, 0, NULL, "N", "of the draw; default 0", NULL},
        {"temp", OPTION_TEXT, &temperature, 0, 0, NULL, "T",
         "0: the likeliest token (default); else draw at temperature T", NULL},
        {"top-k", OPTION_U64, &self->sampling.top_k, 0, 0, NULL, "N",
         "draw from the N likeliest; 0: all (default)", NULL},
        {"top-p", OPTION_TEXT, &top_p, 0, 0, NULL, "P",
         "draw from the likeliest that together have P; default 1", NULL},
        {"min-p", OPTION_TEXT, &min_p, 0, 0, NULL, "P",
         "leave out those below P times the likeliest; default 0", NULL},
        {"repeat-penalty", OPTION_TEXT, &penalty, 0, 0, NULL, "X",
         "make the last tokens less likely; default 1: off", NULL},
        {"repeat-last", OPTION_U64, &self->sampling.repeat_last, 0, 4096, NULL, "N",
         "how many last tokens; default 64", NULL},
        {"ignore-eos", OPTION_FLAG, &self->ignore_end, 0, 0, NULL, NULL,
         "go on behind the end token", NULL},
        {"require-accelerator", OPTION_FLAG, &self->require_accelerator, 0, 0, NULL, NULL,
         "exit with 2 when only processors would compute", NULL},
        {"trace", OPTION_TEXT, &self->trace, 0, 0, NULL, "FILE",
         "gets every operation, for Perfetto or chrome://tracing", NULL},
        {"logits", OPTION_TEXT, &self->logits, 0, 0, NULL, "FILE.npy",
         "gets float32 [steps][vocabulary]; row i chose token i", NULL},
        {0},
    };
    const option_usage usage = {
        "run",
        "MODEL.gguf (-p TEXT | -f FILE | --tokens IDS | --chat) [-n N] [options]",
        "Generates text with a model of the Llama (also SmolLM2) or Gemma 3 family. The text goes\n"
        "to stdout, a short summary to stderr. Ctrl-C ends the run, and the summary still "
        "comes.\n\n"
        "  tenon run model.gguf -p \"Once upon a time\" -n 64\n"
        "  tenon run model.gguf --chat --provider cpu --arith a8 --temp 0.7 --top-p 0.9\n\n"
        "The prompt's begin token is put first when the model was trained with one (not with\n"
        "--tokens).\n",
        entries,
        1,
        1,
        "p:prompt|f:file|n:count"};
    int status;
    memset(self, 0, sizeof *self);
    self->count = RUN_COUNT;
    self->batch = RUN_BATCH;
    self->sampling = (sampler_options){.top_p = 1.0, .repeat_penalty = 1.0, .repeat_last = 64};
    status = options_parse(&self->parsed, &usage, argc, argv);
    if (status != OPTIONS_GO_ON) return status;
    self->model = self->parsed.arguments.items[0];
    status = parse_real("temp", temperature, 0.0, 1e6, &self->sampling.temperature);
    if (status == OPTIONS_GO_ON)
        status = parse_real("top-p", top_p, 0.0, 1.0, &self->sampling.top_p);
    if (status == OPTIONS_GO_ON)
        status = parse_real("min-p", min_p, 0.0, 1.0, &self->sampling.min_p);
    if (status == OPTIONS_GO_ON)
        status = parse_real("repeat-penalty", penalty, 1e-3, 1e3, &self->sampling.repeat_penalty);
    if (status == OPTIONS_GO_ON) status = judge(self);
    if (status != OPTIONS_GO_ON) options_free(&self->parsed);
    return status;
}
