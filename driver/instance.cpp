// Contract: instance.hpp.
#include "driver/instance.hpp"

#include "driver/base/error_frames.hpp"

namespace jal::drv {

Result<std::unique_ptr<Instance>> Instance::open(const jal_instance_api& api, const jal_instance_options& options) {
  char words[1024] = "";
  jal_instance* instance = nullptr;
  const jal_status_t status = api.open(&options, &instance, words, sizeof words);
  if (status != JAL_OK) return fail(status, "{}", words[0] != '\0' ? words : status_text(status));
  return std::unique_ptr<Instance>(new Instance(api, instance));
}

}  // namespace jal::drv
