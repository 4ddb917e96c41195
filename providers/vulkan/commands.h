/* Queues: calls are recorded into batches of commands, a batch is submitted when it has grown, when
 * the host needs what it makes, or when a fence is asked for.
 *
 * Everything a batch touches stays alive until it is done. Work of a queue is done in the order in
 * which it was recorded. What fails after its call has answered OK makes the queue answer LOST from
 * then on (SPEC.md 1.8). All functions are [serial per queue]. */
#ifndef TENON_VULKAN_COMMANDS_H
#define TENON_VULKAN_COMMANDS_H

#include "device.h"
#include "pipelines.h"

#define VULKAN_BATCHES 3u

/* Scratch memory that lives as long as its batch: cut in order from a few chunks. */
typedef struct vulkan_arena {
    vulkan_memory **chunks;
    uint32_t count, room;
    uint32_t at;   /* chunk that is cut from */
    uint64_t used; /* bytes of it */
} vulkan_arena;

/* A dispatch of which nothing can fail any more. */
typedef struct vulkan_ready {
    const vulkan_pipeline *pipeline;
    VkDescriptorSet set;
    vulkan_span sizes; /* of its workgroups where they are read from memory; memory NULL: groups */
    uint32_t groups[3];
    uint32_t beside;
    uint32_t push_bytes, push[32];
} vulkan_ready;

/* The last step of a batch while it is not yet a command, so that another may join it (join.h). */
typedef struct vulkan_open {
    uint32_t is_open;
    vulkan_ready ready;
    vulkan_span spans[VULKAN_MOST_BINDINGS];
    vulkan_rows y; /* what it makes: rows from the first on */
    uint64_t tokens;
} vulkan_open;

typedef struct vulkan_batch {
    tenon_device_graph *graph; /* launched behind it and kept until it is done, NULL: none */
    uint32_t pins;             /* 1: of a graph, not in flight by itself */
    VkCommandBuffer commands;
    VkFence fence;
    uint64_t serial; /* of this use, never 0 */
    uint32_t submitted;
    uint32_t steps;    /* dispatches and copies recorded */
    uint32_t promised; /* calls in it that have answered OK */
    uint64_t bytes;    /* of scratch memory cut for it */
    uint32_t ordered;  /* nothing was recorded since the last barrier */
    vulkan_open open;
    VkDescriptorPool *pools;
    uint32_t pool_count, pool_at;
    vulkan_memory **held;
    uint64_t held_count, held_room;
    vulkan_arena scratch[VULKAN_PLACES];
} vulkan_batch;

struct tenon_device_queue {
    tenon_device *device;
    VkCommandPool commands;
    vulkan_batch batches[VULKAN_BATCHES];
    uint32_t oldest, flying;   /* batches submitted and not yet seen done, in order from oldest */
    vulkan_batch *recording;   /* NULL: none is open */
    tenon_device_graph *graph; /* that calls are recorded into, NULL: into batches */
    int32_t fault;             /* what every call answers once work was lost */
    char fault_text[120];
};

int32_t TENON_CALL vulkan_queue_open(tenon_device *device, tenon_device_queue **out,
                                     tenon_error *error);
void TENON_CALL vulkan_queue_close(tenon_device_queue *queue);

/* Answers what was lost. */
int32_t vulkan_answer_fault(const tenon_device_queue *queue, tenon_error *error);
/* Begins what cannot be recorded into a graph: answers what was lost before, opens a batch where none
 * is open. */
int32_t vulkan_call_begin(tenon_device_queue *queue, tenon_error *error);
/* Ends a call whose commands are all recorded. complete: waits until they are done; otherwise they
 * are in flight and the call has promised its outputs. */
int32_t vulkan_call_end(tenon_device_queue *queue, int complete, tenon_error *error);
/* A call failed when a part of it that changes what it must keep was recorded: the queue has lost
 * work. status is the call's. */
int32_t vulkan_call_spoiled(tenon_device_queue *queue, int32_t status, tenon_error *error);
/* Submits what is recorded and waits for all work of the queue. */
int32_t vulkan_queue_finish(tenon_device_queue *queue, tenon_error *error);

/* A call that had memory of its caller imported has failed: does or drops what is recorded, and returns
 * when the device touches that memory no more, however long it takes. */
void vulkan_queue_drain(tenon_device_queue *queue);

/* Submits what is recorded, and a graph behind it. The answer is that of the launch. */
int32_t vulkan_queue_launch(tenon_device_queue *queue, tenon_device_graph *graph,
                            tenon_error *error);

/* Is some batch that is not yet done using this memory? */
int vulkan_in_use(tenon_device_queue *queue, vulkan_memory *memory);

/* Memory until the batch being recorded is done. place STAGING is mapped. */
int32_t vulkan_scratch(tenon_device_queue *queue, uint32_t place, uint64_t bytes, vulkan_span *out,
                       tenon_error *error);

/* Gives back all that a batch is made of but its command buffer. It is not in flight. */
void vulkan_batch_free(tenon_device *device, vulkan_batch *batch);

/* How far a dispatch of attention reaches: workgroups follow from the length of a cache. */
typedef struct vulkan_reach {
    tenon_device_cache *cache;
    uint64_t behind; /* positions that the last row does not see */
    uint32_t per;    /* positions of a workgroup */
} vulkan_reach;

/* One dispatch. A binding covers its span, whose offset is a multiple of VULKAN_ALIGNMENT; a texel
 * buffer covers all of the memory's view instead, so there what begins elsewhere is pushed. */
typedef struct vulkan_dispatch {
    const vulkan_pipeline *pipeline;
    const vulkan_span *spans;
    uint32_t span_count;
    uint32_t other_count;
    vulkan_memory *const *others; /* memory that spans reach into beside their own */
    uint32_t beside;              /* neither reads nor writes what the step before it writes */
    const void *push;
    uint32_t push_bytes;
    uint32_t groups[3];
    const vulkan_reach *reach; /* what groups[0] follows from, NULL: it is always the same */
} vulkan_dispatch;

int32_t vulkan_record(tenon_device_queue *queue, const vulkan_dispatch *dispatch,
                      tenon_error *error);
/* The same, but it becomes a command only with the next step or the end of its batch: until then another
 * step may join it. It makes rows [first, first + tokens) of y and nothing else. */
int32_t vulkan_record_open(tenon_device_queue *queue, const vulkan_dispatch *dispatch,
                           const vulkan_rows *y, uint64_t first, uint64_t tokens,
                           tenon_error *error);
/* Puts dispatch, which makes rows [0, tokens) of y, in the place of the open step. When it fails the
 * step stays as it was. */
int32_t vulkan_record_instead(tenon_device_queue *queue, const vulkan_dispatch *dispatch,
                              const vulkan_rows *y, uint64_t tokens, tenon_error *error);
/* The open step becomes a command. */
void vulkan_settle(tenon_device_queue *queue);

/* Orders what follows in the batch being recorded behind all before it, or hands results to the host. */
void vulkan_order(tenon_device_queue *queue, int to_host);
int32_t vulkan_record_copy(tenon_device_queue *queue, vulkan_span to, vulkan_span from,
                           tenon_error *error);

/* Copies host memory into main memory outside of any queue, complete on return. [any thread] */
int32_t vulkan_upload(tenon_device *device, vulkan_span to, const void *from, tenon_error *error);

#endif
