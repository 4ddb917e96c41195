/* Cases of graph_v1: sequences that a provider records, called directly. UNSUPPORTED where it records
 * none. */
#ifndef TENON_CONFORMANCE_GRAPH_H
#define TENON_CONFORMANCE_GRAPH_H

#include "sample.h"

/* Each operation, recorded and launched over inputs that change. */
bool graph_operation(direct *self, direct_device *on, sample_kind kind, conformance_result *result);
/* A step over a cache whose length changes between launches. */
bool graph_cache(direct *self, direct_device *on, conformance_result *result);
/* Launches behind each other, behind writes and calls. */
bool graph_order(direct *self, direct_device *on, conformance_result *result);
/* What is dropped or declined leaves nothing; what is released finishes. */
bool graph_dropped(direct *self, direct_device *on, conformance_result *result);

#endif
