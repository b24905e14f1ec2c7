/* A simulated NVML, NVIDIA's management library, for tests of placement and of error handling.
 *
 * It is built as libnvidia-ml.so.1, and pynvml loads it like NVML. It returns the values of a file (its
 * path is in RNNSWEEP_SIMULATED_NVML). None of its values is evidence of a GPU.
 *
 * The file has one entry per line. Entries before the first `gpu` belong to the node.
 *
 *   began SECONDS                       of CLOCK_MONOTONIC: when the values began
 *   driver TEXT | cuda NUMBER           of the node
 *   gpu                                 the next GPU begins
 *   name TEXT | uuid TEXT
 *   process PID BYTES
 *   value NAME BASE PER_S EVERY_S       BASE + PER_S per second since then, in steps of EVERY_S;
 *                                       NAME is a field of `SimulatedGpu`, in its unit
 *   error CALL CODE FROM_CALL           the call (`*`: every call) returns this nvmlReturn_t;
 *                                       below 0: the call hangs for this many milliseconds
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6,
       INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9 };

#define MAX_GPUS 16
#define MAX_VALUES 128
#define MAX_ERRORS 64
#define MAX_PROCESSES 16
#define TEXT 128
#define MIB 1048576.0

typedef struct { char name[48]; double base, per_s, every_s; } Value;
typedef struct { char call[80]; int code; long from_call, calls; } Error;
typedef struct { unsigned pid; unsigned long long bytes; } Process;
typedef struct {
    char name[TEXT], uuid[TEXT];
    Value values[MAX_VALUES]; int n_values;
    Error errors[MAX_ERRORS]; int n_errors;
    Process processes[MAX_PROCESSES]; int n_processes;
} Gpu;

/* As in nvml.h. */
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;
typedef struct { unsigned pid; unsigned long long bytes; unsigned gpu, compute; } ProcessInfo;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int opened = 0;
static double began_s;
static char driver[TEXT];
static int cuda;
static Gpu node;             /* the node's own errors */
static Gpu gpus[MAX_GPUS];
static int n_gpus;
static struct timespec read_at;

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void add(Gpu *to, const char *line) {
    char word[80], text[TEXT];
    Value *value = &to->values[to->n_values];
    Error *error = &to->errors[to->n_errors];
    Process *process = &to->processes[to->n_processes];
    if (sscanf(line, "name %127[^\n]", text) == 1) snprintf(to->name, TEXT, "%s", text);
    else if (sscanf(line, "uuid %127[^\n]", text) == 1) snprintf(to->uuid, TEXT, "%s", text);
    else if (to->n_processes < MAX_PROCESSES
             && sscanf(line, "process %u %llu", &process->pid, &process->bytes) == 2)
        to->n_processes++;
    else if (to->n_values < MAX_VALUES
             && sscanf(line, "value %47s %lf %lf %lf", value->name, &value->base, &value->per_s,
                       &value->every_s) == 4)
        to->n_values++;
    else if (to->n_errors < MAX_ERRORS
             && sscanf(line, "error %79s %d %ld", error->call, &error->code,
                       &error->from_call) == 3)
        to->n_errors++, error->calls = 0;
    else if (sscanf(line, "%79s", word) == 1)
        fprintf(stderr, "simulated NVML: cannot read: %s", line), abort();
}

/* Read the file if it has changed, and reset the counts of calls. */
static int load(void) {
    const char *path = getenv("RNNSWEEP_SIMULATED_NVML");
    char line[512];
    struct stat found;
    if (!path || stat(path, &found)) return DRIVER_NOT_LOADED;
    if (!memcmp(&found.st_mtim, &read_at, sizeof read_at)) return SUCCESS;
    FILE *file = fopen(path, "r");
    if (!file) return DRIVER_NOT_LOADED;
    read_at = found.st_mtim;
    memset(&node, 0, sizeof node), memset(gpus, 0, sizeof gpus), n_gpus = 0;
    while (fgets(line, sizeof line, file)) {
        if (!strncmp(line, "gpu", 3)) { if (n_gpus < MAX_GPUS) n_gpus++; }
        else if (n_gpus) add(&gpus[n_gpus - 1], line);
        else if (sscanf(line, "began %lf", &began_s) == 1) continue;
        else if (sscanf(line, "driver %127[^\n]", driver) == 1) continue;
        else if (sscanf(line, "cuda %d", &cuda) == 1) continue;
        else add(&node, line);
    }
    fclose(file);
    return SUCCESS;
}

static int error_of(Gpu *of, const char *call) {
    int code = SUCCESS;
    for (int i = 0; i < of->n_errors; i++) {
        Error *error = &of->errors[i];
        if (strcmp(error->call, "*") && strcmp(error->call, call)) continue;
        if (++error->calls >= error->from_call) code = error->code;
    }
    if (code < 0) {
        struct timespec rest = {-code / 1000, -code % 1000 * 1000000L};
        pthread_mutex_unlock(&lock), nanosleep(&rest, NULL), pthread_mutex_lock(&lock);
        return SUCCESS;
    }
    return code;
}

static int refusal(Gpu *gpu, const char *call) {
    int code = opened ? load() : UNINITIALIZED;
    if (!code && gpu != &node && (gpu < gpus || gpu >= gpus + n_gpus)) code = INVALID_ARGUMENT;
    if (!code) code = error_of(&node, call);
    if (!code && gpu != &node) code = error_of(gpu, call);
    return code;
}

/* Compute the present value of an entry; return 0 if the file has no such entry. */
static int value_of(Gpu *gpu, const char *name, double *result) {
    for (int i = 0; i < gpu->n_values; i++) {
        Value *value = &gpu->values[i];
        if (strcmp(value->name, name)) continue;
        double since_s = now_s() - began_s;
        if (value->every_s > 0) since_s = (long long)(since_s / value->every_s) * value->every_s;
        *result = value->base + value->per_s * since_s;
        return 1;
    }
    return 0;
}

#define BEGIN(gpu, call) pthread_mutex_lock(&lock); int code = refusal(gpu, call)
#define END pthread_mutex_unlock(&lock); return code

/* A call that returns one number, rounded to its unit. */
#define ONE_NUMBER(call, type, name, scale)                            \
    int call(Gpu *gpu, type *result) {                              \
        BEGIN(gpu, #call);                                        \
        double value = 0;                                         \
        if (!code && !value_of(gpu, name, &value)) code = NOT_SUPPORTED; \
        if (!code) *result = (type)(scale * value + 0.5);           \
        END;                                                      \
    }

/* A call that returns one number of several kinds, by the names of kind 0, 1, … */
#define NUMBER_OF_KIND(call, type, ...)                                 \
    int call(Gpu *gpu, unsigned kind, type *result) {               \
        BEGIN(gpu, #call);                                        \
        const char *names[] = {__VA_ARGS__};                      \
        const char *name = kind < sizeof names / sizeof *names ? names[kind] : ""; \
        double value = 0;                                         \
        if (!code && !value_of(gpu, name, &value)) code = NOT_SUPPORTED; \
        if (!code) *result = (type)value;                           \
        END;                                                      \
    }

/* A call that returns two numbers. */
#define TWO_NUMBERS(call, type, first, second)                      \
    int call(Gpu *gpu, type *one, type *other) {                  \
        BEGIN(gpu, #call);                                        \
        double a = 0, b = 0;                                      \
        if (!code && !(value_of(gpu, first, &a) && value_of(gpu, second, &b))) \
            code = NOT_SUPPORTED;                                 \
        if (!code) *one = (type)a, *other = (type)b;              \
        END;                                                      \
    }

ONE_NUMBER(nvmlDeviceGetPowerUsage, unsigned, "power_w", 1000)
ONE_NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned, "power_limit_w", 1000)
ONE_NUMBER(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, "energy_j", 1000)
ONE_NUMBER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, "clock_reasons", 1)
ONE_NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, "clock_reasons", 1)
NUMBER_OF_KIND(nvmlDeviceGetTemperature, unsigned, "temperature_c")
NUMBER_OF_KIND(nvmlDeviceGetClockInfo, unsigned, "", "sm_clock_mhz")
TWO_NUMBERS(nvmlDeviceGetMigMode, unsigned, "mig", "mig")
TWO_NUMBERS(nvmlDeviceGetCudaComputeCapability, int, "capability_major", "capability_minor")

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    pthread_mutex_lock(&lock);
    if (!opened) memset(&read_at, 0, sizeof read_at);
    int code = load();
    if (!code) code = error_of(&node, "nvmlInitWithFlags");
    if (!code) opened++;
    END;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void) {
    BEGIN(&node, "nvmlShutdown");
    if (!code) opened--;
    END;
}

const char *nvmlErrorString(int code) {
    static __thread char text[48];
    snprintf(text, sizeof text, "simulated error %d", code);
    return text;
}

int nvmlSystemGetDriverVersion(char *result, unsigned size) {
    BEGIN(&node, "nvmlSystemGetDriverVersion");
    if (!code) snprintf(result, size, "%s", driver);
    END;
}

static int cuda_version(const char *call, int *result) {
    BEGIN(&node, call);
    if (!code) *result = cuda;
    END;
}
int nvmlSystemGetCudaDriverVersion(int *result) {
    return cuda_version("nvmlSystemGetCudaDriverVersion", result);
}
int nvmlSystemGetCudaDriverVersion_v2(int *result) {
    return cuda_version("nvmlSystemGetCudaDriverVersion_v2", result);
}

int nvmlDeviceGetCount_v2(unsigned *result) {
    BEGIN(&node, "nvmlDeviceGetCount_v2");
    if (!code) *result = n_gpus;
    END;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Gpu **result) {
    pthread_mutex_lock(&lock);
    int code = opened ? load() : UNINITIALIZED;
    if (!code && index >= (unsigned)n_gpus) code = INVALID_ARGUMENT;
    if (!code) code = refusal(&gpus[index], "nvmlDeviceGetHandleByIndex_v2");
    if (!code) *result = &gpus[index];
    END;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Gpu **result) {
    pthread_mutex_lock(&lock);
    int code = opened ? load() : UNINITIALIZED, at = 0;
    while (!code && at < n_gpus && strcmp(gpus[at].uuid, uuid)) at++;
    if (!code && at == n_gpus) code = NOT_FOUND;
    if (!code) code = refusal(&gpus[at], "nvmlDeviceGetHandleByUUID");
    if (!code) *result = &gpus[at];
    END;
}

int nvmlDeviceGetName(Gpu *gpu, char *result, unsigned size) {
    BEGIN(gpu, "nvmlDeviceGetName");
    if (!code) snprintf(result, size, "%s", gpu->name);
    END;
}

int nvmlDeviceGetUUID(Gpu *gpu, char *result, unsigned size) {
    BEGIN(gpu, "nvmlDeviceGetUUID");
    if (!code) snprintf(result, size, "%s", gpu->uuid);
    END;
}

int nvmlDeviceGetUtilizationRates(Gpu *gpu, Utilization *result) {
    BEGIN(gpu, "nvmlDeviceGetUtilizationRates");
    double value = 0;
    if (!code && !value_of(gpu, "utilization_pct", &value)) code = NOT_SUPPORTED;
    if (!code) result->gpu = result->memory = (unsigned)value;
    END;
}

int nvmlDeviceGetMemoryInfo(Gpu *gpu, Memory *result) {
    BEGIN(gpu, "nvmlDeviceGetMemoryInfo");
    double total = 0, used = 0, reserved = 0;
    value_of(gpu, "memory_mib", &total);
    value_of(gpu, "memory_used_mib", &used), value_of(gpu, "memory_reserved_mib", &reserved);
    if (!code) {
        result->total = MIB * total, result->used = MIB * (used + reserved);
        result->free = result->total - result->used;
    }
    END;
}

int nvmlDeviceGetMemoryInfo_v2(Gpu *gpu, MemoryV2 *result) {
    BEGIN(gpu, "nvmlDeviceGetMemoryInfo_v2");
    double total = 0, used = 0, reserved = 0;
    value_of(gpu, "memory_mib", &total);
    value_of(gpu, "memory_used_mib", &used), value_of(gpu, "memory_reserved_mib", &reserved);
    if (!code) {
        result->total = MIB * total, result->used = MIB * used, result->reserved = MIB * reserved;
        result->free = result->total - result->used - result->reserved;
    }
    END;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Gpu *gpu, unsigned *count, ProcessInfo *result) {
    BEGIN(gpu, "nvmlDeviceGetComputeRunningProcesses_v3");
    unsigned room = *count;
    if (!code) *count = gpu->n_processes;
    if (!code && room < *count) code = INSUFFICIENT_SIZE;
    for (unsigned i = 0; !code && result && i < *count; i++)
        result[i] = (ProcessInfo){gpu->processes[i].pid, gpu->processes[i].bytes, -1u, -1u};
    END;
}

/* If the library is preloaded (LD_PRELOAD), a process seems to have the CPUs of
 * RNNSWEEP_SIMULATED_CPUS, and may confine itself to any of them. */
int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set) {
    const char *cpus = getenv("RNNSWEEP_SIMULATED_CPUS");
    (void)pid;
    memset(set, 0, size);
    for (int i = 0; cpus && i < atoi(cpus); i++) CPU_SET_S(i, size, set);
    return 0;
}
int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set) {
    (void)pid, (void)size, (void)set;
    return 0;
}
