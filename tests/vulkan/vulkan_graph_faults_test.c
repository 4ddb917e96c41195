/* Recorded sequences while the driver fails: at any call that recording, launching or waiting makes,
 * the steps give the right bits, if need be from the start on what remains, and nothing is left. The
 * provider's file and the loader that fails are the arguments. */
#include "graph_rig.h"

#define VK_NO_PROTOTYPES
#include "faulty_loader.h"

#include <dlfcn.h>
#include <vulkan/vulkan_core.h>

static const char *loader_file;
static faulty_control *faults;
static bool device_seen;

#define FEW 5u

/* A few steps from an empty cache. */
static int32_t few_steps(const scene *self, tenon_graph *graph, trace *traces)
{
    const uint32_t first = 3;
    tenon_queue *queue = self->queue;
    uint32_t i;
    int32_t status = tenon_buffer_write(queue, self->w, 0, norms[0], sizeof norms[0], &rig_error);
    if (status == TENON_OK)
        status = tenon_buffer_write(queue, self->id, 0, &first, sizeof first, &rig_error);
    for (i = 0; i < FEW && status == TENON_OK; i++) {
        trace *out = &traces[i];
        status = tenon_graph_launch(queue, graph, &rig_error);
        if (status == TENON_OK && i % 2 == 0) /* every other launch is waited for */
            status = tenon_buffer_read(queue, self->p, 0, out->p, sizeof out->p, &rig_error);
        if (status == TENON_OK && i % 2 == 0)
            status = tenon_buffer_read(queue, self->id, 0, &out->id, sizeof out->id, &rig_error);
    }
    return status;
}

/* The same with whatever is lost made anew. Returns how often that was. */
static uint32_t few_steps_at_last(scene *self, tenon_graph *graph, uint32_t type, trace *traces)
{
    uint32_t lost = 0;
    int32_t status;
    while ((status = few_steps(self, graph, traces)) == TENON_LOST) {
        ck_assert_uint_lt(++lost, 3);
        tenon_graph_destroy(graph);
        tenon_cache_destroy(self->cache);
        make_cache(self, type, 0);
        graph = record(self);
    }
    ck_assert_msg(status == TENON_OK, "status %d: %s", status, rig_error.text);
    return lost;
}

static void check_few(const trace *got, const trace *right)
{
    uint32_t i;
    for (i = 0; i < FEW; i += 2) {
        ck_assert_int_eq(memcmp(got[i].p, right[i].p, sizeof got[i].p), 0);
        ck_assert_uint_eq(got[i].id, right[i].id);
    }
}

/* The number-th call of a kind fails, counted from before the recording or from the first launch.
 * false: there are not so many. */
static bool fail_at(enum faulty_call call, int result, long number, bool recorded)
{
    static trace right[FEW], got[FEW];
    char setting[600];
    tenon_host *host;
    tenon_session *session;
    tenon_graph *graph;
    scene self;
    bool reached;
    snprintf(setting, sizeof setting, "vulkan.library=%s", loader_file);
    host = make_host(setting);
    session = vulkan_session(host);
    if (session == NULL) return false;
    device_seen = true;
    tenon_session_destroy(session);
    session = rig_session(host, "reference", TENON_MODE_PIN);
    open_scene(&self, session, tenon_session_queue(session), TENON_CACHE_F16, 0);
    few_steps_at_last(&self, record(&self), TENON_CACHE_F16, right);
    tenon_session_destroy(session);

    session = rig_session(host, "vulkan", TENON_MODE_PREFER);
    open_scene(&self, session, tenon_session_queue(session), TENON_CACHE_F16, 0);
    graph = recorded ? record(&self) : NULL;
    if (recorded) check_captured(graph);
    atomic_store(&faults->call[call].result, result);
    atomic_store(&faults->call[call].after, number);
    if (!recorded) graph = record(&self);
    few_steps_at_last(&self, graph, TENON_CACHE_F16, got);
    check_few(got, right);
    reached = atomic_load(&faults->call[call].after) <= 0;
    atomic_store(&faults->call[call].after, 0);
    tenon_session_destroy(session);
    rig_ok(tenon_host_destroy(host, &rig_error));
    ck_assert_int_eq(atomic_load(&faults->alive), 0);
    return reached;
}

static const struct {
    enum faulty_call call;
    int result;
    long step, most; /* numbers tried: 1, 1 + step, ... */
    bool recorded;
} failures[] = {
    {FAULTY_CreateCommandPool, VK_ERROR_OUT_OF_HOST_MEMORY, 1, 1, false},
    {FAULTY_AllocateCommandBuffers, VK_ERROR_OUT_OF_DEVICE_MEMORY, 1, 1, false},
    {FAULTY_BeginCommandBuffer, VK_ERROR_OUT_OF_HOST_MEMORY, 1, 4, false},
    {FAULTY_EndCommandBuffer, VK_ERROR_OUT_OF_DEVICE_MEMORY, 1, 4, false},
    {FAULTY_CreateDescriptorPool, VK_ERROR_OUT_OF_HOST_MEMORY, 1, 1, false},
    {FAULTY_AllocateDescriptorSets, VK_ERROR_OUT_OF_DEVICE_MEMORY, 4, 13, false},
    {FAULTY_CreateComputePipelines, VK_ERROR_OUT_OF_HOST_MEMORY, 4, 9, false},
    {FAULTY_QueueSubmit, VK_ERROR_OUT_OF_DEVICE_MEMORY, 1, 5, true},
    {FAULTY_QueueSubmit, VK_ERROR_DEVICE_LOST, 1, 5, true},
    {FAULTY_WaitForFences, VK_ERROR_DEVICE_LOST, 1, 3, true},
    {FAULTY_WaitForFences, VK_TIMEOUT, 1, 3, true},
    {FAULTY_BeginCommandBuffer, VK_ERROR_DEVICE_LOST, 1, 2, false}, /* lost inside a capture */
    {FAULTY_EndCommandBuffer, VK_ERROR_DEVICE_LOST, 1, 1, false}};

START_TEST(the_driver_fails)
{
    long number = 1;
    while (number <= failures[_i].most &&
           fail_at(failures[_i].call, failures[_i].result, number, failures[_i].recorded))
        number += failures[_i].step;
    ck_assert_msg(number > 1 || !device_seen, "no call of this kind was made");
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("vulkan graphs, faults");
    TCase *tests = tcase_create("faults");
    faulty_control_function control;
    void *library, *symbol;
    if (argc != 3) {
        fprintf(stderr, "the files of the provider and of the loader are needed\n");
        return EXIT_FAILURE;
    }
    provider_file = argv[1];
    loader_file = argv[2];
    library = dlopen(loader_file, RTLD_NOW | RTLD_LOCAL);
    symbol = library != NULL ? dlsym(library, FAULTY_CONTROL_NAME) : NULL;
    if (symbol == NULL) {
        fprintf(stderr, "%s cannot be loaded\n", loader_file);
        return EXIT_FAILURE;
    }
    memcpy(&control, &symbol, sizeof control);
    faults = control();
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, the_driver_fails, 0, sizeof failures / sizeof failures[0]);
    suite_add_tcase(suite, tests);
    return runner_main(srunner_create(suite));
}
