// SPDX-License-Identifier: GPL-3.0-or-later
/* The table, checks that run once, the self-check; see the header. */
#include "device.h"
#include "group.h"
#include "quantity.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const struct quantity *const quantities[] = {
    &gemm_quantity,
    &grouped_gemm_quantity,
    &attention_quantity,
    &elementwise_quantity,
    &stream_quantity,
    &sustained_quantity,
    &launch_quantity,
    &host_copy_quantity,
    &adamw_quantity,
    &ring_strip_quantity,
    &moe_layer_quantity,
#ifdef PROBE_NCCL
    &collective_quantity,
    &overlap_quantity,
#endif
    NULL,
};

const struct quantity *quantity_of(enum sample_quantity id) {
    for (const struct quantity *const *q = quantities; *q; ++q)
        if ((*q)->id == id)
            return *q;
    return NULL;
}

long asked_value(const struct sample *asked, const char *key) {
    return (long)sample_value(asked, key);
}

const char *asked_word(const struct sample *asked, const char *key) {
    const int at = sample_key_index(asked->quantity, key);
    return sample_kind(asked->quantity)->keys[at].words[asked->value[at]];
}

void measured_add(struct measured *out, const char *name, double value) {
    if (out->figure_count < MEASURED_FIGURES && isfinite(value))
        out->figures[out->figure_count++] = {name, value};
}

/* ---- choices: the words and switches of a sample, the sizes left out ---- */

static long choices_of(const struct sample_key *key) {
    long count = 0;
    if (!key->words)
        return key->least == 0 && key->most == 1 ? 2 : 1;
    while (key->words[count])
        ++count;
    return count;
}

static long choice_count(const struct sample_kind *kind) {
    long count = 1;
    for (int i = 0; i < kind->key_count; ++i)
        count *= choices_of(&kind->keys[i]);
    return count;
}

static long choice_of(const struct sample *s) {
    const struct sample_kind *const kind = sample_kind(s->quantity);
    long choice = 0;
    for (int i = 0; i < kind->key_count; ++i) {
        const long choices = choices_of(&kind->keys[i]);
        choice = choice * choices + (choices > 1 ? (long)s->value[i] : 0);
    }
    return choice;
}

/* The other way round; sizes are the least. */
static struct sample sample_of_choice(enum sample_quantity quantity, long choice) {
    const struct sample_kind *const kind = sample_kind(quantity);
    struct sample s = {};
    s.quantity = quantity;
    for (int i = kind->key_count; i-- > 0;) {
        const long choices = choices_of(&kind->keys[i]);
        s.value[i] = choices > 1 ? choice % choices : kind->keys[i].least;
        choice /= choices;
    }
    return s;
}

/* ---- checks ---- */

/* What one rank or several can do has two of each choice. */
enum { MOST_CHOICES = 256 };
enum verdict { UNKNOWN, AGREES, DIFFERS };
static unsigned char verdicts[SAMPLE_QUANTITIES][MOST_CHOICES];

static void start_check(struct probe *p) {
    p->is_quiet = true;
    p->has_failed = false;
    p->compared = 0;
    p->worst = 0;
    p->difference[0] = '\0';
    p->turn = 0;
}

/* A check's comparisons are counted in the probe, and what it took is given back. */
static void run_check(struct probe *p, const struct quantity *q, const struct sample *asked) {
    const size_t mark = device_mark();
    start_check(p);
    try {
        q->check(p, asked);
    } catch (...) {
        device_release(mark);
        throw;
    }
    device_release(mark);
}

/* All ranks of the group take part. */
static bool is_shared(const struct quantity *q, const struct sample *asked) {
    const int ranks = sample_key_index(q->id, "ranks");
    return q->needs_group || (ranks >= 0 && asked->value[ranks] > 1);
}

static void verify(struct probe *p, const struct quantity *q, const struct sample *asked) {
    const bool are_several = is_shared(q, asked);
    const long alone = are_several && !q->needs_group ? choice_count(sample_kind(q->id)) : 0;
    const long choice = choice_of(asked) + alone;
    unsigned char unkept = UNKNOWN;
    unsigned char *const verdict = choice < MOST_CHOICES ? &verdicts[q->id][choice] : &unkept;
    if (*verdict == UNKNOWN) {
        run_check(p, q, asked);
        const bool is_right = !p->has_failed && p->compared > 0;
        const bool are_all = are_several ? group_agrees(p, is_right) : is_right;
        if (is_right && !are_all)
            (void)snprintf(p->difference, sizeof p->difference,
                           "results of another rank differ from what they should be");
        *verdict = are_all ? AGREES : DIFFERS;
    }
    if (*verdict == DIFFERS)
        probe_refuse(REFUSED_FAILED, "%s",
                     p->difference[0] ? p->difference : "results differ from the host's");
}

void quantity_forget_group(void) {
    for (const struct quantity *const *q = quantities; *q; ++q)
        if (sample_key_index((*q)->id, "ranks") >= 0)
            memset(verdicts[(*q)->id], UNKNOWN, MOST_CHOICES);
}

void quantity_measure(struct probe *p, struct sample *asked, struct measured *out) {
    const struct quantity *const q = quantity_of(asked->quantity);
    if (!q)
        probe_refuse(REFUSED_UNSUPPORTED, "'%s' is not measured by this build",
                     sample_kind(asked->quantity)->name);
    if (is_shared(q, asked))
        group_require(p, asked);
    verify(p, q, asked);
    *out = {};
    out->rounds = p->repeats;
    q->measure(p, asked, out);
    const struct spread *const time = &out->timing.time_s;
    if (!(time->least > 0) || !isfinite(time->most))
        probe_refuse(REFUSED_FAILED, "the clock gave no time");
    asked->median_s = time->median;
    asked->least_s = time->least;
    asked->most_s = time->most;
    asked->rounds = out->rounds;
    asked->is_verified = true;
}

/* ---- the self-check ---- */

struct tally {
    int agree, differ, fail, unsupported;
};

static void print_choice(const struct sample *s) {
    const struct sample_kind *const kind = sample_kind(s->quantity);
    printf("%s", kind->name);
    for (int i = 0; i < kind->key_count; ++i)
        if (kind->keys[i].words)
            printf(" %s", kind->keys[i].words[s->value[i]]);
        else if (choices_of(&kind->keys[i]) > 1)
            printf(" %s=%lld", kind->keys[i].name, s->value[i]);
    printf(": ");
}

static void print_verdict(const struct probe *p, struct tally *tally) {
    const bool differs = p->has_failed || p->compared == 0;
    ++*(differs ? &tally->differ : &tally->agree);
    if (differs)
        printf("DIFFERS: %s\n", p->compared ? p->difference : "nothing was compared");
    else
        printf("agrees, at %.2g of what is allowed\n", p->worst);
}

static void print_refusal(const struct probe_refused *refused, struct tally *tally) {
    const bool is_unsupported = refused->why == REFUSED_UNSUPPORTED;
    ++*(is_unsupported ? &tally->unsupported : &tally->fail);
    printf("%s: %s\n", is_unsupported ? "not here" : "FAILS", refused->text);
}

/* A lost device ends the program: nothing after it would mean anything. */
static void recover(struct probe *p) {
    (void)fflush(stdout);
    if (device_is_lost(p))
        probe_die(MOSAIC_DEVICE, "the device is lost; start anew");
    group_recover(p);
}

static void check_quantity(struct probe *p, const struct quantity *q, struct tally *tally) {
    const long count = choice_count(sample_kind(q->id));
    for (long choice = 0; choice < count; ++choice) {
        const struct sample asked = sample_of_choice(q->id, choice);
        print_choice(&asked);
        (void)fflush(stdout);
        try {
            run_check(p, q, &asked);
            print_verdict(p, tally);
        } catch (const probe_refused &refused) {
            print_refusal(&refused, tally);
            recover(p);
        }
    }
}

static void check_kind(struct probe *p, const struct probe_kind *kind, struct tally *tally) {
    const size_t mark = device_mark();
    printf("%s %s: ", kind->group, kind->name);
    (void)fflush(stdout);
    start_check(p);
    try {
        probe_check_kind(p, kind);
        print_verdict(p, tally);
    } catch (const probe_refused &refused) {
        print_refusal(&refused, tally);
        recover(p);
    }
    device_release(mark);
}

/* Alone, where no other rank has joined. */
static bool has_group(struct probe *p, const struct quantity *q, struct tally *tally) {
    if (p->group)
        return true;
    try {
        group_join_alone(p);
    } catch (const probe_refused &refused) {
        printf("%s: ", sample_kind(q->id)->name);
        print_refusal(&refused, tally);
        recover(p);
        return false;
    }
    return true;
}

bool quantity_self_check(struct probe *p) {
    struct tally tally = {};
    for (const struct probe_kind *const *kind = probe_kinds; *kind; ++kind)
        check_kind(p, *kind, &tally);
    for (const struct quantity *const *q = quantities; *q; ++q) {
        if (!(*q)->needs_group || has_group(p, *q, &tally))
            check_quantity(p, *q, &tally);
    }
    printf("%d agree, %d differ, %d fail, %d not here\n", tally.agree, tally.differ, tally.fail,
           tally.unsupported);
    return tally.differ == 0 && tally.fail == 0;
}
