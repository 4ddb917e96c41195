/* Policy: which links a session gets, and what becomes of a product under each mode. */

#include "test_host_rig.h"

static rig self;

/* The chain that a session has, as text. */
static const char *chain_of(tenon_session *session)
{
    static char text[256];
    uint64_t count = 0, i;
    size_t used = 0;
    rig_ok(tenon_session_link_count(session, &count, &rig_error));
    text[0] = '\0';
    for (i = 0; i < count; i++) {
        tenon_link_info info = rig_link(session, i);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s:%u", i > 0 ? "," : "",
                                 info.provider, info.device);
    }
    return text;
}

static void expect_chain(const char *chain, uint32_t mode, const char *resolved)
{
    tenon_session *session = rig_session(self.host, chain, mode);
    ck_assert_str_eq(chain_of(session), resolved);
    tenon_session_destroy(session);
}

static void reset_all(void)
{
    fake_reset(0, "acme");
    fake_reset(1, "bolt");
    fake_reset(2, "cog");
    fake_reset(3, "dyn");
}

START_TEST(chain_and_mode)
{
    reset_all();
    rig_start(&self, 1, 1);
    expect_chain(NULL, 0, "acme:0,reference:0");
    expect_chain("", TENON_MODE_AUTO, "acme:0,reference:0");
    expect_chain("acme", 0, "acme:0,reference:0");
    expect_chain("acme", TENON_MODE_PIN, "acme:0");
    expect_chain("acme:0", TENON_MODE_PREFER, "acme:0,reference:0");
    expect_chain("reference", TENON_MODE_PIN, "reference:0");
    expect_chain("reference", TENON_MODE_PREFER, "reference:0");
    expect_chain("acme,reference", TENON_MODE_PREFER, "acme:0,reference:0");
    expect_chain("acme,reference", TENON_MODE_PIN, "acme:0,reference:0");
    expect_chain("reference,acme", TENON_MODE_AUTO, "acme:0,reference:0");
    expect_chain("reference,acme", TENON_MODE_PREFER, "reference:0"); /* never gets further */
    rig_fails(rig_no_session(self.host, NULL, TENON_MODE_PIN), TENON_ARG, TENON_REASON_BAD_CHAIN);
    rig_fails(rig_no_session(self.host, "", TENON_MODE_PREFER), TENON_ARG, TENON_REASON_BAD_CHAIN);
    rig_fails(rig_no_session(self.host, "acme", 9), TENON_ARG, TENON_REASON_UNKNOWN_VALUE);
    rig_end(&self);
    ck_assert_uint_eq(fake[0].opens, 1); /* opened once, shared by sessions */
    ck_assert_uint_eq(fake[0].device_opens, 1);
}
END_TEST

/* A device is named by its UUID as well, with or without dashes, in either case. */
START_TEST(named_by_uuid)
{
    tenon_device_description device = {TENON_HEAD(tenon_device_description), .kind = 0};
    reset_all();
    fake[0].device_count = 3;
    memset(fake[0].uuid[0], 0x11, 16);
    memset(fake[0].uuid[2], 0xA5, 16);
    fake[0].kind[1] = fake[0].kind[2] = TENON_DEVICE_DISCRETE;
    rig_start(&self, 1, 1);
    expect_chain("acme:a5a5a5a5-a5a5-a5a5-a5a5-a5a5a5a5a5a5", TENON_MODE_PIN, "acme:2");
    expect_chain("acme:11111111111111111111111111111111,acme:A5A5A5A5a5a5a5a5a5a5a5a5a5a5a5a5",
                 TENON_MODE_PIN, "acme:0,acme:2");
    rig_fails(rig_no_session(self.host, "acme:00000000-0000-0000-0000-000000000000", 0), TENON_ARG,
              TENON_REASON_NO_SUCH_DEVICE); /* the one without a UUID is not meant */
    rig_fails(rig_no_session(self.host, "acme:a5a5a5a5-a5a5-a5a5-a5a5-a5a5a5a5a5a6", 0), TENON_ARG,
              TENON_REASON_NO_SUCH_DEVICE);
    rig_fails(rig_no_session(self.host, "acme:2,acme:a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5", 0),
              TENON_ARG, TENON_REASON_BAD_CHAIN);
    rig_fails(rig_no_session(self.host, "acme:a5a5a5a5-a5a5-a5a5-a5a5-a5a5a5a5a5a", 0), TENON_ARG,
              TENON_REASON_BAD_CHAIN);
    rig_fails(rig_no_session(self.host, "acme:a5a5a5a5-a5a5-a5a5-a5a5-a5a5a5a5a5a5a", 0), TENON_ARG,
              TENON_REASON_BAD_CHAIN);
    rig_ok(tenon_host_device(self.host, "acme", 2, &device, &rig_error));
    ck_assert_uint_eq(device.uuid[15], 0xA5);
    rig_end(&self);
}
END_TEST

START_TEST(bad_chains)
{
    static const char *const chains[] = {
        ",",
        "acme,",
        ",acme",
        "acme,,acme",
        ":0",
        "acme:",
        "acme:x",
        "acme:0x1",
        "acme:-1",
        "acme:4294967295",
        "acme:99999999999999999999",
        "Acme",
        "ac me",
        "acme ",
        " acme",
        "1acme",
        "acme:0:0",
        "_a",
        "acme;bolt",
        "abcdefghijklmnopqrstuvwxyzabcdef",
        "acme,acme",
        "acme,acme:0",
        "acme\xff",
    };
    reset_all();
    rig_start(&self, 1, 1);
    rig_fails(rig_no_session(self.host, chains[_i], 0), TENON_ARG, TENON_REASON_BAD_CHAIN);
    expect_chain("acme", 0, "acme:0,reference:0"); /* usable afterwards */
    rig_end(&self);
}
END_TEST
#define BAD_CHAINS 23

START_TEST(long_chain)
{
    char chain[2048] = "acme:0";
    unsigned i;
    reset_all();
    fake[0].device_count = 1;
    rig_start(&self, 1, 1);
    for (i = 0; i < 100; i++) strcat(chain, ",acme:0");
    rig_fails(rig_no_session(self.host, chain, 0), TENON_ARG, TENON_REASON_BAD_CHAIN);
    rig_end(&self);
}
END_TEST

/* auto: hardware first, then cpu; one device a provider; software devices never. */
START_TEST(order_of_auto)
{
    reset_all();
    fake[0].kind[0] = TENON_DEVICE_CPU;
    fake[1].kind[0] = TENON_DEVICE_SOFTWARE;
    fake[2].device_count = 3;
    fake[2].kind[0] = TENON_DEVICE_SOFTWARE;
    fake[2].kind[1] = TENON_DEVICE_INTEGRATED;
    fake[2].kind[2] = TENON_DEVICE_DISCRETE;
    fake[3].kind[0] = TENON_DEVICE_NPU;
    rig_start(&self, 1, 4);
    expect_chain(NULL, 0, "cog:2,dyn:0,acme:0,reference:0");
    ck_assert_uint_eq(fake[2].device_opens, 1); /* only the chosen one was opened */
    ck_assert_uint_eq(fake[1].device_opens, 0);
    /* a chain in mode auto: these devices, ordered by the host */
    expect_chain("acme,bolt,cog", TENON_MODE_AUTO, "cog:2,acme:0,bolt:0,reference:0");
    expect_chain("bolt", 0, "bolt:0,reference:0"); /* named, it is used */
    expect_chain("cog:0", 0, "cog:0,reference:0");
    expect_chain("cog:1,cog", TENON_MODE_PIN, "cog:1,cog:2");
    rig_fails(rig_no_session(self.host, "cog:2,cog", 0), TENON_ARG, TENON_REASON_BAD_CHAIN);
    rig_end(&self);
}
END_TEST

START_TEST(kinds_in_order)
{
    static const uint32_t kinds[] = {TENON_DEVICE_CPU, TENON_DEVICE_NPU, TENON_DEVICE_VIRTUAL,
                                     TENON_DEVICE_INTEGRATED};
    int i;
    reset_all();
    for (i = 0; i < 4; i++) fake[i].kind[0] = kinds[i];
    rig_start(&self, 1, 4);
    expect_chain(NULL, 0, "dyn:0,cog:0,bolt:0,acme:0,reference:0");
    rig_end(&self);
}
END_TEST

/* Only a software device: not used unless named. */
START_TEST(only_software)
{
    reset_all();
    fake[0].kind[0] = TENON_DEVICE_SOFTWARE;
    rig_start(&self, 1, 1);
    expect_chain(NULL, 0, "reference:0");
    ck_assert_uint_eq(fake[0].opens, 1);
    ck_assert_uint_eq(fake[0].closes, 1); /* nobody uses it: its driver takes no memory */
    expect_chain("acme", 0, "acme:0,reference:0");
    expect_chain(NULL, 0, "reference:0");
    ck_assert_uint_eq(fake[0].closes, 1); /* a device of it is open */
    rig_end(&self);
}
END_TEST

/* Five devices, four of them bad in their own ways: the good one is taken, the others say why. */
START_TEST(bad_devices)
{
    tenon_device_description description = {.struct_size = sizeof description,
                                            .abi_version = TENON_ABI_VERSION};
    uint32_t i, count = 0;
    reset_all();
    fake[0].device_count = 5;
    for (i = 0; i < 5; i++) fake[0].kind[i] = TENON_DEVICE_DISCRETE;
    fake[0].device_status[0] = TENON_STATE;
    fake[0].device_status[1] = TENON_NOMEM;
    fake[0].unusable[2] = TENON_REASON_DRIVER_TOO_OLD;
    fake[0].unusable[3] = TENON_REASON_DEVICE_BUSY;
    fake[0].answer_reason = TENON_REASON_DEVICE_FAILED;
    rig_start(&self, 1, 1);
    expect_chain("acme", TENON_MODE_PIN, "acme:4");
    expect_chain(NULL, 0, "acme:4,reference:0");
    rig_fails(rig_no_session(self.host, "acme:1", 0), TENON_NOMEM, TENON_REASON_DEVICE_FAILED);
    rig_fails(rig_no_session(self.host, "acme:2", 0), TENON_STATE, TENON_REASON_DRIVER_TOO_OLD);
    rig_fails(rig_no_session(self.host, "acme:3", 0), TENON_STATE, TENON_REASON_DEVICE_BUSY);
    rig_fails(rig_no_session(self.host, "acme:5", 0), TENON_ARG, TENON_REASON_NO_SUCH_DEVICE);
    ck_assert_uint_eq(rig_error.available, 5);
    rig_ok(tenon_host_device_count(self.host, "acme", &count, &rig_error));
    ck_assert_uint_eq(count, 5);
    for (i = 0; i < 5; i++) {
        rig_ok(tenon_host_device(self.host, "acme", i, &description, &rig_error));
        ck_assert_uint_eq(description.unusable, fake[0].unusable[i]);
        ck_assert_uint_eq(description.kind, TENON_DEVICE_DISCRETE);
    }
    rig_fails(tenon_host_device(self.host, "acme", 5, &description, &rig_error), TENON_ARG,
              TENON_REASON_NO_SUCH_DEVICE);
    fake[0].device_status[4] = TENON_IO; /* none is left: the first failure is answered */
    rig_end(&self);
    rig_start(&self, 1, 1);
    rig_fails(rig_no_session(self.host, "acme", 0), TENON_STATE, TENON_REASON_DEVICE_FAILED);
    expect_chain(NULL, 0, "reference:0");
    rig_end(&self);
}
END_TEST

/* Named and missing is an error in every mode, and the reasons can be told apart. */
START_TEST(named_and_missing)
{
    static const uint32_t modes[] = {TENON_MODE_PIN, TENON_MODE_PREFER, TENON_MODE_AUTO};
    uint32_t mode = modes[_i], count = 77;
    reset_all();
    fake[0].open_status = TENON_STATE;
    fake[0].open_reason = TENON_REASON_DRIVER_TOO_OLD;
    fake[0].open_wanted = 550;
    fake[0].open_available = 535;
    fake[1].device_count = 0;
    fake[1].no_device_reason = TENON_REASON_DEVICE_FAILED;
    fake[1].no_device_text = "firmware did not come up";
    fake[2].device_count = 0;
    fake[3].open_null = true;
    rig_start(&self, 1, 4);
    rig_fails(rig_no_session(self.host, "nobody", mode), TENON_ARG, TENON_REASON_NO_SUCH_PROVIDER);
    rig_fails(rig_no_session(self.host, "acm", mode), TENON_ARG, TENON_REASON_NO_SUCH_PROVIDER);
    rig_fails(rig_no_session(self.host, "acmes", mode), TENON_ARG, TENON_REASON_NO_SUCH_PROVIDER);
    rig_fails(rig_no_session(self.host, "acme", mode), TENON_STATE, TENON_REASON_DRIVER_TOO_OLD);
    ck_assert_uint_eq(rig_error.wanted, 550);
    ck_assert_uint_eq(rig_error.available, 535);
    ck_assert_str_eq(rig_error.text, "acme: told not to open");
    rig_fails(rig_no_session(self.host, "reference,acme:0", mode), TENON_STATE,
              TENON_REASON_DRIVER_TOO_OLD);
    rig_fails(rig_no_session(self.host, "bolt", mode), TENON_STATE, TENON_REASON_DEVICE_FAILED);
    ck_assert_str_eq(rig_error.text, "bolt: firmware did not come up");
    rig_fails(rig_no_session(self.host, "bolt:0", mode), TENON_STATE, TENON_REASON_DEVICE_FAILED);
    rig_fails(rig_no_session(self.host, "cog", mode), TENON_STATE, TENON_REASON_NO_DEVICE);
    rig_fails(rig_no_session(self.host, "dyn", mode), TENON_INTERNAL, TENON_REASON_CONTRACT_BROKEN);
    /* devices: 0 is a real count, a provider that cannot open has none to count */
    rig_ok(tenon_host_device_count(self.host, "bolt", &count, &rig_error));
    ck_assert_uint_eq(count, 0);
    ck_assert_str_eq(rig_error.text, "firmware did not come up");
    count = 77;
    rig_fails(tenon_host_device_count(self.host, "acme", &count, &rig_error), TENON_STATE,
              TENON_REASON_DRIVER_TOO_OLD);
    rig_fails(tenon_host_device_count(self.host, "nobody", &count, &rig_error), TENON_ARG,
              TENON_REASON_NO_SUCH_PROVIDER);
    ck_assert_uint_eq(count, 77);
    rig_end(&self);
}
END_TEST

/* auto warns once about a loaded provider that does not open; a later try after rescan. */
START_TEST(auto_warns_once)
{
    reset_all();
    fake[0].open_status = TENON_STATE;
    fake[0].open_reason = TENON_REASON_DRIVER_TOO_OLD;
    fake[0].open_wanted = 550;
    fake[0].open_available = 535;
    rig_start(&self, 1, 1);
    expect_chain(NULL, 0, "reference:0");
    expect_chain(NULL, 0, "reference:0");
    ck_assert_uint_eq(rig_said.lines[TENON_LOG_WARNING], 1);
    ck_assert_ptr_nonnull(strstr(rig_said.last[TENON_LOG_WARNING], "acme"));
    ck_assert_ptr_nonnull(strstr(rig_said.last[TENON_LOG_WARNING], "550"));
    ck_assert_ptr_nonnull(strstr(rig_said.last[TENON_LOG_WARNING], "535"));
    fake[0].open_status = 0;
    expect_chain(NULL, 0, "reference:0"); /* a failure is remembered */
    rig_ok(tenon_host_rescan(self.host, &rig_error));
    expect_chain(NULL, 0, "acme:0,reference:0");
    rig_end(&self);
}
END_TEST

/* The device query is the very first call: it opens the provider. */
START_TEST(query_first)
{
    uint32_t count = 0;
    reset_all();
    rig_start(&self, 1, 1);
    ck_assert_uint_eq(fake[0].opens, 0);
    rig_ok(tenon_host_device_count(self.host, "acme", &count, &rig_error));
    ck_assert_uint_eq(count, 1);
    ck_assert_uint_eq(fake[0].opens, 1);
    rig_end(&self);
}
END_TEST

/* A file that was refused is quoted when it is named. */
START_TEST(refused_file_is_quoted)
{
    char directory[] = "/tmp/tenon-policy-XXXXXX", path[128];
    const char *paths[1];
    tenon_host_desc desc = rig_host_desc();
    tenon_host *host = NULL;
    FILE *file;
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/tenon-rotten.so", directory);
    file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    fputs("no library at all", file);
    fclose(file);
    paths[0] = directory;
    desc.provider_paths = paths;
    desc.provider_path_count = 1;
    rig_ok(tenon_host_create(&desc, &host, &rig_error));
    rig_fails(rig_no_session(host, "rotten", TENON_MODE_PREFER), TENON_ARG,
              TENON_REASON_NO_SUCH_PROVIDER);
    ck_assert_msg(strstr(rig_error.text, "stage=") != NULL, "%s", rig_error.text);
    rig_fails(rig_no_session(host, "rotte", TENON_MODE_PREFER), TENON_ARG,
              TENON_REASON_NO_SUCH_PROVIDER);
    ck_assert_ptr_null(strstr(rig_error.text, "stage="));
    rig_ok(tenon_host_destroy(host, &rig_error));
    unlink(path);
    rmdir(directory);
}
END_TEST

/* A link that claims class APPROX only needs the session's leave. */
START_TEST(approx)
{
    tenon_session_desc desc = {.struct_size = sizeof desc,
                               .abi_version = TENON_ABI_VERSION,
                               .chain = "acme",
                               .flags = TENON_SESSION_ALLOW_APPROX};
    reset_all();
    fake[0].arith = TENON_CLASS_BIT(TENON_CLASS_APPROX);
    fake[0].only_arith = TENON_CLASS_APPROX;
    rig_start(&self, 1, 1);
    rig_fails(rig_no_session(self.host, "acme", 0), TENON_ARG, TENON_REASON_UNSUPPORTED_CLASS);
    expect_chain(NULL, 0, "reference:0");
    rig_ok(tenon_session_create(self.host, &desc, &self.session, &rig_error));
    self.weight = rig_weight(self.session, self.values, RIG_ROWS);
    ck_assert_str_eq(rig_info(self.weight).provider, "acme");
    ck_assert_uint_eq(rig_info(self.weight).arith, TENON_CLASS_APPROX);
    rig_run_right(&self, 2);
    rig_end(&self);
}
END_TEST

/* A device that does not claim a class is not used for it, whatever supports says. */
START_TEST(unclaimed_class)
{
    reset_all();
    fake[0].arith = TENON_CLASS_BIT(TENON_CLASS_A8);
    rig_start(&self, 1, 1);
    rig_open(&self, "acme", TENON_MODE_PREFER);
    ck_assert_str_eq(rig_info(self.weight).provider, "reference");
    ck_assert_uint_eq(fake[0].supports, 0);
    ck_assert_uint_eq(rig_counter(self.session, 0).last_reason, TENON_REASON_UNSUPPORTED_CLASS);
    rig_end(&self);
}
END_TEST

static void dawdle(void *context)
{
    (void)context;
    usleep(20000);
}

/* The nine cells of docs/policy.md: mode against a missing, a failing and a slow provider. */
START_TEST(nine_cells)
{
    static const uint32_t modes[] = {TENON_MODE_PIN, TENON_MODE_PREFER, TENON_MODE_AUTO};
    uint32_t mode = modes[_i / 3];
    int what = _i % 3; /* 0 missing, 1 failing, 2 slow */
    bool automatic = mode == TENON_MODE_AUTO;
    tenon_counter counter;

    reset_all();
    if (what == 0) {
        fake[0].open_status = TENON_STATE;
        fake[0].open_reason = TENON_REASON_RUNTIME_ABSENT;
    } else if (what == 1) {
        fake[0].run_status = TENON_IO;
        fake[0].answer_reason = TENON_REASON_DEVICE_FAILED;
        fake[0].write_half = true;
    } else {
        fake[0].during = dawdle;
    }
    rig_start(&self, 1, 1);
    if (what == 0) {
        rig_fails(rig_no_session(self.host, "acme", mode), TENON_STATE,
                  TENON_REASON_RUNTIME_ABSENT);
        if (automatic) { /* not named: goes without, having said so */
            rig_open(&self, NULL, mode);
            rig_run_right(&self, 2);
            counter = rig_counter(self.session, 0);
            ck_assert_str_eq(counter.provider, "reference");
            ck_assert_uint_eq(counter.calls, 1);
            ck_assert_uint_eq(counter.fallbacks, 0);
            ck_assert_uint_eq(rig_said.lines[TENON_LOG_WARNING], 1);
        }
        rig_end(&self);
        return;
    }
    rig_open(&self, automatic ? NULL : "acme", mode);
    if (what == 2) { /* slow is not wrong: it runs where policy put it */
        rig_run_right(&self, 2);
        counter = rig_counter(self.session, 0);
        ck_assert_str_eq(counter.provider, "acme");
        ck_assert_uint_eq(counter.calls, 1);
        ck_assert_uint_eq(counter.failed, 0);
        ck_assert_uint_eq(rig_said.lines[TENON_LOG_WARNING], 0);
    } else if (mode == TENON_MODE_PIN) {
        rig_fails(rig_run(&self, 2), TENON_IO, TENON_REASON_DEVICE_FAILED);
        counter = rig_counter(self.session, 0);
        ck_assert_uint_eq(counter.failed, 1);
        ck_assert_uint_eq(counter.last_reason, TENON_REASON_DEVICE_FAILED);
    } else {
        rig_run_right(&self, 2);
        counter = rig_counter(self.session, 0);
        ck_assert_uint_eq(counter.calls, 0);
        ck_assert_uint_eq(counter.failed, 1);
        ck_assert_uint_eq(counter.last_reason, TENON_REASON_DEVICE_FAILED);
        counter = rig_counter(self.session, 1);
        ck_assert_str_eq(counter.provider, "reference");
        ck_assert_uint_eq(counter.calls, 1);
        ck_assert_uint_eq(counter.fallbacks, 1);
        /* that it failed; in mode prefer also that the reference took over */
        ck_assert_uint_eq(rig_said.lines[TENON_LOG_WARNING], automatic ? 1 : 2);
    }
    rig_end(&self);
}
END_TEST

static Suite *make(void)
{
    Suite *suite = suite_create("policy");
    TCase *one = tcase_create("policy");
    tcase_set_timeout(one, 60);
    tcase_add_test(one, chain_and_mode);
    tcase_add_test(one, named_by_uuid);
    tcase_add_loop_test(one, bad_chains, 0, BAD_CHAINS);
    tcase_add_test(one, long_chain);
    tcase_add_test(one, order_of_auto);
    tcase_add_test(one, kinds_in_order);
    tcase_add_test(one, only_software);
    tcase_add_test(one, bad_devices);
    tcase_add_loop_test(one, named_and_missing, 0, 3);
    tcase_add_test(one, auto_warns_once);
    tcase_add_test(one, query_first);
    tcase_add_test(one, refused_file_is_quoted);
    tcase_add_test(one, approx);
    tcase_add_test(one, unclaimed_class);
    tcase_add_loop_test(one, nine_cells, 0, 9);
    suite_add_tcase(suite, one);
    return suite;
}

int main(void)
{
    return runner_main(srunner_create(make()));
}
