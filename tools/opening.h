/* From options to a host and a session, and from failures to exit codes. */
#ifndef TENON_TOOLS_OPENING_H
#define TENON_TOOLS_OPENING_H

#include "options.h"

#include <tenon/engine.h>

/* Makes a host as the options say. Its log goes to stderr: errors and warnings unless --quiet,
 * everything with --verbose. A file that --provider-dir names and that is refused or missing is an
 * error. Returns EXIT_GOOD and *out, else an exit code, having said why. */
int opening_host(options *parsed, const char *level_chain, tenon_host **out);

/* Makes a session on chain. Returns EXIT_GOOD and *out, else an exit code, having said why. */
int opening_session(tenon_host *host, const options *parsed, const char *chain, uint32_t mode,
                    uint32_t arith, tenon_session **out);

/* Was this very candidate named by --provider-dir or TENON_PROVIDERS, rather than found? */
bool opening_named(const options *parsed, const char *file);

/* Was it named and is it refused or missing? Then the exit code is EXIT_REFUSED. */
bool opening_refused(const options *parsed, const tenon_candidate *candidate);

/* The exit code for a failure of the engine API. */
int opening_exit_code(const tenon_error *error);
/* "tenon: <doing>: <text> (reason N: ...)" on stderr; returns the exit code. */
int opening_failed(const char *doing, const tenon_error *error);

#endif
