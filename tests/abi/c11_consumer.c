/* Every public header in a strict C11 program, a call of each kind, and the sizes that the ABI promises.
 * Compiled with -std=c11 -Wpedantic and this project's warnings; run against the emulator. */
#include <jal/jal.h>
#include <stdio.h>
#include <string.h>

/* Structs that cross the ABI keep their size for the life of version 0 of the map; a change needs a new function. */
_Static_assert(sizeof(jal_init_options) == 80, "jal_init_options");
_Static_assert(sizeof(jal_device_info) == 272, "jal_device_info");
_Static_assert(sizeof(jal_memory_options) == 56, "jal_memory_options");
_Static_assert(sizeof(jal_memory_info) == 88, "jal_memory_info");
_Static_assert(sizeof(jal_memory_layers) == 104, "jal_memory_layers");
_Static_assert(sizeof(jal_stream_options) == 56, "jal_stream_options");
_Static_assert(sizeof(jal_kernel_info) == 304, "jal_kernel_info");
_Static_assert(sizeof(jal_argument) == 16, "jal_argument");
_Static_assert(sizeof(jal_launch_options) == 48, "jal_launch_options");
_Static_assert(sizeof(jal_tensor_host) == 56, "jal_tensor_host");
_Static_assert(sizeof(jal_tensor_info) == 256, "jal_tensor_info");
_Static_assert(sizeof(jal_telemetry) == 752, "jal_telemetry");

#define CHECK(call)                                                                               \
  do {                                                                                            \
    const jal_status_t status_ = (call);                                                          \
    if (status_ != JAL_OK) {                                                                      \
      fprintf(stderr, "%s: %s: %s\n", #call, jal_status_name(status_), jal_last_error_message()); \
      return 1;                                                                                   \
    }                                                                                             \
  } while (0)

int main(void) {
  jal_init_options options = {0};
  options.struct_size = sizeof options;
  options.model = "jal-test4";
  CHECK(jal_init(&options));
  jal_device_t device = NULL;
  CHECK(jal_device_get(0, &device));
  jal_device_info info = {0};
  info.struct_size = sizeof info;
  CHECK(jal_device_get_info(device, &info));
  printf("%s %s, %u cores, libjal %s\n", info.model, info.uuid, (unsigned)info.cores, jal_version());

  jal_memory_options wanted = {0};
  wanted.struct_size = sizeof wanted;
  wanted.bytes_per_slice = 256;
  jal_memory_t memory = NULL;
  CHECK(jal_memory_alloc(device, &wanted, &memory));
  jal_address_t address = 0;
  CHECK(jal_memory_address(memory, 1, 0, &address));

  jal_stream_t stream = NULL;
  CHECK(jal_stream_create(device, NULL, &stream));
  jal_event_t before = NULL, after = NULL;
  CHECK(jal_event_create(device, &before));
  CHECK(jal_event_create(device, &after));
  char out[256], in[256];
  for (int i = 0; i < 256; ++i) out[i] = (char)i;
  memset(in, 0, sizeof in);
  CHECK(jal_event_record(before, stream));
  CHECK(jal_copy_to_device(stream, address, out, sizeof out));
  CHECK(jal_copy_to_host(stream, in, address, sizeof in));
  CHECK(jal_event_record(after, stream));
  CHECK(jal_stream_synchronize(stream, jal_clock_deadline(10000000000u)));
  int64_t elapsed = 0;
  uint32_t clock_kind = 99;
  CHECK(jal_event_elapsed_ps(before, after, &elapsed, &clock_kind));
  if (memcmp(out, in, sizeof in) != 0 || elapsed <= 0 || strcmp(jal_clock_kind_name(clock_kind), "virtual") != 0) {
    fprintf(stderr, "read back or elapsed time (%lld ps) is wrong\n", (long long)elapsed);
    return 1;
  }

  CHECK(jal_memory_free(memory));
  if (jal_memory_free(memory) != JAL_ERROR_STALE_HANDLE || jal_last_error_message()[0] == '\0') return 1;
  CHECK(jal_event_destroy(before));
  CHECK(jal_event_destroy(after));
  CHECK(jal_stream_destroy(stream));
  CHECK(jal_shutdown());
  return jal_init(NULL) == JAL_OK && jal_shutdown() == JAL_OK && jal_shutdown() == JAL_ERROR_NOT_INITIALISED ? 0 : 1;
}
