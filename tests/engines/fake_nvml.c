/* A libnvidia-ml.so.1 for tests: answers from the text file named by FAKE_NVML_STATE, which is
 * read anew on each call, so that a test changes a card by replacing the file.
 *
 *   driver=580.95.05                     count=2
 *   gpu.0.uuid=GPU-…   gpu.0.name=NVIDIA H200
 *   gpu.0.memory_total=…  gpu.0.memory_used=…      a missing line is "not supported"
 *   gpu.0.utilisation=37  gpu.0.power=312000 (mW)  gpu.0.temperature=54
 *   gpu.0.process.0=4242:40000000000               pid:bytes, or the pid alone
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
#include <unistd.h>

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3,
    NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15,
    VERSION_MISMATCH = 25
};

#define CARDS_MAX 64
#define VALUE_MAX 128

typedef struct { int index; } Card;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned pid; unsigned long long bytes; unsigned gpu_instance, compute_instance; } Process;

static Card cards[CARDS_MAX];
static int initialised;

/* ---- the state file ------------------------------------------------------------------ */

static int lookup(const char *key, char value[VALUE_MAX]) {
    const char *path = getenv("FAKE_NVML_STATE");
    FILE *file = path ? fopen(path, "re") : NULL;
    size_t length = strlen(key);
    char line[512];
    int found = 0;

    if (!file) return 0;
    while (!found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\r\n")] = '\0';
        found = strncmp(line, key, length) == 0 && line[length] == '=';
    }
    fclose(file);
    if (found) snprintf(value, VALUE_MAX, "%s", line + length + 1);
    return found;
}

static int card_text(const Card *card, const char *member, char value[VALUE_MAX]) {
    char key[VALUE_MAX];
    snprintf(key, sizeof key, "gpu.%d.%s", card->index, member);
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
    *card = &cards[index];
    return SUCCESS;
}

CARD_TEXT(nvmlDeviceGetUUID, "uuid")
CARD_TEXT(nvmlDeviceGetName, "name")
CARD_NUMBER(nvmlDeviceGetPowerUsage, "power")
CARD_NUMBER(nvmlDeviceGetEnforcedPowerLimit, "power_limit")

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
