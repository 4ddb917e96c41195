/* Under the Khronos validation layer: a life on the device, in place and through staging, says nothing
 * that the layer has a word against. A misuse on purpose shows that the layer would speak. */
#define VK_NO_PROTOTYPES
#include "provider_rig.h"

#include <unistd.h>
#include <vulkan/vulkan_core.h>

#define LAYER "VK_LAYER_KHRONOS_validation"
#define ROWS 300u
#define HEADS 4u
#define HEAD_SIZE 32u
#define WIDTH (HEADS * HEAD_SIZE)

/* What is printed from here on goes to a file; the layer writes to standard output. */
static int listen_to(void)
{
    char path[] = "/tmp/tenon-validation-XXXXXX";
    int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    unlink(path);
    setenv("VK_INSTANCE_LAYERS", LAYER, 1);
    fflush(stdout);
    fflush(stderr);
    return file;
}

/* Does the loader know the layer? */
static int layer_there(void)
{
    VkLayerProperties layers[64];
    PFN_vkEnumerateInstanceLayerProperties list;
    void *library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL), *symbol;
    uint32_t count = 64, i;
    int found = 0;

    if (library == NULL) return 0;
    symbol = dlsym(library, "vkEnumerateInstanceLayerProperties");
    memcpy(&list, &symbol, sizeof list);
    if (list != NULL && list(&count, layers) >= 0)
        for (i = 0; i < count; i++) found |= strcmp(layers[i].layerName, LAYER) == 0;
    dlclose(library);
    return found;
}

/* Products over host memory and buffers, rows, a cache that grows, shrinks and is cloned. */
static void work(rig *self)
{
    static float x[5 * WIDTH], y[5 * ROWS], table[300 * HEAD_SIZE];
    const tenon_cache_desc desc = {TENON_HEAD(tenon_cache_desc),
                                   .kv_heads = HEADS,
                                   .head_size = HEAD_SIZE,
                                   .capacity = 300,
                                   .type = TENON_CACHE_F16,
                                   .pairing = TENON_ROPE_HALVES,
                                   .flags = TENON_CACHE_EVICTABLE,
                                   .rotary = HEAD_SIZE,
                                   .table = table,
                                   .table_bytes = sizeof table};
    tenon_append_call append = {TENON_HEAD(tenon_append_call), .k = host_view(x, sizeof x),
                                .v = host_view(x, sizeof x),   .tokens = 5,
                                .k_row_stride = WIDTH * 4,     .v_row_stride = WIDTH * 4};
    tenon_attention_call attention = {TENON_HEAD(tenon_attention_call),
                                      .q = host_view(x, sizeof x),
                                      .tokens = 5,
                                      .heads = HEADS,
                                      .q_row_stride = WIDTH * 4,
                                      .y_row_stride = WIDTH * 4,
                                      .scale = 0.25f};
    tenon_add_call add = {TENON_HEAD(tenon_add_call),
                          .tokens = 5,
                          .width = WIDTH,
                          .a_row_stride = WIDTH * 4,
                          .b_row_stride = WIDTH * 4,
                          .y_row_stride = WIDTH * 4};
    tenon_device_cache *cache = NULL, *clone = NULL;
    tenon_device_buffer *a = NULL, *b = NULL;
    tenon_prepared *weight = NULL;
    uint32_t i;

    rig_fill(x, 5 * WIDTH);
    rig_fill(table, 300 * HEAD_SIZE);
    ck_assert_int_eq(self->memory->alloc(self->device, sizeof x, &a, &self->error), TENON_OK);
    ck_assert_int_eq(self->memory->alloc(self->device, sizeof x, &b, &self->error), TENON_OK);
    ck_assert_int_eq(self->attention->create(self->device, &desc, &cache, &self->error), TENON_OK);
    ck_assert_int_eq(rig_prepare(self, ROWS, 1, 1, 1, &weight), TENON_OK);
    for (i = 0; i < 30; i++) {
        ck_assert_int_eq(
            self->memory->write(self->device, self->queue, a, 0, x, sizeof x, &self->error),
            TENON_OK);
        add.a = add.b = buffer_view(a, sizeof x);
        add.y = buffer_view(b, sizeof x);
        ck_assert_int_eq(self->add->run(self->device, self->queue, &add, &self->error), TENON_OK);
        append.cache = attention.cache = cache;
        ck_assert_int_eq(self->attention->append(self->device, self->queue, &append, &self->error),
                         TENON_OK);
        attention.y = buffer_view(a, sizeof x);
        ck_assert_int_eq(self->attention->run(self->device, self->queue, &attention, &self->error),
                         TENON_OK);
        ck_assert_int_eq(
            self->memory->copy(self->device, self->queue, b, 0, a, 0, sizeof x, &self->error),
            TENON_OK);
    }
    ck_assert_int_eq(self->attention->evict(self->device, self->queue, cache, 3, 70, &self->error),
                     TENON_OK);
    ck_assert_int_eq(self->attention->clone(self->device, self->queue, cache, &clone, &self->error),
                     TENON_OK);
    ck_assert_int_eq(self->attention->truncate(self->device, self->queue, cache, 9, &self->error),
                     TENON_OK);
    self->attention->free(self->device, cache);
    for (i = 1; i <= 5; i++)
        ck_assert_int_eq(
            rig_multiply(self, weight, ROWS, i, host_view(x, sizeof x), host_view(y, sizeof y)),
            TENON_OK);
    ck_assert_int_eq(self->memory->read(self->device, self->queue, b, 0, x, sizeof x, &self->error),
                     TENON_OK);
    self->attention->free(self->device, clone);
    self->qmatmul->release(self->device, weight);
    self->memory->free(self->device, a);
    self->memory->free(self->device, b);
}

/* The same under the layer; its words, or NULL where the test cannot be made. */
static const char *live(int staging, const char *import, int misuse)
{
    static char text[1 << 16];
    int file, out, error, there;
    long imports;
    ssize_t count;
    rig self;

    if (!layer_there()) {
        runner_skip("no validation layer");
        return NULL;
    }
    file = listen_to();
    out = dup(STDOUT_FILENO);
    error = dup(STDERR_FILENO);

    rig_load(&self, 1);
    if (staging) rig_set(&self, "vulkan.staging", "always");
    rig_set(&self, "vulkan.import", import);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    there = rig_open(&self) == TENON_OK;
    if (there) {
        self.p->close(self.provider);
        self.faults->misuse = (uint32_t)misuse;
        there = rig_open_device(&self);
    }
    if (there) {
        imports = atomic_load(&self.faults->imports);
        work(&self);
        imports = atomic_load(&self.faults->imports) - imports;
        ck_assert_int_eq(imports > 0, strcmp(import, "always") == 0);
        rig_close(&self);
    }
    fflush(stdout);
    fflush(stderr);
    dup2(out, STDOUT_FILENO);
    dup2(error, STDERR_FILENO);
    count = pread(file, text, sizeof text - 1, 0);
    text[count > 0 ? count : 0] = '\0';
    close(file);
    close(out);
    close(error);
    if (there) return text;
    runner_skip("no Vulkan device");
    return NULL;
}

START_TEST(the_layer_speaks)
{
    const char *said = live(0, "auto", 1);
    if (said == NULL) return;
    ck_assert_msg(strstr(said, "VUID-VkBufferCreateInfo-size") != NULL, "it says: %s", said);
}
END_TEST

START_TEST(nothing_is_said)
{
    const char *said = live(_i % 2, _i / 2 ? "always" : "off", 0);
    if (said == NULL) return;
    ck_assert_msg(strstr(said, "VUID") == NULL && strstr(said, "alidation") == NULL, "it says: %s",
                  said);
}
END_TEST

static Suite *suite(void)
{
    Suite *made = suite_create("vulkan valid");
    TCase *layer = tcase_create("layer");
    tcase_set_timeout(layer, 300);
    tcase_add_test(layer, the_layer_speaks);
    tcase_add_loop_test(layer, nothing_is_said, 0, 4);
    suite_add_tcase(made, layer);
    return made;
}

int main(void)
{
    return runner_main(srunner_create(suite()));
}
