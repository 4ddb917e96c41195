/* Finding devices: every way in which there is none, and what is said of those there are. */
#include "provider_rig.h"

#include <unistd.h>
#include <vulkan/vulkan_core.h>

/* -------------------------------------------------------------------------- nothing to be found */

START_TEST(no_loader)
{
    rig self;
    rig_load(&self, 0);
    rig_set(&self, "vulkan.library", "/nonexistent/libvulkan.so.1");
    ck_assert_int_eq(rig_open(&self), TENON_STATE);
    ck_assert_uint_eq(self.error.reason, TENON_REASON_RUNTIME_ABSENT);
    ck_assert_ptr_nonnull(strstr(self.error.text, "/nonexistent/libvulkan.so.1"));
    ck_assert_ptr_null(self.provider);
}
END_TEST

/* A library, but none of Vulkan. */
START_TEST(wrong_loader)
{
    rig self;
    rig_load(&self, 0);
    rig_set(&self, "vulkan.library", getenv(MODULE_VARIABLE));
    ck_assert_int_eq(rig_open(&self), TENON_STATE);
    ck_assert_uint_eq(self.error.reason, TENON_REASON_DRIVER_TOO_OLD);
    ck_assert_ptr_nonnull(strstr(self.error.text, "vkGetInstanceProcAddr"));
}
END_TEST

/* open answers OK and no devices, for this reason. */
static void expect_none(rig *self, uint32_t reason, const char *words)
{
    uint32_t count = 7;
    int32_t status = rig_open(self);

    if (status == TENON_STATE && self->error.reason == TENON_REASON_RUNTIME_ABSENT) {
        runner_skip("no Vulkan loader");
        return;
    }
    ck_assert_msg(status == TENON_OK, "%s", self->error.text);
    ck_assert_int_eq(self->p->device_count(self->provider, &count, &self->error), TENON_OK);
    ck_assert_uint_eq(count, 0);
    ck_assert_uint_eq(self->error.reason, reason);
    ck_assert_msg(strstr(self->error.text, words) != NULL, "%s", self->error.text);
    ck_assert_int_ne(self->p->device_open(self->provider, 0, &self->device, &self->error),
                     TENON_OK);
    rig_close(self);
}

START_TEST(no_driver)
{
    rig self;
    rig_load(&self, 0);
    setenv("VK_ICD_FILENAMES", "/nonexistent", 1);
    setenv("VK_DRIVER_FILES", "/nonexistent", 1);
    expect_none(&self, TENON_REASON_NO_DEVICE, "no Vulkan driver");
}
END_TEST

/* A driver is named whose library does not exist. */
START_TEST(broken_driver)
{
    char path[] = "/tmp/tenon-icd-XXXXXX";
    int file = mkstemp(path);
    static const char
        manifest[] = "{\"file_format_version\": \"1.0.0\", \"ICD\": {\"library_path\": "
                     "\"/nonexistent/libdriver.so\", \"api_version\": \"1.2.0\"}}";
    rig self;
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(write(file, manifest, sizeof manifest - 1), (int)(sizeof manifest - 1));
    close(file);
    setenv("VK_ICD_FILENAMES", path, 1);
    rig_load(&self, 0);
    expect_none(&self, TENON_REASON_NO_DEVICE, "no Vulkan driver");
    unlink(path);
}
END_TEST

START_TEST(drivers_fail)
{
    rig self;
    rig_load(&self, 1);
    rig_fail(&self, FAULTY_EnumeratePhysicalDevices, 1, VK_ERROR_INITIALIZATION_FAILED);
    expect_none(&self, TENON_REASON_DEVICE_FAILED, "drivers failed");
}
END_TEST

START_TEST(drivers_are_empty)
{
    rig self;
    rig_load(&self, 1);
    rig_fail(&self, FAULTY_EnumeratePhysicalDevices, 1, VK_SUCCESS);
    expect_none(&self, TENON_REASON_NO_DEVICE, "list no device");
}
END_TEST

START_TEST(instance_fails)
{
    rig self;
    rig_load(&self, 1);
    rig_fail(&self, FAULTY_CreateInstance, 1, VK_ERROR_LAYER_NOT_PRESENT);
    ck_assert_int_eq(rig_open(&self), TENON_STATE);
    ck_assert_uint_eq(self.error.reason, TENON_REASON_DEVICE_FAILED);
    ck_assert_ptr_nonnull(strstr(self.error.text, "VK_ERROR_LAYER_NOT_PRESENT"));
    rig_fail(&self, FAULTY_CreateInstance, 1, VK_ERROR_OUT_OF_HOST_MEMORY);
    ck_assert_int_eq(rig_open(&self), TENON_NOMEM);
    ck_assert_int_eq(atomic_load(&self.faults->alive), 0);
}
END_TEST

START_TEST(settings_are_read)
{
    static const char *const wrong[][2] = {
        {"vulkan.staging", "often"},      {"vulkan.import", "often"},
        {"vulkan.memory_limit", "many"},  {"vulkan.memory_limit", "99999999999999999999"},
        {"vulkan.memory_limit", "0"},     {"vulkan.timeout_s", ""},
        {"vulkan.cache_dir", "relative"}, {"vulkan.library", "libvulkan.so.1"}};
    size_t i;
    for (i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        rig self;
        rig_load(&self, 0);
        rig_set(&self, wrong[i][0], wrong[i][1]);
        ck_assert_int_eq(rig_open(&self), TENON_STATE);
        ck_assert_uint_eq(self.error.reason, TENON_REASON_UNKNOWN_CONFIG);
        ck_assert_ptr_nonnull(strstr(self.error.text, wrong[i][0]));
    }
}
END_TEST

/* --------------------------------------------------------------------------- what is found */

/* The first device as the provider describes it. 0: there is none. */
static int describe(rig *self, tenon_device_info *info)
{
    uint32_t count = 0;
    int32_t status = rig_open(self);

    if (status == TENON_STATE && self->error.reason == TENON_REASON_RUNTIME_ABSENT) {
        runner_skip("no Vulkan loader");
        return 0;
    }
    ck_assert_msg(status == TENON_OK, "%s", self->error.text);
    ck_assert_int_eq(self->p->device_count(self->provider, &count, NULL), TENON_OK);
    if (count == 0) {
        runner_skip("no Vulkan device");
        return 0;
    }
    *info = (tenon_device_info){TENON_HEAD(tenon_device_info), .kind = 0};
    ck_assert_int_eq(self->p->device_info(self->provider, 0, info, &self->error), TENON_OK);
    return 1;
}

START_TEST(device_is_described)
{
    static const uint8_t none[16];
    tenon_device_info info;
    rig self;
    rig_load(&self, 1);
    if (!describe(&self, &info)) return;
    ck_assert_uint_eq(info.unusable, 0);
    ck_assert_uint_ne(info.arith, 0);
    ck_assert_uint_gt(strlen(info.name), 0);
    ck_assert_uint_gt(strlen(info.driver), 0);
    ck_assert(memcmp(info.uuid, none, sizeof none) != 0);
    ck_assert_uint_gt(info.memory_total, 0);
    ck_assert_uint_le(info.memory_free, info.memory_total);
    if (strstr(info.name, "llvmpipe") != NULL) ck_assert_uint_eq(info.kind, TENON_DEVICE_SOFTWARE);
    rig_close(&self);
}
END_TEST

START_TEST(kinds_are_told_apart)
{
    static const uint32_t kinds[] = {TENON_DEVICE_VIRTUAL, TENON_DEVICE_INTEGRATED,
                                     TENON_DEVICE_DISCRETE, TENON_DEVICE_VIRTUAL,
                                     TENON_DEVICE_SOFTWARE};
    tenon_device_info info;
    uint32_t i;
    for (i = 0; i < 5; i++) {
        rig self;
        rig_load(&self, 1);
        self.faults->device_type = i + 1;
        if (!describe(&self, &info)) return;
        ck_assert_uint_eq(info.kind, kinds[i]);
        rig_close(&self);
    }
}
END_TEST

/* A device that computes in its last family only, of 1, 2 and 3. */
START_TEST(families)
{
    tenon_device_info info;
    uint32_t count;
    for (count = 1; count <= 3; count++) {
        rig self;
        rig_load(&self, 1);
        self.faults->family_count = count;
        self.faults->family_computes = 1;
        if (!describe(&self, &info)) return;
        ck_assert_msg(info.unusable == 0, "%u families: %s", count, info.detail);
        ck_assert_int_eq(self.p->device_open(self.provider, 0, &self.device, &self.error),
                         TENON_OK);
        ck_assert_uint_eq(atomic_load(&self.faults->family_used), count - 1);
        rig_close(&self);
    }
}
END_TEST

START_TEST(no_family_computes)
{
    tenon_device_info info;
    rig self;
    rig_load(&self, 1);
    self.faults->family_count = 2;
    if (!describe(&self, &info)) return;
    ck_assert_uint_eq(info.unusable, TENON_REASON_DEVICE_UNUSABLE);
    ck_assert_uint_eq(info.arith, 0);
    ck_assert_ptr_nonnull(strstr(info.detail, "computes"));
    ck_assert_int_eq(self.p->device_open(self.provider, 0, &self.device, &self.error), TENON_STATE);
    ck_assert_uint_eq(self.error.reason, TENON_REASON_DEVICE_UNUSABLE);
    rig_close(&self);
}
END_TEST

/* As little as Vulkan allows, and one less than is needed. */
START_TEST(limits)
{
    static const struct {
        uint32_t group, bindings;
        const char *detail; /* NULL: usable */
    } cases[] = {{128, 0, "workgroups of 128, 256 are needed"},
                 {255, 0, "workgroups of 255"},
                 {256, 0, NULL},
                 {0, 4, "4 storage buffers in a kernel, 7 are needed"},
                 {0, 6, "6 storage buffers"},
                 {0, 7, NULL}};
    tenon_device_info info;
    rig self;
    rig_load(&self, 1);
    self.faults->largest_group = cases[_i].group;
    self.faults->most_bindings = cases[_i].bindings;
    if (!describe(&self, &info)) return;
    if (cases[_i].detail == NULL) {
        ck_assert_uint_eq(info.unusable, 0);
    } else {
        ck_assert_uint_eq(info.unusable, TENON_REASON_DEVICE_UNUSABLE);
        ck_assert_msg(strstr(info.detail, cases[_i].detail) != NULL, "%s", info.detail);
    }
    rig_close(&self);
}
END_TEST

START_TEST(old_device)
{
    tenon_device_info info;
    rig self;
    rig_load(&self, 1);
    self.faults->api_version = VK_API_VERSION_1_1;
    if (!describe(&self, &info)) return;
    ck_assert_uint_eq(info.unusable, TENON_REASON_DRIVER_TOO_OLD);
    ck_assert_ptr_nonnull(strstr(info.detail, "1.1"));
    ck_assert_int_eq(self.p->device_open(self.provider, 0, &self.device, &self.error), TENON_STATE);
    rig_close(&self);
}
END_TEST

/* Some drivers state budgets far above the heap they are for. */
START_TEST(budget_above_its_heap)
{
    tenon_device_info info;
    tenon_memory_info memory;
    rig self;
    rig_load(&self, 1);
    self.faults->budget = UINT64_C(1) << 60;
    if (!describe(&self, &info)) return;
    ck_assert_uint_le(info.memory_free, info.memory_total);
    ck_assert_int_eq(self.p->device_open(self.provider, 0, &self.device, &self.error), TENON_OK);
    memory = rig_memory(&self);
    ck_assert_uint_le(memory.free, memory.total);
    rig_close(&self);
}
END_TEST

START_TEST(budget_is_respected)
{
    tenon_device_buffer *buffer = NULL;
    tenon_device_info info;
    rig self;
    rig_load(&self, 1);
    self.faults->budget = UINT64_C(300) << 20;
    self.faults->usage = UINT64_C(200) << 20;
    if (!describe(&self, &info)) return;
    ck_assert_uint_eq(info.memory_free, UINT64_C(100) << 20);
    ck_assert_int_eq(self.p->device_open(self.provider, 0, &self.device, &self.error), TENON_OK);
    ck_assert_int_eq(self.memory->alloc(self.device, UINT64_C(120) << 20, &buffer, &self.error),
                     TENON_NOMEM);
    ck_assert_uint_ge(self.error.wanted, UINT64_C(120) << 20);
    ck_assert_uint_le(self.error.available, UINT64_C(100) << 20);
    rig_close(&self);
}
END_TEST

static Suite *suite(void)
{
    Suite *made = suite_create("vulkan found");
    TCase *none = tcase_create("none"), *some = tcase_create("some");
    tcase_set_timeout(none, 60);
    tcase_set_timeout(some, 120);
    tcase_add_test(none, no_loader);
    tcase_add_test(none, wrong_loader);
    tcase_add_test(none, no_driver);
    tcase_add_test(none, broken_driver);
    tcase_add_test(none, drivers_fail);
    tcase_add_test(none, drivers_are_empty);
    tcase_add_test(none, instance_fails);
    tcase_add_test(none, settings_are_read);
    tcase_add_test(some, device_is_described);
    tcase_add_test(some, kinds_are_told_apart);
    tcase_add_test(some, families);
    tcase_add_test(some, no_family_computes);
    tcase_add_loop_test(some, limits, 0, 6);
    tcase_add_test(some, old_device);
    tcase_add_test(some, budget_above_its_heap);
    tcase_add_test(some, budget_is_respected);
    suite_add_tcase(made, none);
    suite_add_tcase(made, some);
    return made;
}

int main(void)
{
    return runner_main(srunner_create(suite()));
}
