/* SHA-256 against the published examples (FIPS 180-4, NIST), whole and in pieces. */
#include <loader/sha256.h>
#include <stdint.h>
#include <string.h>
#include "runner.h"

static const struct {
    const char *text;
    unsigned repeat;
    const char *digest;
} vectors[] = {
    {"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqr"
     "lmnopqrsmnopqrstnopqrstu",
     1, "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    {"aaaaaaaaaa", 100000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
};

START_TEST(published)
{
    uint8_t digest[32];
    char text[65];
    sha256 hash;
    unsigned i;
    sha256_begin(&hash);
    for (i = 0; i < vectors[_i].repeat; i++)
        sha256_add(&hash, vectors[_i].text, strlen(vectors[_i].text));
    sha256_end(&hash, digest);
    sha256_text(digest, text);
    ck_assert_str_eq(text, vectors[_i].digest);
}
END_TEST

/* However the bytes are cut, and at every length around the block size, the digest is the same. */
START_TEST(pieces)
{
    uint8_t bytes[200], whole[32], parts[32];
    unsigned length, cut, i;
    for (i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 37 + 11);
    for (length = 0; length <= sizeof bytes; length++) {
        sha256_of(bytes, length, whole);
        for (cut = 0; cut <= length; cut += 13) {
            sha256 hash;
            sha256_begin(&hash);
            sha256_add(&hash, bytes, cut);
            sha256_add(&hash, bytes + cut, length - cut);
            sha256_end(&hash, parts);
            ck_assert_msg(memcmp(whole, parts, 32) == 0, "length %u cut %u", length, cut);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sha256");
    TCase *test_case = tcase_create("sha256");
    tcase_set_timeout(test_case, 60);
    tcase_add_loop_test(test_case, published, 0, (int)(sizeof vectors / sizeof vectors[0]));
    tcase_add_test(test_case, pieces);
    suite_add_tcase(suite, test_case);
    return runner_main(srunner_create(suite));
}
