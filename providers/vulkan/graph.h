/* Graphs: the commands of a sequence of calls, recorded once and run by every launch.
 *
 * While a queue records one, the functions of commands.h put what they are given into the graph's own
 * batch, which keeps everything it touches and its scratch memory until the graph is gone. */
#ifndef TENON_VULKAN_GRAPH_H
#define TENON_VULKAN_GRAPH_H

#include "device.h"

struct vulkan_batch;

/* One user more: a batch in which it is launched. vulkan_graph_release is one less. */
void vulkan_graph_hold(tenon_device_graph *graph);
/* The graph being recorded appends count positions to a cache at every launch. */
int32_t vulkan_graph_appended(tenon_device_graph *graph, tenon_device_cache *cache, uint64_t count,
                              tenon_error *error);
int32_t vulkan_not_in_graph(tenon_error *error);

int32_t TENON_CALL vulkan_graph_begin(tenon_device *device, tenon_device_queue *queue,
                                      tenon_error *error);
int32_t TENON_CALL vulkan_graph_end(tenon_device *device, tenon_device_queue *queue,
                                    tenon_device_graph **out, tenon_error *error);
void TENON_CALL vulkan_graph_abort(tenon_device *device, tenon_device_queue *queue);
int32_t TENON_CALL vulkan_graph_launch(tenon_device *device, tenon_device_queue *queue,
                                       tenon_device_graph *graph, tenon_error *error);
void TENON_CALL vulkan_graph_release(tenon_device *device, tenon_device_graph *graph);

#endif
