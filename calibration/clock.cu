// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * NVML by name: its header is not everywhere, and a program linked to it would not start without a
 * driver.  The numbers are those of its documented, stable interface.
 */
#include "clock.h"

#include <dlfcn.h>
#include <math.h>
#include <stddef.h>

typedef struct nvml_device_state *nvml_device;

enum { NVML_OK = 0, NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2, NVML_TEMPERATURE_GPU = 0 };

static struct {
    bool is_tried;
    nvml_device device;
    int (*driver_version)(char *, unsigned);
    int (*clock)(nvml_device, int, unsigned *);
    int (*most_clock)(nvml_device, int, unsigned *);
    int (*power)(nvml_device, unsigned *);
    int (*power_limit)(nvml_device, unsigned *);
    int (*temperature)(nvml_device, int, unsigned *);
} nvml;

template <typename T> static void find(void *library, const char *name, T *to) {
    *to = reinterpret_cast<T>(dlsym(library, name));
}

/* Left open for the program's life. */
static void *open_library(void) {
    int (*init)(void) = NULL;
    void *const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return NULL;
    find(library, "nvmlInit_v2", &init);
    return init && init() == NVML_OK ? library : NULL;
}

static void load(const struct probe *p) {
    int (*by_bus)(const char *, nvml_device *) = NULL;
    char bus[32] = "";
    if (nvml.is_tried)
        return;
    nvml.is_tried = true;
    void *const library = open_library();
    if (!library)
        return;
    find(library, "nvmlSystemGetDriverVersion", &nvml.driver_version);
    if (!p || cudaDeviceGetPCIBusId(bus, (int)sizeof bus, p->device) != cudaSuccess)
        return;
    find(library, "nvmlDeviceGetHandleByPciBusId_v2", &by_bus);
    if (!by_bus || by_bus(bus, &nvml.device) != NVML_OK)
        return;
    find(library, "nvmlDeviceGetClockInfo", &nvml.clock);
    find(library, "nvmlDeviceGetMaxClockInfo", &nvml.most_clock);
    find(library, "nvmlDeviceGetPowerUsage", &nvml.power);
    find(library, "nvmlDeviceGetEnforcedPowerLimit", &nvml.power_limit);
    find(library, "nvmlDeviceGetTemperature", &nvml.temperature);
}

static double of_kind(int (*read)(nvml_device, int, unsigned *), int kind, double unit) {
    unsigned value = 0;
    return read && read(nvml.device, kind, &value) == NVML_OK ? unit * value : NAN;
}

static double of_device(int (*read)(nvml_device, unsigned *), double unit) {
    unsigned value = 0;
    return read && read(nvml.device, &value) == NVML_OK ? unit * value : NAN;
}

void clock_driver_version(char text[CLOCK_TEXT]) {
    text[0] = '\0';
    if (nvml.driver_version && nvml.driver_version(text, CLOCK_TEXT) != NVML_OK)
        text[0] = '\0';
}

struct clock_reading clock_read(const struct probe *p) {
    load(p);
    return {of_kind(nvml.clock, NVML_CLOCK_SM, 1e6), of_kind(nvml.clock, NVML_CLOCK_MEMORY, 1e6),
            of_device(nvml.power, 1e-3), of_kind(nvml.temperature, NVML_TEMPERATURE_GPU, 1)};
}

struct clock_limits clock_limits(const struct probe *p) {
    load(p);
    return {of_kind(nvml.most_clock, NVML_CLOCK_SM, 1e6),
            of_kind(nvml.most_clock, NVML_CLOCK_MEMORY, 1e6), of_device(nvml.power_limit, 1e-3)};
}
