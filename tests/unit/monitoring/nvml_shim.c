/* Answer as NVIDIA's management library would on four cards, so that its real Python binding runs without a GPU.
 *
 * NVML_SHIM_CARDS lists the cards, such as "T4,H200". The file NVML_SHIM_CONTROL, read at every call, scripts faults with
 * words: "driver=0" (no kernel driver), "lost=0" (card 0 fell off the bus), "unsupported=CALL", "fail=CALL" (this time),
 * "throttle=0x40", "pid=4321", "lanes=8". NVML_SHIM_LOG gets one line a call. Power, energy,
 * clocks, temperatures and limits of the H200 are recorded ones (idle, driver 580); all else is made up. Built with -DOLD_DRIVER it lacks newer calls. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
       DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15, UNKNOWN = 999 };
enum { NONE = -1 };

typedef struct {
    const char *key, *name;
    unsigned architecture, power_mw, default_mw, min_mw, sm_mhz, sm_max_mhz, memory_mhz, pcie_generation;
    unsigned long long memory_bytes, reserved_bytes, energy_mj;
    int celsius, memory_celsius, margin_celsius, thresholds, power_fields, row_remapping, retired_pages, mig, instant_mw;
} card;

static const card CARDS[] = {
    {"T4", "Tesla T4", 6, 31500, 70000, 60000, 1200, 1590, 5001, 3, 15843721216ULL, 462422016ULL, 900000ULL, 48, NONE, NONE, 1, 0, 0, 1, NONE, 0},
    {"L4", "NVIDIA L4", 8, 36250, 72000, 40000, 2040, 2040, 6251, 4, 24152899584ULL, 595591168ULL, 1700000ULL, 44, NONE, 36, 0, 1, 1, 0, NONE, 36750},
    {"A100", "NVIDIA A100-SXM4-40GB", 7, 61000, 400000, 100000, 1410, 1410, 1215, 4, 42949672960ULL, 611319808ULL, 5000000ULL, 37, 41, NONE, 1, 0, 1, 0, 0, 0},
    {"H200", "NVIDIA H200", 9, 78304, 700000, 200000, 345, 1980, 3201, 5, 150754820096ULL, 641728512ULL, 2449235ULL, 35, 36, 52, 1, 1, 1, 0, 0, 78776},
};

static unsigned generation, ready;

static int control(const char *word, char *value, size_t size) {
    const char *path = getenv("NVML_SHIM_CONTROL");
    FILE *f = path ? fopen(path, "r") : NULL;
    char token[128];
    int found = 0;
    size_t length = strlen(word);
    while (f && !found && fscanf(f, "%127s", token) == 1)
        if (!strncmp(token, word, length) && (token[length] == '=' || !token[length])) {
            snprintf(value, size, "%s", token[length] ? token + length + 1 : "");
            found = 1;
        }
    if (f) fclose(f);
    return found;
}

static long control_number(const char *word, long otherwise) {
    char value[64];
    return control(word, value, sizeof value) ? strtol(value, NULL, 0) : otherwise;
}

static int scripted(const char *word, const char *call) {
    char value[128];
    return control(word, value, sizeof value) && !strcmp(value, call);
}

static int enter(const char *call) {
    const char *path = getenv("NVML_SHIM_LOG");
    FILE *f = path ? fopen(path, "a") : NULL;
    if (f) { fprintf(f, "%s\n", call); fclose(f); }
    if (!ready) return UNINITIALIZED;
    if (scripted("unsupported", call)) return NOT_SUPPORTED;
    return scripted("fail", call) ? UNKNOWN : SUCCESS;
}

static const card *listed(unsigned index) {
    char names[128];
    snprintf(names, sizeof names, "%s", getenv("NVML_SHIM_CARDS") ? getenv("NVML_SHIM_CARDS") : "");
    for (char *rest = names, *name; (name = strtok_r(rest, ",", &rest)); index--)
        for (size_t i = 0; !index && i < sizeof CARDS / sizeof *CARDS; i++)
            if (!strcmp(CARDS[i].key, name)) return &CARDS[i];
    return NULL;
}

/* A handle carries the connection it was made in: one from before a restart is an error, as in the real library. */
static void *handle(unsigned index) { return (void *)(uintptr_t)(generation * 256 + index + 1); }
static unsigned index_of(void *h) { return ((unsigned)(uintptr_t)h & 255) - 1; }

static int open_card(const char *call, void *h, const card **c) {
    int result = enter(call);
    if (result) return result;
    if ((unsigned)(uintptr_t)h / 256 != generation) return UNINITIALIZED;
    if (control_number("lost", NONE) == (long)index_of(h)) return GPU_IS_LOST;
    *c = listed(index_of(h));
    return *c ? SUCCESS : INVALID_ARGUMENT;
}

#define CARD(h) const card *c; int result = open_card(__func__, h, &c); if (result) return result
#define ANSWER(value) do { *out = (value); return SUCCESS; } while (0)
#define ANSWER_IF(present, value) do { if (!(present)) return NOT_SUPPORTED; ANSWER(value); } while (0)

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (!control_number("driver", 1)) return DRIVER_NOT_LOADED;
    ready = 1; generation++;
    return SUCCESS;
}
int nvmlShutdown(void) { int result = enter(__func__); ready = 0; return result; }
const char *nvmlErrorString(int code) { return code == GPU_IS_LOST ? "GPU is lost" : "scripted"; }
int nvmlSystemGetDriverVersion(char *out, unsigned n) { int r = enter(__func__); if (!r) snprintf(out, n, "580.159.04"); return r; }
int nvmlDeviceGetCount_v2(unsigned *out) {
    int r = enter(__func__);
    if (r) return r;
    for (*out = 0; listed(*out); ) ++*out;
    return SUCCESS;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **out) { int r = enter(__func__); if (!r) *out = handle(i); return r; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **out) {
    int r = enter(__func__);
    unsigned i = (unsigned)atoi(uuid + strlen(uuid) - 2) - 1;
    if (r) return r;
    if (control_number("lost", NONE) == (long)i) return NOT_FOUND;
    ANSWER(handle(i));
}
int nvmlDeviceGetName(void *h, char *out, unsigned n) { CARD(h); snprintf(out, n, "%s", c->name); return SUCCESS; }
int nvmlDeviceGetUUID(void *h, char *out, unsigned n) {
    CARD(h); snprintf(out, n, "GPU-00000000-0000-0000-0000-%012u", index_of(h) + 1); return SUCCESS;
}
int nvmlDeviceGetArchitecture(void *h, unsigned *out) { CARD(h); ANSWER(c->architecture); }

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci;
int nvmlDeviceGetPciInfo_v3(void *h, pci *out) {
    CARD(h); memset(out, 0, sizeof *out); snprintf(out->bus_id, 32, "00000000:%02X:00.0", index_of(h) + 6); return SUCCESS;
}

typedef struct { unsigned long long total, free, used; } memory;
int nvmlDeviceGetMemoryInfo(void *h, memory *out) {
    CARD(h); out->total = c->memory_bytes; out->used = c->reserved_bytes + 3145728; out->free = out->total - out->used; return SUCCESS;
}
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2;
int nvmlDeviceGetMemoryInfo_v2(void *h, memory_v2 *out) {
    CARD(h); out->total = c->memory_bytes; out->reserved = c->reserved_bytes; out->used = 3145728; return SUCCESS;
}
typedef struct { unsigned gpu, memory; } utilization;
int nvmlDeviceGetUtilizationRates(void *h, utilization *out) { CARD(h); out->gpu = 42; out->memory = 17; return SUCCESS; }
int nvmlDeviceGetPerformanceState(void *h, unsigned *out) { CARD(h); ANSWER(0); }

int nvmlDeviceGetTemperature(void *h, unsigned sensor, unsigned *out) { (void)sensor; CARD(h); ANSWER((unsigned)c->celsius); }
#ifndef OLD_DRIVER
typedef struct { unsigned version, sensor; int celsius; } temperature;
int nvmlDeviceGetTemperatureV(void *h, temperature *out) { CARD(h); out->celsius = c->celsius; return SUCCESS; }
int nvmlDeviceGetCurrentClocksEventReasons(void *h, unsigned long long *out) {
    CARD(h); ANSWER((unsigned long long)control_number("throttle", 1));
}
typedef struct { unsigned version; int celsius; } margin;
int nvmlDeviceGetMarginTemperature(void *h, margin *out) {
    CARD(h); if (c->margin_celsius == NONE) return NOT_SUPPORTED; out->celsius = c->margin_celsius; return SUCCESS;
}
#endif
int nvmlDeviceGetCurrentClocksThrottleReasons(void *h, unsigned long long *out) {
    CARD(h); ANSWER((unsigned long long)control_number("throttle", 1));
}
int nvmlDeviceGetTemperatureThreshold(void *h, unsigned kind, unsigned *out) {
    static const unsigned limits[] = {95, 89, 95, 87};
    CARD(h); ANSWER_IF(c->thresholds && kind < 4, limits[kind]);
}
int nvmlDeviceGetPowerUsage(void *h, unsigned *out) { CARD(h); ANSWER(c->power_mw); }
int nvmlDeviceGetTotalEnergyConsumption(void *h, unsigned long long *out) { CARD(h); ANSWER(c->energy_mj); }
int nvmlDeviceGetEnforcedPowerLimit(void *h, unsigned *out) { CARD(h); ANSWER(c->default_mw); }
int nvmlDeviceGetPowerManagementDefaultLimit(void *h, unsigned *out) { CARD(h); ANSWER(c->default_mw); }
int nvmlDeviceGetPowerManagementLimitConstraints(void *h, unsigned *low, unsigned *high) {
    CARD(h); *low = c->min_mw; *high = c->default_mw; return SUCCESS;
}
static unsigned clock_of(const card *c, unsigned domain, unsigned sm) { return domain == 2 ? c->memory_mhz : domain == 3 ? sm / 2 : sm; }
int nvmlDeviceGetClockInfo(void *h, unsigned domain, unsigned *out) { CARD(h); ANSWER(clock_of(c, domain, c->sm_mhz)); }
int nvmlDeviceGetMaxClockInfo(void *h, unsigned domain, unsigned *out) { CARD(h); ANSWER(clock_of(c, domain, c->sm_max_mhz)); }
int nvmlDeviceGetCurrPcieLinkGeneration(void *h, unsigned *out) { CARD(h); ANSWER(c->pcie_generation); }
int nvmlDeviceGetMaxPcieLinkGeneration(void *h, unsigned *out) { CARD(h); ANSWER(c->pcie_generation); }
int nvmlDeviceGetCurrPcieLinkWidth(void *h, unsigned *out) { CARD(h); ANSWER((unsigned)control_number("lanes", 16)); }
int nvmlDeviceGetMaxPcieLinkWidth(void *h, unsigned *out) { CARD(h); ANSWER(16); }
int nvmlDeviceGetPcieReplayCounter(void *h, unsigned *out) { CARD(h); ANSWER(3); }
int nvmlDeviceGetEccMode(void *h, unsigned *current, unsigned *pending) { CARD(h); *current = *pending = 1; return SUCCESS; }
int nvmlDeviceGetTotalEccErrors(void *h, unsigned kind, unsigned scope, unsigned long long *out) { CARD(h); ANSWER(kind * 10 + scope); }
int nvmlDeviceGetRemappedRows(void *h, unsigned *correctable, unsigned *uncorrectable, unsigned *pending, unsigned *failed) {
    CARD(h); if (!c->row_remapping) return NOT_SUPPORTED;
    *correctable = 1; *uncorrectable = 2; *pending = 1; *failed = 0; return SUCCESS;
}
int nvmlDeviceGetRetiredPages(void *h, unsigned cause, unsigned *count, unsigned long long *addresses) {
    CARD(h); if (!c->retired_pages) return NOT_SUPPORTED;
    unsigned pages = cause ? 0 : 2;
    if (*count < pages) { *count = pages; return INSUFFICIENT_SIZE; }
    for (unsigned i = 0; addresses && i < pages; i++) addresses[i] = 4096 * i;
    *count = pages; return SUCCESS;
}
int nvmlDeviceGetPersistenceMode(void *h, unsigned *out) { CARD(h); ANSWER(1); }
int nvmlDeviceGetMigMode(void *h, unsigned *current, unsigned *pending) {
    CARD(h); if (c->mig == NONE) return NOT_SUPPORTED; *current = *pending = (unsigned)c->mig; return SUCCESS;
}

typedef struct { unsigned pid; unsigned long long bytes; unsigned gpu_instance, compute_instance; } process;
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *count, process *out) {
    CARD(h);
    long pid = control_number("pid", NONE);
    unsigned n = pid == NONE ? 0 : 1;
    if (*count < n) { *count = n; return INSUFFICIENT_SIZE; }
    if (n && out) out[0] = (process){(unsigned)pid, 1073741824ULL, 0, 0};
    *count = n; return SUCCESS;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *h, unsigned *count, process *out) { (void)out; CARD(h); *count = 0; return SUCCESS; }

typedef struct { unsigned id, scope; int64_t time, latency; unsigned type; int result; union { double d; unsigned u; unsigned long long ull; int i; } value; } field;
static void fill(const card *c, field *f) {
    f->result = SUCCESS; f->type = 1;
    if (f->id == 74) { f->type = 3; f->value.ull = 45352113920ULL; }
    else if (f->id == 82 && c->memory_celsius != NONE) f->value.u = (unsigned)c->memory_celsius;
    else if (f->id == 185 && c->power_fields) f->value.u = c->power_mw;
    else if (f->id == 186 && c->power_fields) f->value.u = (unsigned)c->instant_mw;
    else if (f->id >= 193 && f->id <= 196 && c->margin_celsius != NONE) {
        static const int offsets[] = {-8, -2, 0, 0};
        f->type = 5; f->value.i = offsets[f->id - 193];
    } else f->result = NOT_SUPPORTED;
}
int nvmlDeviceGetFieldValues(void *h, int count, field *fields) {
    CARD(h); for (int i = 0; i < count; i++) fill(c, &fields[i]); return SUCCESS;
}
