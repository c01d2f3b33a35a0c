// SPDX-License-Identifier: GPL-3.0-or-later
/* Pipeline layouts as text: what is read, refused, printed shortest, and what a pipeline needs. */
#include "engine/pipeline_string.h"
#include "step/engine_rules.h"

#include "close.h"

#include <stdio.h>
#include <string.h>

enum { CHUNKS = 256, TEXT = 600 };

static uint64_t state = 0x9e3779b97f4a7c15u;
static unsigned below(unsigned n) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % n;
}

struct layout_text {
    struct pipeline_chunk chunks[CHUNKS];
    size_t count;
};

static struct layout_text must_read(const char *text) {
    struct layout_text out = {0};
    struct status_error err = {0};
    if (pipeline_parse(text, out.chunks, CHUNKS, &out.count, &err) != MOSAIC_OK)
        fail_msg("%s: %s", text, err.message);
    return out;
}

static void must_print(const struct layout_text *l, char *text) {
    struct status_error err = {0};
    if (pipeline_print(l->chunks, l->count, text, TEXT, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
}

static bool same(const struct layout_text *a, const struct layout_text *b) {
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; ++i) {
        const struct pipeline_chunk *const x = &a->chunks[i], *const y = &b->chunks[i];
        if (x->layers != y->layers || x->mtp != y->mtp || x->embedding != y->embedding ||
            x->loss != y->loss)
            return false;
    }
    return true;
}

/* U38: DeepSeek-V3 on PP 16, VPP 2. */
static void deepseek_on_32_chunks(void **unused) {
    (void)unused;
    static const char text[] = "Et*3|(tt|)*29m|L";
    const struct layout_text l = must_read(text);
    struct status_error err = {0};
    assert_int_equal(l.count, 32);
    assert_true(l.chunks[0].embedding);
    assert_int_equal(l.chunks[0].layers, 3);
    for (size_t i = 1; i <= 29; ++i)
        assert_int_equal(l.chunks[i].layers, 2);
    assert_int_equal(l.chunks[30].mtp, 1);
    assert_int_equal(l.chunks[30].layers, 0);
    assert_true(l.chunks[31].loss);
    struct pipeline_need need = {.layers = 61, .mtp = 1, .pp = 16, .vpp = 2};
    assert_int_equal(pipeline_check(l.chunks, l.count, &need, &err), MOSAIC_OK);

    /* Stages: the first 3 + 2, those between 4, the last two 2 and MTP or loss. */
    struct split split;
    split_from_pipeline(l.chunks, l.count, 16, &split);
    assert_int_equal(split.stages, 16);
    assert_int_equal(split.first[16], 61);
    assert_int_equal(split.first[1], 5);
    for (int i = 1; i < 14; ++i)
        assert_int_equal(split.first[i + 1] - split.first[i], 4);
    assert_int_equal(split.first[15] - split.first[14], 2);
    assert_int_equal(split.first[16] - split.first[15], 2);

    char out[TEXT];
    must_print(&l, out);
    assert_string_equal(out, "Et(tt|)*30m|L");
    const struct layout_text again = must_read(out);
    assert_true(same(&l, &again));

    need.layers = 62;
    assert_int_equal(pipeline_check(l.chunks, l.count, &need, &err), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "61 layers (t) in all, but the model has 62"));
    need = (struct pipeline_need){.layers = 61, .mtp = 1, .pp = 8, .vpp = 2};
    assert_int_equal(pipeline_check(l.chunks, l.count, &need, &err), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "32 chunks, but PP 8 x VPP 2 = 16"));
    need = (struct pipeline_need){.layers = 61, .mtp = 0, .pp = 16, .vpp = 2};
    assert_int_equal(pipeline_check(l.chunks, l.count, &need, &err), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "1 MTP layers (m), but the model has 0"));
}

static void refused_by_check(void **unused) {
    (void)unused;
    static const struct {
        const char *text, *word;
        struct pipeline_need need;
    } cases[] = {
        {"Ett||ttL", "chunk 1 (stage 1, turn 0) is empty", {4, 0, 3, 1}},
        {"Et|t|t||t|L", "chunk 3 (stage 1, turn 1) is empty", {4, 0, 2, 3}},
        {"Et|t|t|tL|", "chunk 4 (stage 4, turn 0) is empty", {4, 0, 5, 1}},
        {"tt|ttL", "(E) belongs to the first chunk, and chunk 0 has none", {4, 0, 2, 1}},
        {"t|Ett|tL", "", {4, 0, 3, 1}}, /* out of order already */
        {"Ett|tt", "(L) belongs to the last chunk, and chunk 1 has none", {4, 0, 2, 1}},
        {"Ett|ttL|", "chunk 2 (stage 2, turn 0) is empty", {4, 0, 3, 1}},
        {"Ett|tL", "3 layers (t) in all, but the model has 4", {4, 0, 2, 1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        struct layout_text l = {0};
        struct status_error err = {0};
        enum mosaic_status status = pipeline_parse(cases[i].text, l.chunks, CHUNKS, &l.count, &err);
        assert_true(status == MOSAIC_OK || cases[i].word[0] == '\0');
        if (status == MOSAIC_OK)
            status = pipeline_check(l.chunks, l.count, &cases[i].need, &err);
        assert_int_equal(status, MOSAIC_BAD_INPUT);
        if (!strstr(err.message, cases[i].word))
            fail_msg("%s: %s", cases[i].text, err.message);
    }
}

static void errors_say_where(void **unused) {
    (void)unused;
    static const struct {
        const char *text, *word;
        long at;
    } cases[] = {
        {"Ett|x", "expected E, t, m, L, | or (", 5},
        {"*3", "expected", 1},
        {"Et*|L", "needs a number", 3},
        {"Et*0|L", "needs a number", 3},
        {"Et*9999L", "too long", 2},
        {"E(tt|", "is not closed", 2},
        {"E(tt|)L", "needs *n", 6},
        {"E()*3L", "holds nothing", 2},
        {"E((t)*2)*2L", "do not nest", 3},
        {"Ett)L", "expected", 4},
        {"Et*2*3L", "expected", 5},
        {"tE", "out of order", 2},
        {"EtmtL", "out of order", 4},
        {"EtLt", "out of order", 4},
        {"EEtL", "one E and one L", 2},
        {"EtLL", "one E and one L", 4},
        {"(E|)*2tL", "one E and one L", 2},
        {"Et\tL", "expected", 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        struct layout_text l = {0};
        struct status_error err = {0};
        size_t count = 77;
        assert_int_equal(pipeline_parse(cases[i].text, l.chunks, CHUNKS, &count, &err),
                         MOSAIC_BAD_INPUT);
        assert_int_equal(count, 77);
        if (!strstr(err.message, cases[i].word) || err.column != cases[i].at)
            fail_msg("%s: column %ld: %s", cases[i].text, err.column, err.message);
        assert_int_equal(pipeline_parse(cases[i].text, l.chunks, CHUNKS, &count, NULL),
                         MOSAIC_BAD_INPUT);
    }
    struct pipeline_chunk few[2];
    size_t count = 0;
    struct status_error err = {0};
    assert_int_equal(pipeline_parse("Et|t|L", few, 2, &count, &err), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "too many chunks"));
}

static void same_texts(void **unused) {
    (void)unused;
    static const char *const groups[][4] = {
        {"Et(tt|)*30m|L", "E,t*3,|(tt|)*28,tt|m|L", "Ettt(|tt)*29|m|L", "Et*3|(t*2|)*29m|L"},
        {"Et*4|t*4L", "Etttt|ttttL", "Et,*4|(tt)*2L", "E(tt)*2|t*4L"},
        {"E|t|L", "E(|t)*1|L", "E|t|L,", "E|t*1|L"},
        {"Et|||tL", "Et|*3tL", "Et|,||tL", "Et(|)*3tL"},
    };
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; ++i)
        for (size_t j = 0; j < 4; ++j) {
            const struct layout_text a = must_read(groups[i][0]), b = must_read(groups[i][j]);
            assert_true(same(&a, &b));
            char out[TEXT];
            must_print(&b, out);
            assert_string_equal(out, groups[i][0]);
        }
}

static struct layout_text random_layout(void) {
    struct layout_text l = {.count = 1 + below(below(2) ? 6 : 64)};
    const unsigned most = 1 + below(below(2) ? 4 : 30);
    for (size_t i = 0; i < l.count; ++i)
        l.chunks[i].layers = (uint16_t)(i > 0 && below(3) ? l.chunks[i - 1].layers : below(most));
    l.chunks[0].embedding = true;
    l.chunks[l.count - 1].loss = true;
    if (below(2)) { /* MTP layers stand behind all others */
        l.chunks[l.count - 1].mtp = (uint16_t)below(3);
        if (l.count > 1 && l.chunks[l.count - 1].layers == 0)
            l.chunks[l.count - 2].mtp = (uint16_t)below(3);
    }
    return l;
}

static void print_then_read_is_the_identity(void **unused) {
    (void)unused;
    for (int i = 0; i < 2000; ++i) {
        const struct layout_text l = random_layout();
        char once[TEXT], twice[TEXT];
        must_print(&l, once);
        const struct layout_text again = must_read(once);
        if (!same(&l, &again))
            fail_msg("%s", once);
        must_print(&again, twice);
        assert_string_equal(once, twice);
    }
}

/* No text that is shorter reads as the layout: all of them are tried. */
static void print_is_shortest(void **unused) {
    (void)unused;
    static const char alphabet[] = "EtmL|()*23456";
    enum { LETTERS = sizeof alphabet - 1, LONGEST = 7 };
    int tried = 0;
    for (int i = 0; i < 4000 && tried < 12; ++i) {
        const struct layout_text l = random_layout();
        char text[TEXT];
        must_print(&l, text);
        const size_t length = strlen(text);
        if (length < 5 || length > LONGEST || !strpbrk(text, "(*"))
            continue;
        ++tried;
        char shorter[LONGEST] = "";
        long all = 1;
        for (size_t k = 0; k + 2 < length; ++k)
            all *= LETTERS;
        for (size_t size = length - 1; size > 0 && size + 3 > length; --size) {
            /* It starts with E or a bracket, as the layout does. */
            for (long code = 0; code < all * 2; ++code) {
                long rest = code / 2;
                shorter[0] = code % 2 ? 'E' : '(';
                for (size_t k = 1; k < size; ++k, rest /= LETTERS)
                    shorter[k] = alphabet[rest % LETTERS];
                shorter[size] = '\0';
                struct layout_text other = {.count = 0};
                if (pipeline_parse(shorter, other.chunks, CHUNKS, &other.count, NULL) ==
                        MOSAIC_OK &&
                    same(&l, &other))
                    fail_msg("%s is shorter than %s", shorter, text);
            }
        }
    }
    assert_true(tried >= 5);
}

static void long_ones(void **unused) {
    (void)unused;
    struct layout_text l = {.count = CHUNKS};
    struct status_error err = {0};
    char out[TEXT];
    for (size_t i = 0; i < CHUNKS; ++i)
        l.chunks[i].layers = 3;
    l.chunks[0].embedding = l.chunks[CHUNKS - 1].loss = true;
    must_print(&l, out);
    assert_string_equal(out, "Ettt(|ttt)*255L");
    assert_int_equal(pipeline_print(l.chunks, l.count, out, 15, &err), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "15 characters do not fit 15"));
    assert_int_equal(pipeline_print(l.chunks, l.count, out, 16, &err), MOSAIC_OK);
    for (size_t i = 0; i < CHUNKS; ++i)
        l.chunks[i].layers = 300;
    assert_int_equal(pipeline_print(l.chunks, l.count, out, sizeof out, &err), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "more than 4096"));
}

/* Layers of each stage survive, whatever the number of chunks. */
static void splits_and_back(void **unused) {
    (void)unused;
    int kept = 0;
    for (int i = 0; i < 3000; ++i) {
        struct split split = {.stages = 1 + (int)below(16)}, back;
        const int vpp = 1 + (int)below(4), mtp = (int)below(3);
        for (int k = 0; k < split.stages; ++k)
            split.first[k + 1] = (uint16_t)(split.first[k] + below(9));
        struct layout_text l = {.count = (size_t)(split.stages * vpp)};
        struct status_error err = {0};
        if (pipeline_from_split(&split, vpp, mtp, l.chunks, CHUNKS, &err) != MOSAIC_OK) {
            assert_non_null(strstr(err.message, "would be empty"));
            continue;
        }
        ++kept;
        const struct pipeline_need need = {split.first[split.stages], mtp, split.stages, vpp};
        assert_int_equal(pipeline_check(l.chunks, l.count, &need, &err), MOSAIC_OK);
        split_from_pipeline(l.chunks, l.count, split.stages, &back);
        assert_int_equal(back.stages, split.stages);
        assert_memory_equal(back.first, split.first,
                            sizeof split.first[0] * (size_t)(split.stages + 1));
        char text[TEXT];
        must_print(&l, text);
        const struct layout_text again = must_read(text);
        assert_true(same(&l, &again));
    }
    assert_true(kept > 300);
    const struct split one = {.stages = 4, .first = {0, 15, 30, 46, 61}};
    struct layout_text l = {.count = 4};
    struct status_error err = {0};
    char text[TEXT];
    assert_int_equal(pipeline_from_split(&one, 1, 1, l.chunks, CHUNKS, &err), MOSAIC_OK);
    must_print(&l, text);
    assert_string_equal(text, "E(t*15|)*2t*16|t*15mL");
    assert_int_equal(pipeline_from_split(&one, 1, 1, l.chunks, 3, &err), MOSAIC_BAD_INPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deepseek_on_32_chunks),
        cmocka_unit_test(refused_by_check),
        cmocka_unit_test(errors_say_where),
        cmocka_unit_test(same_texts),
        cmocka_unit_test(print_then_read_is_the_identity),
        cmocka_unit_test(print_is_shortest),
        cmocka_unit_test(long_ones),
        cmocka_unit_test(splits_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
