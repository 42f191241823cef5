/*
 * A stand-in for NVIDIA's libnvidia-ml.so.1: it replays a scenario file below the real Python binding.
 *
 * It is no driver and measures nothing. Signatures and structures follow the public header nvml.h. The environment variable
 * NVML_STANDIN names the scenario, a text file with one answer a line:
 *
 *     DEVICE KEY [@CALL] VALUE...
 *
 * DEVICE is "-" for the system, "0", "1", ... for a GPU, "0.0", "0.1", ... for a MIG instance of GPU 0. VALUE is what the
 * function of that KEY gives, or !CODE for an nvmlReturn_t error. A line with @CALL holds from that call (1, 2, ...) of the
 * function on the device onwards, so that answers can change in mid-run. The line with the greatest CALL that has been reached
 * wins; a KEY without any line answers NVML_ERROR_NOT_SUPPORTED. Processes are lines of their own, one each:
 *
 *     DEVICE compute|graphics PID BYTES|na
 *
 * The key "everything" with an error holds for every function of the device.
 * With -DWITHOUT_V2 the functions that older drivers lack are not exported at all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUCCESS 0
#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define NOT_FOUND 6
#define INSUFFICIENT_SIZE 7
#define NOT_AVAILABLE 0xFFFFFFFFFFFFFFFFULL

#define LINES 512
#define DEVICES 32

typedef struct {
    char device[16], key[32], value[192];
    int from;
} Line;

typedef struct {
    char name[16];
} Device;

typedef struct {
    char device[16], key[32];
    int calls;
} Counter;

static Line lines[LINES];
static int line_count;
static Device devices[DEVICES];
static int device_count;
static Counter counters[LINES];
static int counter_count;

static void load(void)
{
    const char *path = getenv("NVML_STANDIN");
    FILE *file = path ? fopen(path, "r") : NULL;
    char text[320];
    if (!file)
        return;
    while (fgets(text, sizeof text, file) && line_count < LINES) {
        Line *line = &lines[line_count];
        char rest[256] = "";
        if (text[0] == '#' || sscanf(text, "%15s %31s %255[^\n]", line->device, line->key, rest) < 2)
            continue;
        line->from = 0;
        char *value = rest;
        if (sscanf(rest, "@%d", &line->from) == 1)
            value = strchr(rest, ' ') ? strchr(rest, ' ') + 1 : rest + strlen(rest);
        snprintf(line->value, sizeof line->value, "%.191s", value);
        line_count++;
    }
    fclose(file);
}

static int count_call(const char *device, const char *key)
{
    for (int i = 0; i < counter_count; i++)
        if (!strcmp(counters[i].device, device) && !strcmp(counters[i].key, key))
            return ++counters[i].calls;
    if (counter_count == LINES)
        return 1;
    snprintf(counters[counter_count].device, sizeof counters->device, "%s", device);
    snprintf(counters[counter_count].key, sizeof counters->key, "%s", key);
    return counters[counter_count++].calls = 1;
}

static const char *find(const char *device, const char *key, int call)
{
    const Line *best = NULL;
    for (int i = 0; i < line_count; i++)
        if (!strcmp(lines[i].device, device) && !strcmp(lines[i].key, key) && lines[i].from <= call &&
            (!best || lines[i].from >= best->from))
            best = &lines[i];
    return best ? best->value : NULL;
}

/* The answer to this call: SUCCESS with *value, or an error code. */
static int answer(const char *device, const char *key, const char **value)
{
    const char *all = find(device, "everything", count_call(device, "everything"));
    if (all && all[0] == '!')
        return atoi(all + 1);
    *value = find(device, key, count_call(device, key));
    if (!*value)
        return NOT_SUPPORTED;
    return (*value)[0] == '!' ? atoi(*value + 1) : SUCCESS;
}

static Device *handle_of(const char *name)
{
    for (int i = 0; i < device_count; i++)
        if (!strcmp(devices[i].name, name))
            return &devices[i];
    if (device_count == DEVICES)
        return NULL;
    snprintf(devices[device_count].name, sizeof devices->name, "%s", name);
    return &devices[device_count++];
}

static int text_answer(const char *device, const char *key, char *out, unsigned length)
{
    const char *value;
    int code = answer(device, key, &value);
    if (code == SUCCESS)
        snprintf(out, length, "%s", value);
    return code;
}

static int number_answer(const char *device, const char *key, unsigned *out)
{
    const char *value;
    int code = answer(device, key, &value);
    if (code == SUCCESS)
        *out = (unsigned)strtoul(value, NULL, 0);
    return code;
}

static int pair_answer(const char *device, const char *key, unsigned *first, unsigned *second)
{
    const char *value;
    int code = answer(device, key, &value);
    if (code == SUCCESS)
        sscanf(value, "%u %u", first, second);
    return code;
}

/* System */

int nvmlInitWithFlags(unsigned flags)
{
    const char *value;
    (void)flags;
    if (!line_count)
        load();
    int code = answer("-", "init", &value);
    return code == NOT_SUPPORTED ? SUCCESS : code;
}

int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int code)
{
    static char text[32];
    snprintf(text, sizeof text, "stand-in error %d", code);
    return text;
}

int nvmlSystemGetDriverVersion(char *out, unsigned length) { return text_answer("-", "driver", out, length); }
int nvmlSystemGetCudaDriverVersion_v2(int *out) { return number_answer("-", "cuda", (unsigned *)out); }
int nvmlDeviceGetCount_v2(unsigned *out) { return number_answer("-", "count", out); }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **out)
{
    char name[16];
    const char *value;
    snprintf(name, sizeof name, "%u", index);
    int code = answer(name, "handle", &value);
    if (code != SUCCESS && code != NOT_SUPPORTED)
        return code;
    *out = handle_of(name);
    return *out ? SUCCESS : INVALID_ARGUMENT;
}

/* One device */

int nvmlDeviceGetUUID(Device *d, char *out, unsigned length) { return text_answer(d->name, "uuid", out, length); }
int nvmlDeviceGetName(Device *d, char *out, unsigned length) { return text_answer(d->name, "name", out, length); }
int nvmlDeviceGetArchitecture(Device *d, unsigned *out) { return number_answer(d->name, "architecture", out); }
int nvmlDeviceGetNumGpuCores(Device *d, unsigned *out) { return number_answer(d->name, "cores", out); }
int nvmlDeviceGetPersistenceMode(Device *d, unsigned *out) { return number_answer(d->name, "persistence", out); }
int nvmlDeviceGetEnforcedPowerLimit(Device *d, unsigned *out) { return number_answer(d->name, "limit", out); }
int nvmlDeviceGetPowerManagementDefaultLimit(Device *d, unsigned *out)
{
    return number_answer(d->name, "default_limit", out);
}
int nvmlDeviceGetPowerUsage(Device *d, unsigned *out) { return number_answer(d->name, "power", out); }
int nvmlDeviceGetCurrPcieLinkGeneration(Device *d, unsigned *out) { return number_answer(d->name, "pcie_gen", out); }
int nvmlDeviceGetCurrPcieLinkWidth(Device *d, unsigned *out) { return number_answer(d->name, "pcie_width", out); }
int nvmlDeviceGetMaxPcieLinkGeneration(Device *d, unsigned *out) { return number_answer(d->name, "pcie_max_gen", out); }
int nvmlDeviceGetMaxPcieLinkWidth(Device *d, unsigned *out) { return number_answer(d->name, "pcie_max_width", out); }
int nvmlDeviceGetEccMode(Device *d, unsigned *now, unsigned *next) { return pair_answer(d->name, "ecc", now, next); }
int nvmlDeviceGetMigMode(Device *d, unsigned *now, unsigned *next) { return pair_answer(d->name, "mig", now, next); }
int nvmlDeviceGetMaxMigDeviceCount(Device *d, unsigned *out) { return number_answer(d->name, "mig_count", out); }

int nvmlDeviceGetCudaComputeCapability(Device *d, int *major, int *minor)
{
    return pair_answer(d->name, "capability", (unsigned *)major, (unsigned *)minor);
}

int nvmlDeviceGetMigDeviceHandleByIndex(Device *d, unsigned index, Device **out)
{
    char name[16];
    if (snprintf(name, sizeof name, "%.8s.%u", d->name, index) >= (int)sizeof name || !find(name, "uuid", 1))
        return NOT_FOUND;
    *out = handle_of(name);
    return *out ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetNvLinkState(Device *d, unsigned link, unsigned *out)
{
    char key[32];
    snprintf(key, sizeof key, "nvlink%u", link);
    return number_answer(d->name, key, out);
}

int nvmlDeviceGetUtilizationRates(Device *d, unsigned *out) { return pair_answer(d->name, "use", out, out + 1); }

int nvmlDeviceGetClockInfo(Device *d, unsigned type, unsigned *out)
{
    return number_answer(d->name, type == 1 ? "sm_clock" : "memory_clock", out);
}

int nvmlDeviceGetMaxClockInfo(Device *d, unsigned type, unsigned *out)
{
    return number_answer(d->name, type == 1 ? "sm_clock_max" : "memory_clock_max", out);
}

int nvmlDeviceGetTemperature(Device *d, unsigned sensor, unsigned *out)
{
    (void)sensor;
    return number_answer(d->name, "temperature", out);
}

static int reasons(Device *d, unsigned long long *out)
{
    unsigned value = 0;
    int code = number_answer(d->name, "throttle", &value);
    *out = value;
    return code;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(Device *d, unsigned long long *out) { return reasons(d, out); }

typedef struct {
    unsigned long long total, free, used;
} Memory;

int nvmlDeviceGetMemoryInfo(Device *d, Memory *out)
{
    const char *value;
    int code = answer(d->name, "memory1", &value);
    if (code == SUCCESS) {
        sscanf(value, "%llu %llu", &out->total, &out->used);
        out->free = out->total - out->used;
    }
    return code;
}

#ifndef WITHOUT_V2
typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} Memory2;

int nvmlDeviceGetMemoryInfo_v2(Device *d, Memory2 *out)
{
    const char *value;
    if (out->version != (sizeof(Memory2) | 2u << 24))
        return 25; /* NVML_ERROR_ARGUMENT_VERSION_MISMATCH */
    int code = answer(d->name, "memory2", &value);
    if (code == SUCCESS) {
        sscanf(value, "%llu %llu %llu", &out->total, &out->reserved, &out->used);
        out->free = out->total - out->reserved - out->used;
    }
    return code;
}

typedef struct {
    unsigned version, sensor;
    int temperature;
} Temperature;

int nvmlDeviceGetTemperatureV(Device *d, Temperature *out)
{
    return number_answer(d->name, "temperature", (unsigned *)&out->temperature);
}

int nvmlDeviceGetCurrentClocksEventReasons(Device *d, unsigned long long *out) { return reasons(d, out); }
#endif

typedef struct {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
} Process;

static int processes(Device *d, const char *key, unsigned *count, Process *out)
{
    unsigned found = 0, room = out ? *count : 0;
    const char *all = find(d->name, "everything", count_call(d->name, "everything"));
    if (all && all[0] == '!')
        return atoi(all + 1);
    for (int i = 0; i < line_count; i++) {
        char memory[32] = "na";
        unsigned pid;
        if (strcmp(lines[i].device, d->name) || strcmp(lines[i].key, key))
            continue;
        if (lines[i].value[0] == '!')
            return atoi(lines[i].value + 1);
        if (sscanf(lines[i].value, "%u %31s", &pid, memory) < 1)
            continue;
        if (found < room) {
            out[found].pid = pid;
            out[found].memory = strcmp(memory, "na") ? strtoull(memory, NULL, 0) : NOT_AVAILABLE;
            out[found].gpu_instance = out[found].compute_instance = 0xFFFFFFFFu;
        }
        found++;
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device *d, unsigned *count, Process *out)
{
    return processes(d, "compute", count, out);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(Device *d, unsigned *count, Process *out)
{
    return processes(d, "graphics", count, out);
}
