/* The border of graph_v1: sequences of calls that a provider records. The calls between begin and
 * end go through the borders of their operations. */
#include "border_parts.h"

static const tenon_graph_v1 *graphs(const session_link *link)
{
    return &link->device->provider->module->graph;
}

void border_graph_release(session_link *link, tenon_device_graph *graph)
{
    fp_mode mode = fp_enter();
    graphs(link)->release(link->device->handle, graph);
    fp_leave(mode);
}

int32_t border_graph_begin(tenon_queue *queue, session_link *link, tenon_error *error)
{
    const tenon_graph_v1 *g = graphs(link);
    border_visit visit;
    int32_t status = border_enter(&visit, queue, link, g->error_size, error);

    if (status != TENON_OK) return status;
    status = g->begin(link->device->handle, visit.queue, border_error(&visit));
    return border_leave(&visit, "graph begin", status, true, true, TENON_SCOPE_CALL, error);
}

int32_t border_graph_end(tenon_queue *queue, session_link *link, tenon_device_graph **out,
                         tenon_error *error)
{
    const tenon_graph_v1 *g = graphs(link);
    border_visit visit;
    bool made;
    int32_t answer, status = border_enter(&visit, queue, link, g->error_size, error);

    *out = NULL;
    if (status != TENON_OK) return status;
    status = g->end(link->device->handle, visit.queue, out, border_error(&visit));
    made = status == TENON_OK && *out != NULL;
    answer = border_leave(&visit, "graph end", status, true, status != TENON_OK || made,
                          TENON_SCOPE_CALL, error);
    if (answer == TENON_OK) return TENON_OK;
    if (made) border_graph_release(link, *out);
    *out = NULL;
    return answer;
}

void border_graph_abort(tenon_queue *queue, session_link *link)
{
    tenon_error ignored = EMPTY_ERROR;
    border_visit visit;

    if (border_enter(&visit, queue, link, graphs(link)->error_size, &ignored) != TENON_OK) return;
    graphs(link)->abort(link->device->handle, visit.queue);
    border_leave(&visit, "graph abort", TENON_OK, false, true, TENON_SCOPE_CALL, &ignored);
}

int32_t border_graph_launch(tenon_queue *queue, session_link *link, tenon_device_graph *graph,
                            tenon_error *error)
{
    const tenon_graph_v1 *g = graphs(link);
    border_visit visit;
    int32_t status = border_enter(&visit, queue, link, g->error_size, error);

    if (status != TENON_OK) return status;
    status = g->launch(link->device->handle, visit.queue, graph, border_error(&visit));
    return border_leave(&visit, "graph launch", status, true, true, TENON_SCOPE_CALL, error);
}
