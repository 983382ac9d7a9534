/* A libnvidia-ml.so.1 for tests: answers from the text file named by FAKE_NVML_STATE, which is
 * read anew when it was replaced, so that a test changes a card while somebody reads it.
 *
 *   driver=580.95.05                     count=2
 *   gpu.0.uuid=GPU-…   gpu.0.name=NVIDIA H200
 *   gpu.0.memory_total=…  gpu.0.memory_used=…      a missing line is "not supported"
 *   gpu.0.utilisation=37  gpu.0.power=312000 (mW)  gpu.0.energy=… (mJ)  gpu.0.temperature=54
 *   gpu.0.ecc_corrected=3  gpu.0.ecc_uncorrected=0  gpu.0.capability=9.0
 *   gpu.0.process.0=4242:40000000000               pid:bytes, or the pid alone
 *   gpu.0.mig=1  gpu.0.mig.2.uuid=MIG-…            slices; each has members as a card has
 *   nvlink.0.1=1  topology.0.1=20                  between two cards (either order)
 *   event.0=1:79                                   the first event: Xid 79 of card 1; event.1=…
 *                                                  1:79:3 is of its GPU instance 3
 *   fail.nvmlDeviceGetCount=18                     that function answers this code
 *   fail.1.nvmlDeviceGetUUID=15                    … for this card
 *   lost.1=1                                       every call about this card: "GPU is lost"
 *   hang.nvmlDeviceGetCount=30                     … after so many seconds
 *
 * Function names here are without their version suffix.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3,
    NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, TIMEOUT = 10, GPU_IS_LOST = 15,
    VERSION_MISMATCH = 25
};

#define CARDS_MAX 64
#define SLICES_MAX 7
#define VALUE_MAX 128
#define STATE_MAX 65536
#define XID_CRITICAL_ERROR 8ULL

typedef struct { int index, slice; } Card; /* slice: -1 is the card itself */
typedef struct { Card *card; unsigned long long type, data; unsigned gpu_instance, compute_instance; } Event;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned pid; unsigned long long bytes; unsigned gpu_instance, compute_instance; } Process;

static Card cards[CARDS_MAX], slices[CARDS_MAX][SLICES_MAX];
static int initialised;
static unsigned next_event;

/* ---- the state file ------------------------------------------------------------------ */

/* The whole file, as lines that begin with a line feed. */
static const char *state(void) {
    static char text[STATE_MAX] = "\n";
    static struct stat seen;
    struct stat now;
    const char *path = getenv("FAKE_NVML_STATE");
    FILE *file;
    size_t length;

    if (!path || stat(path, &now)) return "\n";
    if (now.st_ino == seen.st_ino && now.st_size == seen.st_size
        && now.st_mtim.tv_sec == seen.st_mtim.tv_sec && now.st_mtim.tv_nsec == seen.st_mtim.tv_nsec)
        return text;
    if (!(file = fopen(path, "re"))) return "\n";
    length = fread(text + 1, 1, sizeof text - 2, file);
    text[length + 1] = '\0';
    fclose(file);
    seen = now;
    return text;
}

static int lookup(const char *key, char value[VALUE_MAX]) {
    char wanted[VALUE_MAX + 2];
    const char *line;

    snprintf(wanted, sizeof wanted, "\n%s=", key);
    if (!(line = strstr(state(), wanted))) return 0;
    line += strlen(wanted);
    snprintf(value, VALUE_MAX, "%.*s", (int)strcspn(line, "\r\n"), line);
    return 1;
}

static int card_text(const Card *card, const char *member, char value[VALUE_MAX]) {
    char key[VALUE_MAX];
    if (card->slice < 0) snprintf(key, sizeof key, "gpu.%d.%s", card->index, member);
    else snprintf(key, sizeof key, "gpu.%d.mig.%d.%s", card->index, card->slice, member);
    return lookup(key, value);
}

static int card_number(const Card *card, const char *member, unsigned long long *number) {
    char value[VALUE_MAX];
    if (!card_text(card, member, value)) return 0;
    *number = strtoull(value, NULL, 10);
    return 1;
}

static int count_cards(void) {
    char value[VALUE_MAX];
    int count = lookup("count", value) ? atoi(value) : 0;
    return count < CARDS_MAX ? count : CARDS_MAX;
}

/* What every function does first: hang, fail or go on. `index` is -1 where no card is meant. */
static int enter(const char *function, int index) {
    char key[VALUE_MAX], value[VALUE_MAX];

    snprintf(key, sizeof key, "hang.%s", function);
    if (lookup(key, value)) sleep((unsigned)atoi(value));
    snprintf(key, sizeof key, "fail.%s", function);
    if (lookup(key, value)) return atoi(value);
    if (!initialised) return UNINITIALIZED;
    if (index < 0) return SUCCESS;
    snprintf(key, sizeof key, "fail.%d.%s", index, function);
    if (lookup(key, value)) return atoi(value);
    snprintf(key, sizeof key, "lost.%d", index);
    return lookup(key, value) && atoi(value) ? GPU_IS_LOST : SUCCESS;
}

static int copy(const char *value, char *out, unsigned size) {
    if (strlen(value) + 1 > size) return INSUFFICIENT_SIZE;
    strcpy(out, value);
    return SUCCESS;
}

/* A function that tells one text, or one number, of one card. */
#define CARD_TEXT(function, member)                                        \
    int function(Card *card, char *out, unsigned size) {                   \
        char value[VALUE_MAX];                                             \
        int result = card ? enter(#function, card->index) : INVALID_ARGUMENT; \
        if (result) return result;                                         \
        return card_text(card, member, value) ? copy(value, out, size) : NOT_SUPPORTED; \
    }

#define CARD_NUMBER(function, member)                                      \
    int function(Card *card, unsigned *out) {                              \
        unsigned long long number;                                         \
        int result = card ? enter(#function, card->index) : INVALID_ARGUMENT; \
        if (result) return result;                                         \
        if (!card_number(card, member, &number)) return NOT_SUPPORTED;     \
        *out = (unsigned)number;                                           \
        return SUCCESS;                                                    \
    }

/* ---- the library --------------------------------------------------------------------- */

int nvmlInitWithFlags(unsigned flags) {
    char value[VALUE_MAX];
    (void)flags;
    if (!getenv("FAKE_NVML_STATE")) return DRIVER_NOT_LOADED;
    if (lookup("fail.nvmlInit", value)) return atoi(value);
    initialised++;
    return SUCCESS;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void) {
    if (!initialised) return UNINITIALIZED;
    initialised--;
    return SUCCESS;
}

const char *nvmlErrorString(int result) {
    switch (result) {
    case SUCCESS: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NOT_FOUND: return "Not Found";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case TIMEOUT: return "Timeout";
    case GPU_IS_LOST: return "GPU is lost";
    case 18: return "Driver/library version mismatch";
    default: return "Unknown Error";
    }
}

int nvmlSystemGetDriverVersion(char *out, unsigned size) {
    char value[VALUE_MAX];
    int result = enter("nvmlSystemGetDriverVersion", -1);
    if (result) return result;
    return lookup("driver", value) ? copy(value, out, size) : NOT_SUPPORTED;
}

int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    char value[VALUE_MAX];
    int result = enter("nvmlSystemGetCudaDriverVersion", -1);
    if (result) return result;
    if (!lookup("cuda", value)) return NOT_SUPPORTED;
    *version = atoi(value);
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    int result = enter("nvmlDeviceGetCount", -1);
    if (!result) *count = (unsigned)count_cards();
    return result;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Card **card) {
    int result = enter("nvmlDeviceGetHandleByIndex", (int)index);
    if (result) return result;
    if ((int)index >= count_cards()) return INVALID_ARGUMENT;
    cards[index].index = (int)index;
    cards[index].slice = -1;
    *card = &cards[index];
    return SUCCESS;
}

int nvmlDeviceGetMigMode(Card *card, unsigned *current, unsigned *pending) {
    unsigned long long number;
    int result = card ? enter("nvmlDeviceGetMigMode", card->index) : INVALID_ARGUMENT;
    if (result) return result;
    if (!card_number(card, "mig", &number)) return NOT_SUPPORTED;
    *current = *pending = (unsigned)number;
    return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(Card *card, unsigned *count) {
    int result = card ? enter("nvmlDeviceGetMaxMigDeviceCount", card->index) : INVALID_ARGUMENT;
    if (!result) *count = SLICES_MAX;
    return result;
}

int nvmlDeviceGetMigDeviceHandleByIndex(Card *card, unsigned index, Card **slice) {
    char value[VALUE_MAX];
    int result = card ? enter("nvmlDeviceGetMigDeviceHandleByIndex", card->index) : INVALID_ARGUMENT;
    if (result) return result;
    if (index >= SLICES_MAX) return INVALID_ARGUMENT;
    *slice = &slices[card->index][index];
    (*slice)->index = card->index;
    (*slice)->slice = (int)index;
    return card_text(*slice, "uuid", value) ? SUCCESS : NOT_FOUND;
}

CARD_NUMBER(nvmlDeviceGetGpuInstanceId, "gpu_instance")

CARD_TEXT(nvmlDeviceGetUUID, "uuid")
CARD_TEXT(nvmlDeviceGetName, "name")
CARD_NUMBER(nvmlDeviceGetPowerUsage, "power")
CARD_NUMBER(nvmlDeviceGetEnforcedPowerLimit, "power_limit")

int nvmlDeviceGetTotalEnergyConsumption(Card *card, unsigned long long *out) {
    int result = card ? enter("nvmlDeviceGetTotalEnergyConsumption", card->index) : INVALID_ARGUMENT;
    if (result) return result;
    return card_number(card, "energy", out) ? SUCCESS : NOT_SUPPORTED;
}

/* kind 0 is corrected, 1 uncorrected; counter 0 is since the driver started. */
int nvmlDeviceGetTotalEccErrors(Card *card, int kind, int counter, unsigned long long *out) {
    int result = card ? enter("nvmlDeviceGetTotalEccErrors", card->index) : INVALID_ARGUMENT;
    if (result) return result;
    if (counter) return INVALID_ARGUMENT;
    return card_number(card, kind ? "ecc_uncorrected" : "ecc_corrected", out) ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetCudaComputeCapability(Card *card, int *major, int *minor) {
    char value[VALUE_MAX];
    int result = card ? enter("nvmlDeviceGetCudaComputeCapability", card->index) : INVALID_ARGUMENT;
    if (result) return result;
    if (!card_text(card, "capability", value)) return NOT_SUPPORTED;
    return sscanf(value, "%d.%d", major, minor) == 2 ? SUCCESS : INVALID_ARGUMENT;
}

static int pair_number(const char *what, const Card *one, const Card *other, int *number) {
    char key[VALUE_MAX], value[VALUE_MAX];
    snprintf(key, sizeof key, "%s.%d.%d", what, one->index, other->index);
    if (!lookup(key, value)) {
        snprintf(key, sizeof key, "%s.%d.%d", what, other->index, one->index);
        if (!lookup(key, value)) return 0;
    }
    *number = atoi(value);
    return 1;
}

/* way 2 is NVLink; 0 is "works", 5 "not supported". */
int nvmlDeviceGetP2PStatus(Card *one, Card *other, int way, int *status) {
    int number = 0;
    int result = one && other ? enter("nvmlDeviceGetP2PStatus", one->index) : INVALID_ARGUMENT;
    if (result) return result;
    *status = way == 2 && pair_number("nvlink", one, other, &number) && number ? 0 : 5;
    return SUCCESS;
}

int nvmlDeviceGetTopologyCommonAncestor(Card *one, Card *other, int *level) {
    int result = one && other ? enter("nvmlDeviceGetTopologyCommonAncestor", one->index) : INVALID_ARGUMENT;
    if (result) return result;
    return pair_number("topology", one, other, level) ? SUCCESS : NOT_SUPPORTED;
}

/* ---- events: each line "event.N" is told once, in order --------------------------------- */

int nvmlEventSetCreate(void **set) {
    int result = enter("nvmlEventSetCreate", -1);
    if (!result) *set = &next_event;
    return result;
}

int nvmlEventSetFree(void *set) { return set ? SUCCESS : INVALID_ARGUMENT; }

int nvmlDeviceRegisterEvents(Card *card, unsigned long long types, void *set) {
    int result = card && set ? enter("nvmlDeviceRegisterEvents", card->index) : INVALID_ARGUMENT;
    return result ? result : types & XID_CRITICAL_ERROR ? SUCCESS : NOT_SUPPORTED;
}

int nvmlEventSetWait_v2(void *set, Event *out, unsigned milliseconds) {
    char key[VALUE_MAX], value[VALUE_MAX];
    int index, code, instance = -1;
    int result = set ? enter("nvmlEventSetWait", -1) : INVALID_ARGUMENT;
    (void)milliseconds;
    if (result) return result;
    snprintf(key, sizeof key, "event.%u", next_event);
    if (!lookup(key, value) || sscanf(value, "%d:%d:%d", &index, &code, &instance) < 2) return TIMEOUT;
    if (index < 0 || index >= CARDS_MAX) return INVALID_ARGUMENT;
    next_event++;
    cards[index].index = index;
    cards[index].slice = -1;
    *out = (Event){&cards[index], XID_CRITICAL_ERROR, (unsigned long long)code, (unsigned)instance, ~0u};
    return SUCCESS;
}

int nvmlDeviceGetTemperature(Card *card, int sensor, unsigned *out) {
    unsigned long long number;
    int result = card && sensor == 0 ? enter("nvmlDeviceGetTemperature", card->index) : INVALID_ARGUMENT;
    if (result) return result;
    if (!card_number(card, "temperature", &number)) return NOT_SUPPORTED;
    *out = (unsigned)number;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(Card *card, Memory *out) {
    int result = card ? enter("nvmlDeviceGetMemoryInfo", card->index) : INVALID_ARGUMENT;
    if (result) return result;
    if (!card_number(card, "memory_total", &out->total)) return NOT_SUPPORTED;
    if (!card_number(card, "memory_used", &out->used)) out->used = 0;
    out->free = out->total - out->used;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(Card *card, MemoryV2 *out) {
    Memory memory;
    int result = nvmlDeviceGetMemoryInfo(card, &memory);
    if (result) return result;
    if (out->version != (0x02000000u | sizeof *out)) return VERSION_MISMATCH;
    out->total = memory.total;
    out->used = memory.used;
    out->free = memory.free;
    out->reserved = 0;
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(Card *card, Utilization *out) {
    unsigned long long number;
    int result = card ? enter("nvmlDeviceGetUtilizationRates", card->index) : INVALID_ARGUMENT;
    if (result) return result;
    if (!card_number(card, "utilisation", &number)) return NOT_SUPPORTED;
    out->gpu = (unsigned)number;
    out->memory = 0;
    return SUCCESS;
}

/* Asked twice: first with no room, to learn the number, then with room for it. */
int nvmlDeviceGetComputeRunningProcesses_v3(Card *card, unsigned *count, Process *out) {
    char member[VALUE_MAX], value[VALUE_MAX];
    unsigned room = *count, found = 0;
    int result = card ? enter("nvmlDeviceGetComputeRunningProcesses", card->index) : INVALID_ARGUMENT;

    if (result) return result;
    for (;; found++) {
        snprintf(member, sizeof member, "process.%u", found);
        if (!card_text(card, member, value)) break;
        if (out && found < room) {
            const char *bytes = strchr(value, ':');
            out[found].pid = (unsigned)strtoul(value, NULL, 10);
            out[found].bytes = bytes ? strtoull(bytes + 1, NULL, 10) : ~0ULL;
            out[found].gpu_instance = out[found].compute_instance = ~0u;
        }
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}
