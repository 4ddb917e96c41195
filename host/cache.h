/* Key-value caches: one layer on one link for its life, never moved. */
#ifndef TENON_HOST_CACHE_H
#define TENON_HOST_CACHE_H

#include "host.h"

/* Takes a cache out of its session, waits for calls that are running, frees it. */
void cache_free(tenon_cache *cache);
/* Is the cache still there? Takes notice of a link that has gone meanwhile. TENON_OK or TENON_LOST.
 * [cache.lock] */
int32_t cache_alive(tenon_cache *cache, tenon_error *error);
/* Make or record a call, in this library's size. Inside a call of the queue. */
int32_t cache_append(tenon_queue *queue, const tenon_append_call *call, tenon_error *error);
int32_t cache_attend(tenon_queue *queue, const tenon_attention_call *call, tenon_error *error);

#endif
