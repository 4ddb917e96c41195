/* Key-value caches: one layer on one link for its life, never moved. */
#ifndef TENON_HOST_CACHE_H
#define TENON_HOST_CACHE_H

#include "host.h"

/* Takes a cache out of its session, waits for calls that are running, frees it. */
void cache_free(tenon_cache *cache);

#endif
