// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Who sits where, and whether all of them can give one calibration.  What is wrong is told with the
 * rank and the host, before anything is measured.
 */
#include "measure/rendezvous.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int before(const struct team *team, int a, int b) {
    const struct member *const x = &team->members[a], *const y = &team->members[b];
    if (x->node != y->node)
        return x->node < y->node;
    if (x->local_rank != y->local_rank)
        return x->local_rank < y->local_rank;
    return a < b;
}

enum mosaic_status team_seat(struct team *team, struct status_error *err) {
    (void)err;
    assert(team->ranks > 0);
    team->nodes = 0;
    for (int i = 0; i < team->ranks; ++i) {
        int same = 0;
        while (same < i && strcmp(team->members[same].host, team->members[i].host) != 0)
            same++;
        team->members[i].node = same < i ? team->members[same].node : team->nodes++;
        int at = i;
        for (; at > 0 && before(team, i, team->places[at - 1]); --at)
            team->places[at] = team->places[at - 1];
        team->places[at] = i;
    }
    team->ranks_per_node = team->ranks / (team->nodes > 0 ? team->nodes : 1);
    return MOSAIC_OK;
}

static int on_node(const struct team *team, int node) {
    int count = 0;
    for (int i = 0; i < team->ranks; ++i)
        count += team->members[i].node == node;
    return count;
}

static const char *host_of(const struct team *team, int node) {
    int i = 0;
    while (team->members[i].node != node)
        ++i;
    return team->members[i].host;
}

static int devices_of(const struct member *m) {
    const json_t *const device = json_object_get(json_object_get(m->card, "hello"), "device");
    const json_t *const count = json_object_get(device, "count");
    return count ? (int)json_integer_value(count) : 1;
}

static enum mosaic_status check_probes(const struct team *team, struct status_error *err) {
    char text[PROTOCOL_TEXT_MAX] = "", name[PROTOCOL_TEXT_MAX];
    int failed = 0, first = -1;
    for (int i = 0; i < team->ranks; ++i)
        if (team->members[i].failure[0]) {
            failed++;
            first = first < 0 ? i : first;
        }
    if (failed == 0)
        return MOSAIC_OK;
    team_name(team, first, name, sizeof name);
    (void)snprintf(text, sizeof text, "%s", team->members[first].failure);
    (void)status_set(err, MOSAIC_DEVICE, "%s: %s", name, text);
    status_hint(err, "%d of %d ranks have no working probe; nothing was measured", failed,
                team->ranks);
    return MOSAIC_DEVICE;
}

/* What most nodes have, ranks or devices. */
static int usual(const int *counts, int count) {
    int best = 0, most = 0;
    for (int i = 0; i < count; ++i) {
        int same = 0;
        for (int k = 0; k < count; ++k)
            same += counts[k] == counts[i];
        if (same > most || (same == most && counts[i] > best)) {
            most = same;
            best = counts[i];
        }
    }
    return best;
}

static enum mosaic_status check_counts(const struct team *team, const int *counts, int wanted,
                                       const char *what, struct status_error *err) {
    for (int node = 0; node < team->nodes; ++node)
        if (counts[node] != wanted) {
            (void)status_set(err, MOSAIC_DEVICE, "%s has %d of %d %s", host_of(team, node),
                             counts[node], wanted, what);
            status_hint(err, "nothing was measured: repair or leave out the node (nvidia-smi "
                             "there), or start as many ranks on each");
            return MOSAIC_DEVICE;
        }
    return MOSAIC_OK;
}

static enum mosaic_status check_inventory(const struct team *team,
                                          const struct rendezvous_options *options,
                                          struct status_error *err) {
    int *const ranks = calloc((size_t)team->nodes, sizeof *ranks);
    int *const devices = calloc((size_t)team->nodes, sizeof *devices);
    if (!ranks || !devices) {
        free(ranks);
        free(devices);
        return status_no_memory(err);
    }
    for (int node = 0; node < team->nodes; ++node)
        ranks[node] = on_node(team, node);
    for (int i = 0; i < team->ranks; ++i)
        devices[team->members[i].node] = devices_of(&team->members[i]);
    const int stated = options->gpus_per_node;
    enum mosaic_status status =
        check_counts(team, devices, usual(devices, team->nodes), "devices", err);
    if (status == MOSAIC_OK)
        status = check_counts(team, ranks, stated > 0 ? stated : usual(ranks, team->nodes),
                              stated > 0 ? "GPUs that the cluster document states" : "ranks", err);
    free(ranks);
    free(devices);
    return status;
}

/* Hosts that share a name, such as "localhost", would count as one. */
static enum mosaic_status check_hosts(const struct team *team, struct status_error *err) {
    for (int i = 1; i < team->ranks; ++i) {
        const struct member *const a = &team->members[team->places[i - 1]];
        const struct member *const b = &team->members[team->places[i]];
        if (a->node != b->node || a->local_rank != b->local_rank)
            continue;
        (void)status_set(err, MOSAIC_DEVICE, "ranks %d and %d are both the local rank %d on %s",
                         a->rank, b->rank, a->local_rank, a->host);
        status_hint(err, "do two hosts have one name?  nothing was measured");
        return MOSAIC_DEVICE;
    }
    return MOSAIC_OK;
}

static enum mosaic_status hello_of(const struct member *m, struct probe_hello *out,
                                   struct status_error *err) {
    char *const text = json_dumps(json_object_get(m->card, "hello"), JSON_COMPACT);
    if (!text)
        return status_set(err, MOSAIC_DEVICE, "rank %d on %s shows no probe", m->rank, m->host);
    const enum mosaic_status status = protocol_hello(text, strlen(text), out, err);
    free(text);
    return status;
}

static enum mosaic_status check_same(const struct team *team, struct status_error *err) {
    struct probe_hello first = {.root = NULL};
    char text[PROTOCOL_TEXT_MAX], name[PROTOCOL_TEXT_MAX];
    TRY(hello_of(&team->members[0], &first, err));
    enum mosaic_status status = MOSAIC_OK;
    for (int i = 1; status == MOSAIC_OK && i < team->ranks; ++i) {
        struct probe_hello other = {.root = NULL};
        const struct member *const m = &team->members[i];
        const char *const program = json_string_value(json_object_get(m->card, "program"));
        team_name(team, i, name, sizeof name);
        if (!program || strcmp(program, MOSAIC_VERSION) != 0) {
            status = status_set(err, MOSAIC_DEVICE, "%s runs mosaic %s, rank 0 " MOSAIC_VERSION,
                                name, program ? program : "of an unknown version");
            break;
        }
        status = hello_of(m, &other, err);
        if (status == MOSAIC_OK && !protocol_same(&other, &first, text))
            status = status_set(err, MOSAIC_DEVICE, "%s differs from rank 0: %s", name, text);
        protocol_hello_free(&other);
    }
    protocol_hello_free(&first);
    if (status != MOSAIC_OK)
        status_hint(err, "one calibration is of one kind of machine and software: nothing was "
                         "measured");
    return status;
}

static enum mosaic_status check_cluster(const struct team *team,
                                        const struct rendezvous_options *options,
                                        struct status_error *err) {
    if (options->cluster_gpus == 0 || team->ranks <= options->cluster_gpus)
        return MOSAIC_OK;
    return status_set(err, MOSAIC_DEVICE, "%d ranks came, the cluster document has %d GPUs",
                      team->ranks, options->cluster_gpus);
}

enum mosaic_status team_check(const struct team *team, const struct rendezvous_options *options,
                              struct status_error *err) {
    TRY(check_probes(team, err));
    TRY(check_hosts(team, err));
    TRY(check_inventory(team, options, err));
    TRY(check_same(team, err));
    return check_cluster(team, options, err);
}
