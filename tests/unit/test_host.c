/* The host itself: made and destroyed, asked what it found, its log, its configuration, its team,
 * forks, and callbacks that come too late. */

#include "test_host_rig.h"

#include <host/structs.h>
#include <sched.h>
#include <sys/wait.h>

static rig self;

START_TEST(version)
{
    ck_assert_str_eq(tenon_version(), TENON_VERSION);
}
END_TEST

START_TEST(defaults)
{
    tenon_host_desc desc = {.struct_size = sizeof desc, .abi_version = TENON_ABI_VERSION};
    tenon_host *host = NULL;
    setenv("TENON_PROVIDERS", "/nonexistent/for-this-test", 1); /* nothing of this machine */
    rig_ok(tenon_host_create(NULL, &host, NULL));
    rig_ok(tenon_host_destroy(host, NULL));
    rig_ok(tenon_host_create(&desc, &host, &rig_error));
    rig_ok(tenon_host_destroy(host, &rig_error));
    rig_ok(tenon_host_destroy(NULL, &rig_error));
}
END_TEST

/* An empty provider folder: the reference alone computes. */
START_TEST(reference_alone)
{
    uint64_t count = 0;
    tenon_candidate candidate = {.struct_size = sizeof candidate, .abi_version = TENON_ABI_VERSION};
    rig_start(&self, 1, 0);
    rig_open(&self, NULL, 0);
    rig_run_right(&self, 5);
    ck_assert_uint_eq(rig_counter(self.session, 0).calls, 1);
    ck_assert_uint_eq(rig_counter(self.session, 0).fallbacks, 0);
    rig_ok(tenon_host_candidate_count(self.host, &count, &rig_error));
    ck_assert_uint_eq(count, 1);
    rig_ok(tenon_host_candidate(self.host, 0, &candidate, &rig_error));
    ck_assert_uint_eq(candidate.verdict, TENON_CANDIDATE_LOADED);
    ck_assert_str_eq(candidate.id, "reference");
    ck_assert_str_eq(candidate.file, "");
    rig_fails(tenon_host_candidate(self.host, 1, &candidate, &rig_error), TENON_ARG,
              TENON_REASON_UNKNOWN_VALUE);
    rig_end(&self);
}
END_TEST

START_TEST(refused_descriptions)
{
    static const char *const nulls[1] = {NULL}, *const keyless[1] = {"=x"}, *const plain[1] = {"x"};
    struct {
        tenon_host_desc desc;
        uint64_t more;
    } longer;
    tenon_host_desc desc = rig_host_desc();
    tenon_host *host = (tenon_host *)(void *)&desc;
    int32_t status = TENON_ARG;
    uint32_t reason = 0;
    const tenon_host_desc *given = &desc;
    switch (_i) {
    case 0:
        desc.flags = 4;
        reason = TENON_REASON_UNKNOWN_VALUE;
        break;
    case 1:
        desc.threads = 1025;
        reason = TENON_REASON_UNKNOWN_VALUE;
        break;
    case 2:
        desc.reserved0[0] = 1;
        reason = TENON_REASON_RESERVED;
        break;
    case 3:
        desc.config_count = 1;
        reason = TENON_REASON_NULL_POINTER;
        break;
    case 4:
        desc.config = nulls;
        desc.config_count = 1;
        reason = TENON_REASON_NULL_POINTER;
        break;
    case 5:
        desc.config = keyless;
        desc.config_count = 1;
        reason = TENON_REASON_UNKNOWN_CONFIG;
        break;
    case 6:
        desc.config = plain;
        desc.config_count = 1;
        reason = TENON_REASON_UNKNOWN_CONFIG;
        break;
    case 7:
        desc.provider_path_count = 1;
        reason = TENON_REASON_NULL_POINTER;
        break;
    case 8:
        desc.provider_paths = nulls;
        desc.provider_path_count = 1;
        reason = TENON_REASON_NULL_POINTER;
        break;
    case 9:
        desc.select = "acme";
        reason = TENON_REASON_UNKNOWN_FILTER;
        break;
    case 10:
        desc.abi_version = 0;
        status = TENON_ABI;
        reason = TENON_REASON_STRUCT_SIZE;
        break;
    case 11:
        desc.struct_size = 7;
        status = TENON_ABI;
        reason = TENON_REASON_STRUCT_SIZE;
        break;
    default:
        longer.desc = desc;
        longer.desc.struct_size = sizeof longer;
        longer.more = UINT64_C(1) << 63;
        given = &longer.desc;
        reason = TENON_REASON_STRUCT_TAIL;
        break;
    }
    rig_fails(tenon_host_create(given, &host, &rig_error), status, reason);
    ck_assert_ptr_null(host);
}
END_TEST
#define DESCRIPTIONS 13

START_TEST(null_arguments)
{
    tenon_host *host = rig_host(1);
    tenon_session_desc desc = {.struct_size = sizeof desc, .abi_version = TENON_ABI_VERSION};
    tenon_candidate candidate = {.struct_size = sizeof candidate, .abi_version = 9};
    tenon_session *session = NULL;
    uint64_t count;
    uint32_t devices;
    rig_fails(tenon_host_create(NULL, NULL, &rig_error), TENON_ARG, TENON_REASON_NULL_POINTER);
    rig_fails(tenon_host_rescan(NULL, &rig_error), TENON_ARG, TENON_REASON_NULL_POINTER);
    rig_fails(tenon_host_register(host, NULL, 2, &rig_error), TENON_ARG, TENON_REASON_NULL_POINTER);
    rig_fails(tenon_host_candidate_count(host, NULL, &rig_error), TENON_ARG,
              TENON_REASON_NULL_POINTER);
    rig_fails(tenon_host_candidate_count(NULL, &count, &rig_error), TENON_ARG,
              TENON_REASON_NULL_POINTER);
    rig_fails(tenon_host_candidate(host, 0, NULL, &rig_error), TENON_ARG,
              TENON_REASON_NULL_POINTER);
    rig_fails(tenon_host_candidate(host, 0, &candidate, &rig_error), TENON_ABI,
              TENON_REASON_STRUCT_SIZE);
    rig_fails(tenon_host_device_count(host, NULL, &devices, &rig_error), TENON_ARG,
              TENON_REASON_NULL_POINTER);
    rig_fails(tenon_host_device_count(host, "reference", NULL, &rig_error), TENON_ARG,
              TENON_REASON_NULL_POINTER);
    rig_fails(tenon_host_team(host, NULL, &rig_error), TENON_ARG, TENON_REASON_NULL_POINTER);
    rig_fails(tenon_session_create(NULL, &desc, &session, &rig_error), TENON_ARG,
              TENON_REASON_NULL_POINTER);
    rig_fails(tenon_session_create(host, &desc, NULL, &rig_error), TENON_ARG,
              TENON_REASON_NULL_POINTER);
    rig_fails(tenon_session_link_count(NULL, &count, &rig_error), TENON_ARG,
              TENON_REASON_NULL_POINTER);
    rig_fails(tenon_session_counter_count(NULL, &count, &rig_error), TENON_ARG,
              TENON_REASON_NULL_POINTER);
    rig_fails(tenon_queue_create(NULL, NULL, &rig_error), TENON_ARG, TENON_REASON_NULL_POINTER);
    rig_fails(tenon_qmatmul(NULL, NULL, &rig_error), TENON_ARG, TENON_REASON_NULL_POINTER);
    ck_assert_ptr_null(tenon_session_queue(NULL));
    tenon_session_destroy(NULL);
    tenon_queue_destroy(NULL);
    tenon_weight_destroy(NULL);
    ck_assert_int_eq(tenon_host_rescan(NULL, NULL), TENON_ARG); /* no error wanted */
    rig_ok(tenon_host_destroy(host, &rig_error));
}
END_TEST

START_TEST(refused_sessions)
{
    tenon_host *host = rig_host(1);
    tenon_session_desc desc = {.struct_size = sizeof desc, .abi_version = TENON_ABI_VERSION};
    tenon_session *session = NULL;
    desc.flags = 2;
    rig_fails(tenon_session_create(host, &desc, &session, &rig_error), TENON_ARG,
              TENON_REASON_UNKNOWN_VALUE);
    desc.flags = 0;
    desc.arith = TENON_CLASS_APPROX;
    rig_fails(tenon_session_create(host, &desc, &session, &rig_error), TENON_ARG,
              TENON_REASON_UNKNOWN_VALUE);
    desc.arith = 0;
    desc.reserved1[1] = 1;
    rig_fails(tenon_session_create(host, &desc, &session, &rig_error), TENON_ARG,
              TENON_REASON_RESERVED);
    desc.reserved1[1] = 0;
    rig_ok(tenon_session_create(host, &desc, &session, &rig_error));
    tenon_session_destroy(session);
    rig_ok(tenon_session_create(host, NULL, &session, &rig_error));
    rig_fails(tenon_host_destroy(host, &rig_error), TENON_STATE, TENON_REASON_IN_USE);
    ck_assert_uint_eq(rig_error.available, 1);
    tenon_session_destroy(session);
    rig_ok(tenon_host_destroy(host, &rig_error));
}
END_TEST

/* A registered provider that is not right is refused, and the host goes on. */
START_TEST(bad_registration)
{
    tenon_static_symbol symbols[2] = {{"provider_v1", &tenon_reference_provider_v1},
                                      {"qmatmul_v0", &tenon_reference_qmatmul_v1}};
    uint64_t before = 0;
    fake_reset(0, "acme");
    rig_start(&self, 1, 0);
    ck_assert_int_eq(tenon_host_register(self.host, symbols, 2, &rig_error), TENON_ABI);
    ck_assert_int_eq(tenon_host_register(self.host, symbols, 0, &rig_error), TENON_ABI);
    rig_ok(fake_register(self.host, 0, &rig_error));
    rig_ok(tenon_host_candidate_count(self.host, &before, &rig_error));
    ck_assert_int_ne(fake_register(self.host, 0, &rig_error), TENON_OK); /* the same id twice */
    rig_open(&self, "acme", 0);
    rig_run_right(&self, 1);
    rig_end(&self);
}
END_TEST

static void TENON_CALL count_unit(void *context, uint64_t index, uint32_t worker)
{
    (void)index;
    (void)worker;
    ++*(atomic_uint *)context;
}

/* Services: configuration, team, log with the provider's name; dead after close. */
START_TEST(services_of_a_provider)
{
    static const char *const config[] = {"acme.level=low", "other=1", "acme.level=high=er",
                                         "empty="};
    tenon_host_desc desc = rig_host_desc();
    const tenon_services *services;
    tenon_services kept;
    atomic_uint units = 0;
    unsigned lines;
    tenon_host *host = NULL;
    uint32_t count;
    memset(rig_said.lines, 0, sizeof rig_said.lines);
    fake_reset(0, "acme");
    desc.config = config;
    desc.config_count = 4;
    desc.threads = 3;
    rig_ok(tenon_host_create(&desc, &host, &rig_error));
    rig_ok(fake_register(host, 0, &rig_error));
    rig_ok(tenon_host_device_count(host, "acme", &count, &rig_error));
    services = fake[0].services;
    ck_assert_ptr_nonnull(services);
    ck_assert_uint_eq(services->struct_size, sizeof *services);
    ck_assert_str_eq(services->config(services->host, "acme.level"), "high=er"); /* the last */
    ck_assert_str_eq(services->config(services->host, "empty"), "");
    ck_assert_ptr_null(services->config(services->host, "acme"));
    ck_assert_ptr_null(services->config(services->host, "acme.leve"));
    ck_assert_uint_eq(services->team_size(services->host), 3);
    services->parallel_for(services->host, 1000, count_unit, &units);
    ck_assert_uint_eq(units, 1000);
    services->log(services->host, TENON_LOG_WARNING, "two\nlines");
    ck_assert_str_eq(rig_said.last[TENON_LOG_WARNING], "tenon: acme: two lines");
    services->log(services->host, 99, "odd level");
    ck_assert_str_eq(rig_said.last[TENON_LOG_INFO], "tenon: acme: odd level");
    kept = *services;
    rig_ok(tenon_host_destroy(host, &rig_error));
    /* as from a destructor of the provider's library */
    lines = rig_said.lines[TENON_LOG_ERROR];
    kept.log(kept.host, TENON_LOG_ERROR, "too late");
    ck_assert_uint_eq(rig_said.lines[TENON_LOG_ERROR], lines);
    ck_assert_ptr_null(kept.config(kept.host, "empty"));
    ck_assert_uint_eq(kept.team_size(kept.host), 1);
    kept.parallel_for(kept.host, 10, count_unit, &units);
    ck_assert_uint_eq(units, 1010);
    host = rig_host(1); /* a new host does not bring an old ticket back to life */
    rig_ok(fake_register(host, 0, &rig_error));
    rig_ok(tenon_host_device_count(host, "acme", &count, &rig_error));
    kept.log(kept.host, TENON_LOG_ERROR, "too late");
    ck_assert_uint_eq(rig_said.lines[TENON_LOG_ERROR], lines);
    rig_ok(tenon_host_destroy(host, &rig_error));
}
END_TEST

START_TEST(team_of_a_host)
{
    tenon_team_info info = {.struct_size = sizeof info, .abi_version = TENON_ABI_VERSION};
    tenon_host *host = rig_host(5);
    rig_ok(tenon_host_team(host, &info, &rig_error));
    ck_assert_uint_eq(info.threads, 5);
    ck_assert_str_eq(info.why, "asked for");
    rig_ok(tenon_host_destroy(host, &rig_error));
    host = rig_host(0);
    rig_ok(tenon_host_team(host, &info, &rig_error));
    ck_assert_uint_ge(info.threads, 1);
    ck_assert_str_ne(info.why, "");
    ck_assert_str_ne(info.why, "asked for");
    rig_ok(tenon_host_destroy(host, &rig_error));
}
END_TEST

/* One processor allowed, eight threads asked for and pinned: a note at most, and it works. */
START_TEST(pinned_inside_the_mask)
{
    tenon_host_desc desc = rig_host_desc();
    tenon_team_info info = {.struct_size = sizeof info, .abi_version = TENON_ABI_VERSION};
    tenon_host *host = NULL;
    cpu_set_t all, one;
    uint32_t count;
    size_t cpu = 0;
    ck_assert_int_eq(sched_getaffinity(0, sizeof all, &all), 0);
    while (!CPU_ISSET(cpu, &all)) cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
    host = rig_host(0);
    rig_ok(tenon_host_team(host, &info, &rig_error));
    ck_assert_uint_eq(info.threads, 1);
    rig_ok(tenon_host_destroy(host, &rig_error));
    desc.flags |= TENON_HOST_PIN_THREADS;
    desc.threads = 8;
    fake_reset(0, "acme");
    rig_ok(tenon_host_create(&desc, &host, &rig_error));
    rig_ok(fake_register(host, 0, &rig_error));
    rig_ok(tenon_host_device_count(host, "acme", &count, &rig_error));
    {
        atomic_uint units = 0;
        fake[0].services->parallel_for(fake[0].services->host, 500, count_unit, &units);
        ck_assert_uint_eq(units, 500);
    }
    rig_ok(tenon_host_team(host, &info, &rig_error));
    ck_assert_uint_eq(info.threads, 8); /* the engine's number wins */
    rig_ok(tenon_host_destroy(host, &rig_error));
}
END_TEST

/* The child of a fork may not use the host; the parent goes on, and the child may make another. */
START_TEST(forked)
{
    int status = -1;
    pid_t child;
    fake_reset(0, "acme");
    rig_start(&self, 2, 1);
    rig_open(&self, "acme", 0);
    rig_run_right(&self, 3);
    fflush(NULL);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        tenon_candidate candidate = {.struct_size = sizeof candidate, .abi_version = 1};
        tenon_team_info info = {.struct_size = sizeof info, .abi_version = 1};
        tenon_weight_desc desc = rig_desc(RIG_ROWS);
        tenon_weight_data data = rig_data(self.values, sizeof self.values, TENON_LIFETIME_STABLE);
        tenon_weight_information weight_info = {.struct_size = sizeof weight_info,
                                                .abi_version = 1};
        tenon_link_info link = {.struct_size = sizeof link, .abi_version = 1};
        tenon_counter counter = {.struct_size = sizeof counter, .abi_version = 1};
        tenon_fit fit = {.struct_size = sizeof fit, .abi_version = 1};
        tenon_host *host = NULL;
        tenon_session *session;
        tenon_queue *queue;
        tenon_weight *weight;
        uint64_t count;
        uint32_t devices;
        int good = 1;
#define FORKED(call) \
    good = good && (call) == TENON_STATE && rig_error.reason == TENON_REASON_FORKED && \
           (rig_error.reason = 0) == 0
        FORKED(rig_run(&self, 1));
        FORKED(tenon_weight_create(self.session, &desc, &data, &weight, &rig_error));
        FORKED(tenon_weight_info(self.weight, &weight_info, &rig_error));
        FORKED(tenon_weight_begin_update(self.weight, &rig_error));
        FORKED(tenon_weight_end_update(self.weight, &rig_error));
        FORKED(tenon_session_create(self.host, NULL, &session, &rig_error));
        FORKED(tenon_session_link_count(self.session, &count, &rig_error));
        FORKED(tenon_session_link(self.session, 0, &link, &rig_error));
        FORKED(tenon_session_counter_count(self.session, &count, &rig_error));
        FORKED(tenon_session_counter(self.session, 0, &counter, &rig_error));
        FORKED(tenon_queue_create(self.session, &queue, &rig_error));
        FORKED(tenon_fits(self.session, 0, NULL, 0, &fit, &rig_error));
        FORKED(tenon_host_candidate_count(self.host, &count, &rig_error));
        FORKED(tenon_host_candidate(self.host, 0, &candidate, &rig_error));
        FORKED(tenon_host_device_count(self.host, "acme", &devices, &rig_error));
        FORKED(tenon_host_team(self.host, &info, &rig_error));
        FORKED(tenon_host_rescan(self.host, &rig_error));
        FORKED(tenon_host_register(self.host, NULL, 0, &rig_error));
        FORKED(tenon_host_destroy(self.host, &rig_error));
        tenon_weight_destroy(self.weight); /* these do nothing */
        tenon_queue_destroy(tenon_session_queue(self.session));
        tenon_session_destroy(self.session);
        /* a host of its own works */
        good = good && tenon_host_create(&(tenon_host_desc){.struct_size = sizeof(tenon_host_desc),
                                                            .abi_version = 1,
                                                            .flags = TENON_HOST_NO_SEARCH},
                                         &host, &rig_error) == TENON_OK;
        good = good && tenon_host_team(host, &info, &rig_error) == TENON_OK;
        good = good && tenon_host_destroy(host, &rig_error) == TENON_OK;
        _exit(good ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child: status %x", status);
    rig_run_right(&self, 3);
    rig_end(&self);
}
END_TEST

/* A thousand hosts leave nothing behind: no thread, no descriptor, no memory (the sanitizer's). */
START_TEST(thousand_hosts)
{
    atomic_uint units = 0;
    uint32_t count;
    int i, first, last;
    fake_reset(0, "acme");
    first = dup(0);
    ck_assert_int_ge(first, 0);
    close(first);
    for (i = 0; i < 1000; i++) {
        tenon_host *host = rig_host(2);
        rig_ok(fake_register(host, 0, &rig_error));
        rig_ok(tenon_host_device_count(host, "acme", &count, &rig_error));
        if (i % 10 == 0)
            fake[0].services->parallel_for(fake[0].services->host, 4, count_unit, &units);
        rig_ok(tenon_host_destroy(host, &rig_error));
    }
    last = dup(0);
    ck_assert_int_eq(last, first);
    close(last);
    ck_assert_uint_eq(units, 400);
    ck_assert(fake_balanced(0));
    ck_assert_uint_eq(fake[0].opens, 1000);
}
END_TEST

/* Sessions, queues and weights are destroyed in any order, and with their session. */
START_TEST(orders)
{
    tenon_queue *queues[3];
    tenon_session *other;
    unsigned i;
    fake_reset(0, "acme");
    rig_start(&self, 1, 1);
    rig_open(&self, "acme", 0);
    other = rig_session(self.host, "acme", 0);
    for (i = 0; i < 3; i++) {
        rig_ok(tenon_queue_create(self.session, &queues[i], &rig_error));
        self.call = rig_call(self.x, 1, self.weight, self.y, RIG_ROWS);
        rig_ok(tenon_qmatmul(queues[i], &self.call, &rig_error));
    }
    tenon_queue_destroy(queues[1]);
    tenon_queue_destroy(tenon_session_queue(self.session)); /* the session's own stays */
    rig_run_right(&self, 1);
    ck_assert_uint_eq(rig_counter(self.session, 0).calls, 4); /* with those of the gone queue */
    tenon_session_destroy(other);
    rig_run_right(&self, 1);
    rig_end(&self);
    ck_assert_uint_eq(fake[0].queue_opens, 4);
}
END_TEST

/* The struct rules, byte by byte. */
START_TEST(presenting)
{
    unsigned char mine[32] = {32, 0, 0, 0, 1, 0, 0, 0}, out[64];
    uint32_t i, size, offset;
    for (i = 8; i < 32; i++) mine[i] = (unsigned char)i;
    for (size = 8; size <= 64; size += 8) {
        memset(out, 0xcc, sizeof out);
        offset = 0;
        if (size < 32) {
            ck_assert(!struct_present(out, size, mine, 32, &offset));
            ck_assert_uint_eq(offset, size);
            ck_assert_uint_eq(out[0], 0xcc); /* nothing was made */
            memset(mine + size, 0, 32 - size);
        }
        ck_assert(struct_present(out, size, mine, 32, &offset));
        ck_assert_uint_eq(out[0], size);
        ck_assert_uint_eq(out[4], 1);
        for (i = 8; i < size; i++) ck_assert_uint_eq(out[i], i < 32 ? mine[i] : 0);
        for (i = size; i < 64; i++) ck_assert_uint_eq(out[i], 0xcc);
        for (i = 8; i < 32; i++) mine[i] = (unsigned char)i;
    }
}
END_TEST

static Suite *make(void)
{
    Suite *suite = suite_create("host");
    TCase *one = tcase_create("host");
    tcase_set_timeout(one, 120);
    tcase_add_test(one, version);
    tcase_add_test(one, defaults);
    tcase_add_test(one, reference_alone);
    tcase_add_loop_test(one, refused_descriptions, 0, DESCRIPTIONS);
    tcase_add_test(one, null_arguments);
    tcase_add_test(one, refused_sessions);
    tcase_add_test(one, bad_registration);
    tcase_add_test(one, services_of_a_provider);
    tcase_add_test(one, team_of_a_host);
    tcase_add_test(one, pinned_inside_the_mask);
    tcase_add_test(one, forked);
    tcase_add_test(one, thousand_hosts);
    tcase_add_test(one, orders);
    tcase_add_test(one, presenting);
    suite_add_tcase(suite, one);
    return suite;
}

int main(void)
{
    return runner_main(srunner_create(make()));
}
