/* `tenon inspect` for provider files: what the stages open and static read and decide. */
#include "command.h"
#include "inspect.h"
#include "json.h"
#include "names.h"
#include "terminal.h"
#include "text.h"

#include <loader/loader.h>
#include <string.h>

static json_t *names_json(char *const *names, uint64_t count)
{
    json_t *list = json_array();
    uint64_t i;
    for (i = 0; i < count; i++) json_push(list, json_text(names[i]));
    return list;
}

static bool emit(const char *path, bool good, const loader_verdict *verdict,
                 const loader_image_facts *facts)
{
    json_t *document = json_document(), *symbols = json_array();
    uint32_t i;
    json_put(document, "file", json_text(path));
    json_put(document, "kind", json_string("provider"));
    json_put(document, "status", json_string(good ? "good" : "refused"));
    json_put(document, "stage", json_string(name_of_stage(verdict->stage)));
    json_put(document, "reason", json_integer(verdict->reason));
    json_put(document, "text", json_text(verdict->line));
    json_put(document, "symbol", json_text(verdict->symbol));
    json_put(document, "have", json_text(verdict->have));
    json_put(document, "need", json_text(verdict->need));
    json_put(document, "hint", json_text(verdict->hint));
    json_put(document, "id", json_text(facts->id));
    json_put(document, "version", json_text(facts->version));
    json_put(document, "container", json_text(facts->container));
    json_put(document, "machine", json_text(facts->machine));
    for (i = 0; i < facts->symbol_count; i++) {
        const loader_symbol_facts *symbol = &facts->symbols[i];
        json_t *entry = json_object();
        json_put(entry, "name", json_text(symbol->name));
        json_put(entry, "present", json_boolean(symbol->present));
        json_put(entry, "data", json_boolean(symbol->is_data));
        json_put(entry, "struct_size", json_integer(symbol->struct_size));
        json_put(entry, "abi_version", json_integer(symbol->abi_version));
        json_push(symbols, entry);
    }
    json_put(document, "symbols", symbols);
    json_put(document, "exports", names_json(facts->exports, facts->export_count));
    json_put(document, "libraries", names_json(facts->libraries, facts->library_count));
    json_put(document, "text_relocations", json_boolean(facts->text_relocations));
    json_put(document, "executable_stack", json_boolean(facts->executable_stack));
    json_put(document, "static_tls", json_boolean(facts->static_tls));
    return json_emit(document);
}

static void print_line(FILE *out, const char *label, const char *text)
{
    fprintf(out, "  %-11s", label);
    text_print(out, text, strlen(text));
    fputc('\n', out);
}

static void print_names(FILE *out, const char *label, char *const *names, uint64_t count)
{
    uint64_t i;
    fprintf(out, "  %-11s", label);
    for (i = 0; i < count; i++) {
        if (i > 0) fputs(", ", out);
        text_print(out, names[i], strlen(names[i]));
    }
    fputs(count == 0 ? "none\n" : "\n", out);
}

static void print(const char *path, bool good, const loader_image_facts *facts)
{
    FILE *out = terminal_out();
    uint32_t i;
    text_print(out, path, strlen(path));
    fputs(":\n", out);
    if (facts->id[0] != '\0') {
        fputs("  provider   ", out);
        text_print(out, facts->id, strlen(facts->id));
        fputc(' ', out);
        text_print(out, facts->version, strlen(facts->version));
        fputc('\n', out);
    }
    if (facts->container[0] != '\0') {
        fprintf(out, "  container  %s %s\n", facts->container, facts->machine);
        for (i = 0; i < facts->symbol_count; i++) {
            const loader_symbol_facts *symbol = &facts->symbols[i];
            char text[160];
            if (!symbol->present)
                snprintf(text, sizeof text, "%s absent", symbol->name);
            else
                snprintf(text, sizeof text, "%s present, %s, %lu bytes, ABI %lu", symbol->name,
                         symbol->is_data ? "data" : "not data", (unsigned long)symbol->struct_size,
                         (unsigned long)symbol->abi_version);
            print_line(out, "symbol", text);
        }
        print_names(out, "exports", facts->exports, facts->export_count);
        print_names(out, "libraries", facts->libraries, facts->library_count);
        if (facts->text_relocations) print_line(out, "mind", "text relocations");
        if (facts->executable_stack) print_line(out, "mind", "executable stack");
        if (facts->static_tls) print_line(out, "mind", "static thread-local storage");
    }
    fprintf(out, "  verdict    %s%s%s\n", good ? terminal_green() : terminal_red(),
            good ? "good so far: it would be loaded next" : "refused", terminal_plain());
}

int inspect_provider(const options *parsed, const char *path)
{
    tenon_error error = {TENON_HEAD(tenon_error), .status = TENON_OK};
    loader_image_facts facts;
    loader_verdict verdict;
    char shown[2048];
    bool good, written = true;
    memset(&facts, 0, sizeof facts);
    memset(&verdict, 0, sizeof verdict);
    if (loader_judge(path, &verdict, &facts, &error) != TENON_OK) {
        terminal_error("%s", error.text);
        loader_image_facts_clear(&facts);
        loader_verdict_clear(&verdict);
        return EXIT_FAILED;
    }
    good = verdict.reason == 0 && verdict.verdict != TENON_CANDIDATE_REFUSED;
    if (parsed->json)
        written = emit(path, good, &verdict, &facts);
    else
        print(path, good, &facts);
    if (!good && !parsed->json) {
        text_escape(shown, sizeof shown, verdict.line, strlen(verdict.line));
        terminal_error("%s", strncmp(shown, "tenon: ", 7) == 0 ? shown + 7 : shown);
    }
    loader_image_facts_clear(&facts);
    loader_verdict_clear(&verdict);
    if (!written) return EXIT_FAILED;
    return good ? EXIT_GOOD : EXIT_REFUSED;
}
